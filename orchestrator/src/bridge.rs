//! The server: one port with the sockets of panels, the tools of agents and a page for people. It decides who comes in
//! and carries frames; it must not know what a frame means or which canvas a call touches.

mod access;
mod frames;
mod listen;
mod metrics;
mod port;
mod refused;
mod replay;
mod routes;
mod socket;
mod writer;

pub(crate) use access::bearer;
pub use access::{Access, Admitted, Arrival, SUBPROTOCOL};
pub use listen::serve;
pub use metrics::Metrics;
pub(crate) use port::reachable;
pub use port::{BindError, Holder, Reserved, bind, reserve, who_holds};
pub use refused::Refused;
pub(crate) use refused::with_reason;
pub use replay::{PAGE_ROWS, ReplayFailed, ReplayPage, ReplaySource};

use crate::config::{Limits, ServerConfig};
use crate::hub::Hub;
use crate::store::home::TokenFile;
use crate::tools::Handles;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// The name that `/healthz` gives.
pub const SERVICE: &str = "comfy-orchestrator";

/// Between two pings. A peer that answers none of two counts as gone.
pub const PING_EVERY: Duration = Duration::from_secs(25);

/// How long the other side may take for its part of an ending.
const CLOSING: Duration = Duration::from_secs(2);

/// What a bridge is made from.
pub struct Parts<'a> {
    /// The section `[server]`.
    pub server: &'a ServerConfig,
    /// The section `[limits]`.
    pub limits: Limits,
    /// Where the listener is bound.
    pub address: SocketAddr,
    /// The capability.
    pub token: Arc<TokenFile>,
    /// This run of the daemon.
    pub epoch: String,
    /// The way into the conversations.
    pub hub: Hub,
    /// The tools' handles that live.
    pub handles: Arc<Handles>,
    /// Where missed rows come from.
    pub replay: Arc<dyn ReplaySource>,
}

/// What the routes share.
pub struct Bridge {
    access: Access,
    limits: Limits,
    epoch: String,
    hub: Hub,
    handles: Arc<Handles>,
    replay: Arc<dyn ReplaySource>,
    metrics: Arc<Metrics>,
    places: Arc<Semaphore>,
    ping_every: Duration,
    stopping: CancellationToken,
}

impl Bridge {
    /// Puts a bridge together; [`serve`] starts it.
    pub fn new(parts: Parts<'_>) -> Arc<Self> {
        Self::with_pings(parts, PING_EVERY)
    }

    /// [`Bridge::new`] with another time between two pings.
    pub fn with_pings(parts: Parts<'_>, ping_every: Duration) -> Arc<Self> {
        for origin in &parts.server.legacy_panels {
            tracing::warn!(%origin, "pages of this origin may talk to the agent without a token");
        }
        Arc::new(Self {
            access: Access::new(parts.server, parts.address, parts.token),
            places: Arc::new(Semaphore::new(parts.limits.sockets)),
            limits: parts.limits,
            epoch: parts.epoch,
            hub: parts.hub,
            handles: parts.handles,
            replay: parts.replay,
            ping_every,
            metrics: Arc::default(),
            stopping: CancellationToken::new(),
        })
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }
}
