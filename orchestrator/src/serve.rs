//! Puts the daemon together and takes it apart: home, stores, conversations, agents, and last of all the port.

use crate::agent::{self, AgentBackend};
use crate::bridge::{self, BindError, Bridge, Parts};
use crate::config::Config;
use crate::conversation::{Clock, Core, CoreParts, Found, Journal, KeeperParts};
use crate::fault;
use crate::hub::Hub;
use crate::store::home::{Home, HomeError, TokenError, TokenFile};
use crate::store::lock::{self, LockError, Owner, OwnerLock};
use crate::store::log::{LogError, SqliteLog};
use crate::store::sessions::{SessionStore, SessionsError};
use crate::tools::Handles;
use routing_core::frame::{BackendInfo, Model};
use routing_core::id::Backend;
use routing_core::router;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Messages that may wait for the conversations before senders are held back.
const INBOX: usize = 1_024;
/// How long agents may take to say whether they are there before the port opens without knowing.
const LOOK_FIRST: Duration = Duration::from_millis(40);
/// At a stop: how long panels may take for the last frames. With what turns and agents get, a stop stays under 5 s.
const SOCKETS_END: Duration = Duration::from_millis(500);

/// Why the daemon did not start. Nothing was left running.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The home folder.
    #[error(transparent)]
    Home(#[from] HomeError),
    /// The token file.
    #[error(transparent)]
    Token(#[from] TokenError),
    /// The log.
    #[error(transparent)]
    Log(#[from] LogError),
    /// The session file.
    #[error(transparent)]
    Sessions(#[from] SessionsError),
    /// The port.
    #[error(transparent)]
    Port(#[from] BindError),
    /// Another daemon has this home and port.
    #[error(transparent)]
    Owned(#[from] LockError),
}

impl ServeError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Home(error) => error.code(),
            Self::Token(error) => error.code(),
            Self::Log(error) => error.code(),
            Self::Sessions(error) => error.code(),
            Self::Port(error) => error.code(),
            Self::Owned(error) => error.code(),
        }
    }
}

/// What is known once sockets are served.
#[derive(Clone, Debug)]
pub struct Ready {
    /// The port.
    pub port: u16,
    /// Where the token is.
    pub token_file: PathBuf,
}

/// Runs the daemon until `stop`. `ready` is called once, when the port is open.
///
/// # Errors
/// See [`ServeError`]; only before `ready` was called.
pub async fn serve(
    config: Config,
    home: Home,
    stop: CancellationToken,
    ready: impl FnOnce(&Ready),
) -> Result<(), ServeError> {
    let clock = Clock::start();
    let reserved = bridge::reserve(&config.server).await?;
    let address = reserved.address();
    let epoch = uuid::Uuid::new_v4().simple().to_string()[..12].to_owned();
    // Held to the end: who finds it free knows that nothing of this daemon is at work any more.
    let mut owned = OwnerLock::acquire(&home.daemon(address.port()))?;
    if let Err(error) = owned.sign(&this_process(address.port(), &epoch, clock.now_ms())) {
        tracing::warn!(%error, "which process this is cannot be written, so `stop` and `status` will not know");
    }
    let token = Arc::new(TokenFile::open(&home)?);
    let log = SqliteLog::open(&home, address.port(), clock.now_ms())?;
    let sessions = SessionStore::open(&home, address.port(), &std::env::temp_dir(), clock.now_ms())?;
    let mut notices = Vec::new();
    for (what, aside) in [("conversations", &log.set_aside), ("agent sessions", &sessions.set_aside)] {
        if let Some(path) = aside {
            tracing::error!(path = %path.display(), "the file of the {what} could not be read and was set aside");
            let path = path.display();
            notices.push(format!(
                "⚠️ The file of the {what} could not be read. It was kept as {path}, and a new one was begun."
            ));
        }
    }
    if let Some(trouble) = &sessions.trouble {
        tracing::warn!(%trouble, "agent sessions");
    }
    let agents: BTreeMap<Backend, Arc<dyn AgentBackend>> =
        config.agents.iter().map(|(name, agent)| (Backend::parse(name), agent::build(name, agent))).collect();
    let default = Backend::parse(&config.default_agent);
    let (found, looked) = look_at(agents.clone(), default.clone()).await;
    let handles = Arc::new(Handles::new(address));
    let journal = Journal::new(Arc::new(log.store));
    let (hub, inbox) = Hub::new(INBOX);
    let limits = &config.limits;
    let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    let core = Core::new(CoreParts {
        config: router::Config {
            limits: router::Limits {
                hello: ms(limits.hello),
                reconnect: ms(limits.reconnect),
                command: ms(limits.command),
                ask: ms(limits.ask),
                blind_grace: ms(limits.blind_grace),
                backlog: limits.backlog,
            },
            backends: found,
            models: models(&agents),
            default,
            comfyui: config.server.comfyui.as_ref().map(|url| url.as_str().to_owned()),
            ..router::Config::new(&epoch, &[])
        },
        inbox,
        journal: journal.clone(),
        agents,
        keepers: KeeperParts {
            sessions: Arc::new(sessions.store),
            handles: handles.clone(),
            journal: journal.clone(),
            limits: config.limits.clone(),
            folder: home.root().join("agents"),
            clock,
        },
        notices,
        found: looked,
    })?;
    let bridge = Bridge::new(Parts {
        server: &config.server,
        limits: config.limits.clone(),
        address,
        token: token.clone(),
        epoch: epoch.clone(),
        hub,
        handles,
        replay: Arc::new(journal.clone()),
    });
    let closing = CancellationToken::new();
    let conversations = tokio::spawn(core.run(stop.clone()));
    let listener = match reserved.listen().await {
        Ok(listener) => listener,
        Err(error) => {
            stop.cancel();
            let _ = conversations.await;
            return Err(error.into());
        }
    };
    let serving = tokio::spawn(bridge::serve(listener, bridge, closing.clone()));
    tracing::info!(port = address.port(), epoch, "serving");
    ready(&Ready { port: address.port(), token_file: token.path().to_owned() });
    // The sockets stay open while turns end, so that panels see how.
    if let Err(error) = conversations.await {
        tracing::error!(%error, "the conversations ended with a panic");
    }
    closing.cancel();
    if tokio::time::timeout(SOCKETS_END, serving).await.is_err() {
        tracing::debug!("a socket that does not read ends with the daemon");
    }
    if let Err(error) = journal.log().close().await {
        tracing::error!(%error, "the log could not be closed");
    }
    fault::at("stop-closed");
    drop(owned);
    Ok(())
}

fn this_process(port: u16, epoch: &str, now_ms: i64) -> Owner {
    let program = std::env::current_exe().unwrap_or_default();
    Owner {
        pid: std::process::id(),
        port,
        epoch: epoch.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        program_mark: lock::mark(&program),
        program,
        started_ms: now_ms,
    }
}

/// What the picker shows.
fn info(name: &Backend, readiness: &agent::Readiness) -> BackendInfo {
    BackendInfo {
        backend: name.to_string(),
        cli: readiness.found,
        auth: readiness.signed_in,
        ready: readiness.found && readiness.signed_in != Some(false),
        available: true,
        version: readiness.version.clone(),
        mend: readiness.mend.clone(),
    }
}

fn models(agents: &BTreeMap<Backend, Arc<dyn AgentBackend>>) -> BTreeMap<Backend, Vec<Model>> {
    let model = |value: String| Model { display_name: value.clone(), value };
    agents.iter().map(|(name, agent)| (name.clone(), agent.models().into_iter().map(model).collect())).collect()
}

/// Looks at every agent at once. What is not known in a moment is taken for ready and corrected later.
async fn look_at(
    agents: BTreeMap<Backend, Arc<dyn AgentBackend>>,
    default: Backend,
) -> (Vec<BackendInfo>, mpsc::Receiver<Found>) {
    let (sender, looked) = mpsc::channel(1);
    let models = models(&agents);
    let looking: Vec<_> = agents
        .into_iter()
        .map(|(name, agent)| {
            tokio::spawn(async move {
                let readiness = agent.probe().await;
                info(&name, &readiness)
            })
        })
        .collect();
    let all = async move {
        let mut found = Vec::new();
        for look in looking {
            if let Ok(info) = look.await {
                found.push(info);
            }
        }
        found.sort_by_key(|info| Backend::parse(&info.backend) != default);
        found
    };
    let mut all = Box::pin(all);
    match tokio::time::timeout(LOOK_FIRST, &mut all).await {
        Ok(found) => (found, looked),
        Err(_) => {
            let unknown = |name: &Backend| {
                let readiness = agent::Readiness { found: true, signed_in: None, version: None, mend: None };
                info(name, &readiness)
            };
            let assumed = models.keys().map(unknown).collect();
            tokio::spawn(async move {
                let _ = sender.send((all.await, models)).await;
            });
            (assumed, looked)
        }
    }
}
