//! Taking the port, or saying who has it. Nobody is ever made to let go of it.

use crate::config::ServerConfig;
use serde::Deserialize;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::net::{TcpListener, TcpSocket};

/// How long a holder may take to tell who it is.
const ASKING: Duration = Duration::from_secs(1);

/// Who has a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Holder {
    /// Another daemon of this kind.
    Daemon {
        /// Its version.
        version: String,
        /// Its epoch.
        epoch: String,
    },
    /// Some other program, or one that does not answer.
    Unknown,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Daemon { version, epoch } => {
                write!(formatter, "another comfy-orchestrator {version} (epoch {epoch})")
            }
            Self::Unknown => write!(formatter, "another program that does not say which it is"),
        }
    }
}

/// Why the port was not taken.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Somebody else listens there. Code `port_in_use`.
    #[error("{address} is taken by {holder}: stop it, or choose another port with --port (0 takes a free one)")]
    InUse {
        /// Where.
        address: SocketAddr,
        /// By whom.
        holder: Holder,
    },
    /// The system does not let us. Code `bind_failed`.
    #[error("{address} cannot be listened on ({source}): choose another --port, or another server.bind")]
    Failed {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

impl BindError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::InUse { .. } => "port_in_use",
            Self::Failed { .. } => "bind_failed",
        }
    }
}

/// A port that is ours and not open yet: connections are refused until [`Reserved::listen`].
#[derive(Debug)]
pub struct Reserved {
    socket: TcpSocket,
    address: SocketAddr,
}

/// Connections that the system holds before they are accepted.
const BACKLOG: u32 = 1_024;

/// Takes the configured port without opening it, so that its number is known before anything is served.
///
/// # Errors
/// See [`BindError`].
pub async fn reserve(server: &ServerConfig) -> Result<Reserved, BindError> {
    let address = SocketAddr::new(server.bind, server.port);
    let take = || {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let address = socket.local_addr()?;
        Ok(Reserved { socket, address })
    };
    match take() {
        Ok(reserved) => Ok(reserved),
        Err(error) => Err(because(address, error).await),
    }
}

impl Reserved {
    /// Where it will listen.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens the port. Do it last: a socket that is accepted is served.
    ///
    /// # Errors
    /// See [`BindError`].
    pub async fn listen(self) -> Result<TcpListener, BindError> {
        match self.socket.listen(BACKLOG) {
            Ok(listener) => Ok(listener),
            Err(error) => Err(because(self.address, error).await),
        }
    }
}

/// Takes and opens the configured port.
///
/// # Errors
/// See [`BindError`].
pub async fn bind(server: &ServerConfig) -> Result<TcpListener, BindError> {
    reserve(server).await?.listen().await
}

async fn because(address: SocketAddr, error: io::Error) -> BindError {
    if error.kind() == io::ErrorKind::AddrInUse {
        BindError::InUse { address, holder: who_holds(address).await }
    } else {
        BindError::Failed { address, source: error }
    }
}

/// Asks whoever listens at an address who it is.
pub async fn who_holds(address: SocketAddr) -> Holder {
    daemon_at(reachable(address)).await.unwrap_or(Holder::Unknown)
}

/// Where a listener of this address is reached from this machine.
pub(crate) fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[derive(Deserialize)]
struct Health {
    service: String,
    version: String,
    epoch: String,
}

async fn daemon_at(address: SocketAddr) -> Option<Holder> {
    let client = reqwest::Client::builder().no_proxy().redirect(reqwest::redirect::Policy::none()).timeout(ASKING);
    let answer = client.build().ok()?.get(format!("http://{address}/healthz")).send().await.ok()?;
    // Anything may listen there: only a short answer is read.
    let short = answer.content_length().is_some_and(|length| length < 4_096);
    let health: Health = if short { answer.json().await.ok()? } else { return None };
    (health.service == super::SERVICE).then_some(Holder::Daemon { version: health.version, epoch: health.epoch })
}
