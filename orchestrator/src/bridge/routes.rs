//! The routes, and the checks in front of all of them.

use super::access::SUBPROTOCOL;
use super::listen::PeerAddress;
use super::{Arrival, Bridge, Refused, SERVICE, socket, with_reason};
use crate::config::MOST_FRAME_BYTES;
use crate::{console, tools};
use axum::extract::ws::rejection::WebSocketUpgradeRejection;
use axum::extract::{Request, State, WebSocketUpgrade};
use axum::http::{HeaderMap, HeaderValue, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use axum::{Extension, Json, Router};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// Room for a WebSocket message beyond the largest frame, so that one that is a little too large is still answered.
const MESSAGE_ROOM: usize = 64 << 10;

pub(super) fn router(bridge: Arc<Bridge>) -> Router {
    Router::new()
        .route("/", get(front))
        .route("/ws", get(upgrade))
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .route("/mcp/{handle}", any(tools::serve))
        .with_state(bridge.clone())
        .layer(Extension(tools::Server::new(bridge.hub.clone(), bridge.handles.clone(), bridge.metrics.clone())))
        .fallback(|| async { with_reason(Refused::NotFound) })
        .method_not_allowed_fallback(|| async { with_reason(Refused::MethodNotAllowed) })
        .layer(from_fn_with_state(bridge, guard))
}

/// The checks that every route has. What a handler refuses is counted here too.
async fn guard(State(bridge): State<Arc<Bridge>>, mut request: Request, next: Next) -> Response {
    // Without an address nothing is known of the peer: it does not count as local.
    let peer = request.extensions().get::<PeerAddress>().map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.0);
    let (route, origin) = (route(request.uri()), request.headers().get(header::ORIGIN).cloned());
    let response = match bridge.access.arrival(peer, request.uri(), request.headers()) {
        Ok(arrival) => {
            request.extensions_mut().insert(arrival);
            next.run(request).await
        }
        Err(refused) => with_reason(refused),
    };
    if let Some(refused) = response.extensions().get::<Refused>() {
        bridge.metrics.refused(*refused);
        tracing::info!(reason = refused.code(), route, %peer, origin = ?origin, "refused");
    }
    harden(response)
}

/// Which route, for the log. The path itself may hold a handle.
fn route(uri: &Uri) -> &'static str {
    match uri.path() {
        "/" => "/",
        "/ws" => "/ws",
        "/healthz" => "/healthz",
        "/metrics" => "/metrics",
        path if path.starts_with("/mcp/") => "/mcp",
        _ => "other",
    }
}

fn harden(mut response: Response) -> Response {
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    response
}

type Upgrade = Result<WebSocketUpgrade, WebSocketUpgradeRejection>;

/// The status page, or a socket when one is asked for.
async fn front(
    bridge: State<Arc<Bridge>>,
    arrival: Extension<Arrival>,
    uri: Uri,
    headers: HeaderMap,
    asked: Upgrade,
) -> Response {
    if headers.contains_key(header::UPGRADE) || asked.is_ok() {
        return upgrade(bridge, arrival, uri, headers, asked).await;
    }
    console::page().into_response()
}

async fn upgrade(
    State(bridge): State<Arc<Bridge>>,
    Extension(arrival): Extension<Arrival>,
    uri: Uri,
    headers: HeaderMap,
    asked: Upgrade,
) -> Response {
    let admitted = match bridge.access.socket(&arrival, &uri, &headers) {
        Ok(admitted) => admitted,
        Err(refused) => return with_reason(refused),
    };
    let Ok(asked) = asked else {
        return with_reason(Refused::UpgradeRequired);
    };
    if bridge.stopping.is_cancelled() {
        return with_reason(Refused::Stopping);
    }
    let Ok(permit) = bridge.places.clone().try_acquire_owned() else {
        return with_reason(Refused::TooManySockets);
    };
    asked
        .protocols([SUBPROTOCOL])
        .max_message_size(MOST_FRAME_BYTES + MESSAGE_ROOM)
        .max_frame_size(MOST_FRAME_BYTES + MESSAGE_ROOM)
        .on_upgrade(move |socket| socket::run(socket, bridge, admitted, permit))
}

/// Says that the daemon runs, and which run this is. No token: nothing here is anybody's.
async fn health(State(bridge): State<Arc<Bridge>>) -> Response {
    let body = json!({"ok": true, "service": SERVICE, "version": env!("CARGO_PKG_VERSION"), "epoch": bridge.epoch});
    ([(header::CACHE_CONTROL, "no-store")], Json(body)).into_response()
}

async fn metrics(State(bridge): State<Arc<Bridge>>, headers: HeaderMap) -> Response {
    match bridge.access.holder(&headers) {
        Ok(()) => {
            let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4"), (header::CACHE_CONTROL, "no-store")];
            (kind, bridge.metrics.text()).into_response()
        }
        Err(refused) => with_reason(refused),
    }
}
