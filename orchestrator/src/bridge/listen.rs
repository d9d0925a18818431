//! Accepting connections, and letting them go in order when the daemon stops.

use super::{Bridge, CLOSING, routes};
use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

/// How long a client may take for the head of a request, and an idle connection may stay.
const HEADER_TIME: Duration = Duration::from_secs(30);
/// Connections beyond those of sockets: agents' tools, pages, health checks.
const OTHER_CONNECTIONS: usize = 192;
/// After the system refused a connection, usually for want of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The address of the other end, for the checks.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerAddress(pub(super) IpAddr);

/// Serves until `shutdown`; then every socket is closed with 1001, and what does not end within two seconds is dropped.
pub async fn serve(listener: TcpListener, bridge: Arc<Bridge>, shutdown: CancellationToken) {
    let app = routes::router(bridge.clone());
    let room = Arc::new(Semaphore::new(bridge.limits.sockets + OTHER_CONNECTIONS));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            () = shutdown.cancelled() => break,
            Some(_) = connections.join_next() => continue,
            accepted = accept(&listener, &room) => accepted,
        };
        match accepted {
            Ok((stream, peer, permit)) => {
                let (app, stopping) = (app.clone(), bridge.stopping.clone());
                connections.spawn(async move {
                    connection(stream, peer, app, stopping).await;
                    drop(permit);
                });
            }
            Err(error) => {
                tracing::warn!(%error, "a connection was not accepted");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
    drop(listener);
    bridge.stopping.cancel();
    let sockets = u32::try_from(bridge.limits.sockets).unwrap_or(u32::MAX);
    let all_gone = async {
        // The semaphore is never closed; its error would mean just as well that nobody is left.
        let _ = bridge.places.acquire_many(sockets).await;
        while connections.join_next().await.is_some() {}
    };
    if timeout(CLOSING + Duration::from_secs(1), all_gone).await.is_err() {
        tracing::debug!("connections that did not end in time were dropped");
    }
    connections.shutdown().await;
}

type Accepted = (TcpStream, IpAddr, tokio::sync::OwnedSemaphorePermit);

async fn accept(listener: &TcpListener, room: &Arc<Semaphore>) -> std::io::Result<Accepted> {
    let permit = room.clone().acquire_owned().await.map_err(std::io::Error::other)?;
    let (stream, address) = listener.accept().await?;
    Ok((stream, address.ip(), permit))
}

async fn connection(stream: TcpStream, peer: IpAddr, app: Router, stopping: CancellationToken) {
    // Frames are small and wait for nothing.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |mut request: hyper::Request<Incoming>| {
        request.extensions_mut().insert(PeerAddress(peer));
        app.clone().oneshot(request.map(Body::new))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADER_TIME)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    let mut served = pin!(served);
    tokio::select! {
        ended = &mut served => log(ended),
        () = stopping.cancelled() => {
            served.as_mut().graceful_shutdown();
            log(served.await);
        }
    }
}

fn log(ended: hyper::Result<()>) {
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended early");
    }
}
