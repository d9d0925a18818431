//! `status` and `stop`: how the daemon of a home and port stands, and its end. A process is ended only on three signs that
//! agree: the lock is held, its owner wrote who it is, and the port answers with the same epoch.

use crate::bridge::{Holder, who_holds};
use crate::config::{Config, ServerConfig};
use crate::history::moment;
use crate::store::home::Home;
use crate::store::lock::{Owned, Owner, OwnerLock, mark};
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// How long a daemon may take to end in order.
const ENDING: Duration = Duration::from_secs(15);
/// How often the lock is looked at meanwhile. There is no event for it.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// How it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// None runs, and the port is free for one.
    Stopped,
    /// None runs here, and something else has the port.
    PortTaken(Holder),
    /// It serves.
    Serves(Owner),
    /// Something holds the home and does not serve, or not as who it says it is: it starts, ends, or hangs.
    Unproven(Option<Owner>),
}

/// Why nothing was ended, or nothing could be found out.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// It does not answer as who it says it is.
    #[error(
        "{} holds this home and port, and does not answer as a daemon: it may be starting, ending or hanging. Nothing was \
         ended. Try again, or end that process yourself", .0.as_ref().map_or("some process".to_owned(), ToString::to_string)
    )]
    Unproven(Option<Owner>),
    /// It was asked and did not end.
    #[error("{owner} was asked to end and has not after {} s. Look at its messages, or end process {} yourself", ENDING.as_secs(), owner.pid)]
    StillRuns {
        /// Which.
        owner: Owner,
    },
    /// The system did not pass on the signal.
    #[error("{owner} cannot be told to end: {error}")]
    Signal {
        /// Which.
        owner: Owner,
        /// Why.
        error: io::Error,
    },
    /// The lock cannot be looked at.
    #[error("{}: {error}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

impl DaemonError {
    /// Stable code: `unproven`, `still_runs`, `signal`, `io`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unproven(_) => "unproven",
            Self::StillRuns { .. } => "still_runs",
            Self::Signal { .. } => "signal",
            Self::Io { .. } => "io",
        }
    }
}

/// How the daemon of this home and port stands.
///
/// # Errors
/// [`DaemonError::Io`].
pub async fn standing(home: &Home, server: &ServerConfig) -> Result<Standing, DaemonError> {
    let path = home.daemon(server.port);
    let owned = OwnerLock::look(&path).map_err(|error| DaemonError::Io { path, error })?;
    let address = SocketAddr::new(server.bind, server.port);
    Ok(match owned {
        Owned::Free => match tokio::net::TcpListener::bind(address).await {
            Ok(_) => Standing::Stopped,
            Err(_) => Standing::PortTaken(who_holds(address).await),
        },
        Owned::By(owner) => match (owner, who_holds(address).await) {
            (Some(owner), Holder::Daemon { epoch, .. }) if epoch == owner.epoch => Standing::Serves(owner),
            (owner, _) => Standing::Unproven(owner),
        },
    })
}

/// Whether the program on disk is another one than what runs; `None`: that cannot be told.
pub(super) fn was_replaced(owner: &Owner) -> Option<bool> {
    Some(mark(&owner.program)? != *owner.program_mark.as_ref()?)
}

/// What is to be known about versions, in words; empty if all is one.
pub(super) fn about_versions(owner: &Owner) -> String {
    let version = env!("CARGO_PKG_VERSION");
    if owner.version != version {
        return format!(" This program is version {version}: `stop` and `serve` with it to use it.");
    }
    match was_replaced(owner) {
        Some(true) => {
            " Its program was replaced on disk since it started: stop and start it to use the new one.".to_owned()
        }
        Some(false) | None => String::new(),
    }
}

/// Carries out `status`: what to print, and whether the daemon serves.
///
/// # Errors
/// See [`DaemonError`].
pub async fn status(home: &Home, config: &Config, as_json: bool) -> Result<(String, bool), DaemonError> {
    let standing = standing(home, &config.server).await?;
    let serves = matches!(standing, Standing::Serves(_));
    let (port, root) = (config.server.port, home.root().display());
    if as_json {
        return Ok((format!("{}\n", told(&standing, config, home)), serves));
    }
    let text = match &standing {
        Standing::Stopped => {
            format!("No daemon runs for port {port} and {root}. Start one with `comfy-orchestrator serve`.\n")
        }
        Standing::PortTaken(holder) => {
            format!("No daemon runs for {root}, and port {port} is taken by {holder}. Choose another with --port.\n")
        }
        Standing::Serves(owner) => {
            let since = moment(owner.started_ms);
            format!("{owner} serves since {since}, home {root}.{}\n", about_versions(owner))
        }
        Standing::Unproven(owner) => format!("{}.\n", DaemonError::Unproven(owner.clone())),
    };
    Ok((text, serves))
}

fn told(standing: &Standing, config: &Config, home: &Home) -> Value {
    let (state, owner) = match standing {
        Standing::Stopped => ("stopped", None),
        Standing::PortTaken(_) => ("port_taken", None),
        Standing::Serves(owner) => ("serves", Some(owner)),
        Standing::Unproven(owner) => ("unproven", owner.as_ref()),
    };
    json!({
        "state": state,
        "port": config.server.port,
        "home": home.root(),
        "pid": owner.map(|owner| owner.pid),
        "version": owner.map(|owner| &owner.version),
        "this_version": env!("CARGO_PKG_VERSION"),
        "program": owner.map(|owner| &owner.program),
        "program_replaced": owner.and_then(was_replaced),
        "started_ms": owner.map(|owner| owner.started_ms),
    })
}

/// Carries out `stop`: ends the daemon in order and returns, once it is gone, what to print.
///
/// # Errors
/// See [`DaemonError`].
pub async fn stop(home: &Home, config: &Config, as_json: bool) -> Result<String, DaemonError> {
    let owner = match standing(home, &config.server).await? {
        Standing::Serves(owner) => owner,
        Standing::Unproven(owner) => return Err(DaemonError::Unproven(owner)),
        Standing::Stopped | Standing::PortTaken(_) => {
            let (port, root) = (config.server.port, home.root().display());
            return Ok(if as_json {
                format!("{}\n", json!({"stopped": false, "port": port}))
            } else {
                format!("No daemon runs for port {port} and {root}: there is nothing to stop.\n")
            });
        }
    };
    end(&owner)?;
    let path = home.daemon(config.server.port);
    let patience = Instant::now() + ENDING;
    loop {
        let owned = OwnerLock::look(&path).map_err(|error| DaemonError::Io { path: path.clone(), error })?;
        match owned {
            // Another one may have come at once.
            Owned::By(Some(now)) if now.epoch == owner.epoch => {}
            Owned::By(None) => {}
            Owned::Free | Owned::By(Some(_)) => break,
        }
        if Instant::now() > patience {
            return Err(DaemonError::StillRuns { owner });
        }
        sleep(LOOK_AGAIN).await;
    }
    Ok(if as_json {
        format!("{}\n", json!({"stopped": true, "port": owner.port, "pid": owner.pid}))
    } else {
        format!("{owner} has ended.\n")
    })
}

fn end(owner: &Owner) -> Result<(), DaemonError> {
    let failed = |error: io::Error| DaemonError::Signal { owner: owner.clone(), error };
    let pid = i32::try_from(owner.pid).ok().and_then(rustix::process::Pid::from_raw);
    let pid = pid.ok_or_else(|| failed(io::Error::from(io::ErrorKind::InvalidData)))?;
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).map_err(|error| failed(error.into()))
}
