//! Why a request is turned away before it reaches anything: one enum with a stable code, a status, and what to do.

use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;

macro_rules! refusals {
    ($($(#[$doc:meta])* $variant:ident = $code:literal, $status:ident, $message:literal;)*) => {
        /// A refusal. Its text never holds what the request said.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Refused {
            $($(#[$doc])* $variant,)*
        }

        impl Refused {
            /// Every refusal, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The stable code, as in the answer, the log and the metrics.
            pub fn code(self) -> &'static str {
                match self { $(Self::$variant => $code,)* }
            }

            /// The HTTP status.
            pub fn status(self) -> StatusCode {
                match self { $(Self::$variant => StatusCode::$status,)* }
            }

            /// What happened and what to do.
            pub fn message(self) -> &'static str {
                match self { $(Self::$variant => $message,)* }
            }
        }
    };
}

refusals! {
    /// It comes from another machine.
    PeerNotLoopback = "peer_not_loopback", FORBIDDEN,
        "Only this machine may connect. To serve others, set server.bind in the configuration.";
    /// A header that decides stands there twice.
    RepeatedHeader = "repeated_header", FORBIDDEN,
        "Host, Origin, Authorization and Sec-Fetch-Site may stand in a request once.";
    /// `Host` is none of ours.
    HostNotAllowed = "host_not_allowed", FORBIDDEN,
        "Use http://127.0.0.1 or http://localhost with this port, or name the host in server.allowed_hosts.";
    /// A page that is not paired.
    OriginNotAllowed = "origin_not_allowed", FORBIDDEN,
        "This page's origin is not paired. Open the panel in ComfyUI, or name the origin in server.origins.";
    /// A request that another site caused.
    CrossSite = "cross_site", FORBIDDEN,
        "Another site caused this request. Open the address yourself.";
    /// It came through a proxy.
    Forwarded = "forwarded", FORBIDDEN,
        "Requests through a proxy are not taken here. Reach the daemon through ComfyUI's own address.";
    /// A capability in an address, where logs and histories keep it.
    TokenInUrl = "token_in_url", FORBIDDEN,
        "A token in an address is refused: send it as `Authorization: Bearer`, or as a subprotocol. Rotate it if it was real.";
    /// No capability.
    TokenMissing = "token_missing", UNAUTHORIZED,
        "Send the token of the daemon's home as `Authorization: Bearer …`, or as subprotocols `comfy-orchestrator.1` and `bearer.…`.";
    /// Another capability.
    TokenWrong = "token_wrong", UNAUTHORIZED,
        "The token is not the one that holds now. Read the token file of the daemon's home again.";
    /// Nobody is let in: the token file is gone or damaged.
    TokenUnavailable = "token_unavailable", UNAUTHORIZED,
        "The daemon has no readable token, so nobody is let in. Run `comfy-orchestrator token rotate`.";
    /// A socket was expected.
    UpgradeRequired = "upgrade_required", UPGRADE_REQUIRED,
        "This address speaks WebSocket, version 13.";
    /// All places are taken.
    TooManySockets = "too_many_sockets", SERVICE_UNAVAILABLE,
        "Too many sockets are open. Close ComfyUI tabs that are not needed, or raise limits.sockets.";
    /// The daemon is stopping.
    Stopping = "stopping", SERVICE_UNAVAILABLE,
        "The daemon is stopping. Try again shortly.";
    /// An agent's handle that does not live.
    DeadHandle = "dead_handle", NOT_FOUND,
        "These tools belong to an agent session that has ended. Only a new session gets new ones.";
    /// No such address.
    NotFound = "not_found", NOT_FOUND,
        "There is nothing at this address. The socket is at /ws, the status page at /.";
    /// Another method was expected.
    MethodNotAllowed = "method_not_allowed", METHOD_NOT_ALLOWED,
        "This address does not take this method.";
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let body = Json(json!({"code": self.code(), "message": self.message()}));
        let mut response = (self.status(), body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if self == Self::UpgradeRequired {
            headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        }
        if self.status() == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// The answer of a refusal, marked so that the checks in front of the routes count and log it.
pub(crate) fn with_reason(refused: Refused) -> Response {
    let mut response = refused.into_response();
    response.extensions_mut().insert(refused);
    response
}
