//! One socket: texts in to the conversations, frames out in the order in which they were queued. It decides what is no
//! frame at all and when a peer is gone; it must not know what a frame means.

use super::frames::{Outline, Unfit, admit};
use super::writer::{End, Local, Writer};
use super::{Admitted, Bridge, CLOSING};
use crate::hub::{Role, ToHub, socket_queue};
use axum::Error;
use axum::extract::ws::{Message, WebSocket};
use futures_util::StreamExt;
use futures_util::stream::SplitStream;
use routing_core::id::SocketId;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, sleep_until, timeout};
use tokio_tungstenite::tungstenite::Error as WireError;
use tokio_tungstenite::tungstenite::error::ProtocolError;

/// Pings without an answer before a peer counts as gone.
const MOST_UNANSWERED: u32 = 2;
/// Between two looks at whether the token still holds.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Beyond `limits.hello`: the conversations' own deadline comes first, and says more.
const SILENCE_GRACE: Duration = Duration::from_secs(1);
/// How long what a refused peer still sends may keep our last words from it.
const LINGER: Duration = Duration::from_millis(500);

/// Close code: the daemon stops, or lets go of the socket.
const GOING_AWAY: u16 = 1001;
const PROTOCOL_ERROR: u16 = 1002;
const NOT_UTF8: u16 = 1007;

/// How the peer's side of a socket ended.
enum Ended {
    /// It closed, or is gone: nothing can be said any more.
    Gone,
    /// We end it.
    Ours(End),
    /// We end it in the middle of a message that is still arriving.
    MidMessage(End),
}

/// Serves a socket until it ends. The permit is its place among `limits.sockets`.
pub(super) async fn run(socket: WebSocket, bridge: Arc<Bridge>, admitted: Admitted, permit: OwnedSemaphorePermit) {
    let id = bridge.hub.next_socket();
    let (peer, role) = (admitted.peer.clone(), admitted.peer.role);
    tracing::debug!(socket = id.0, ?role, "socket opened");
    bridge.metrics.socket_opened();
    let (sink, stream) = socket.split();
    let (out, queue) = socket_queue();
    let (local, local_queue) = mpsc::channel(4);
    let mut writer = tokio::spawn(
        Writer { sink, queue, local: local_queue, replay: bridge.replay.clone(), metrics: bridge.metrics.clone() }
            .run(),
    );
    let reader = Reader { stream, local: local.clone(), bridge: bridge.clone(), socket: id, role, admitted };
    let opened = bridge.hub.send(ToHub::SocketOpened { socket: id, peer, out }).await;
    if opened.is_err() {
        let _ = local.send(Local::End(stopping())).await;
    }
    let mut reading = pin!(reader.run());
    tokio::select! {
        ended = &mut reading => {
            let linger = matches!(ended, Ended::MidMessage(_));
            if let Ended::Ours(end) | Ended::MidMessage(end) = ended {
                // A writer that is gone already has nobody to tell.
                let _ = local.send(Local::End(end)).await;
                if timeout(CLOSING, &mut writer).await.is_ok() && linger {
                    sleep(LINGER).await;
                }
            }
        }
        // The conversations let go of it, or it does not read. The peer may still answer the close.
        _ = &mut writer => {
            let _ = timeout(CLOSING, &mut reading).await;
        }
    }
    writer.abort();
    // A hub that is gone has no sockets.
    let _ = bridge.hub.send(ToHub::SocketClosed { socket: id }).await;
    bridge.metrics.socket_closed();
    tracing::debug!(socket = id.0, "socket closed");
    drop(permit);
}

struct Reader {
    stream: SplitStream<WebSocket>,
    local: mpsc::Sender<Local>,
    bridge: Arc<Bridge>,
    socket: SocketId,
    role: Role,
    admitted: Admitted,
}

impl Reader {
    async fn run(mut self) -> Ended {
        let every = self.bridge.ping_every;
        let mut pings = interval_at(Instant::now() + every, every);
        pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut looks = interval_at(Instant::now() + LOOK_EVERY, LOOK_EVERY);
        looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silence = pin!(sleep_until(Instant::now() + self.bridge.limits.hello + SILENCE_GRACE));
        let (mut unanswered, mut spoke) = (0, false);
        loop {
            let message = tokio::select! {
                message = self.stream.next() => message,
                _ = pings.tick() => {
                    if unanswered == MOST_UNANSWERED {
                        return Ended::Ours(End::new(GOING_AWAY, "two pings were not answered"));
                    }
                    unanswered += 1;
                    if self.local.send(Local::Ping).await.is_err() {
                        return Ended::Gone;
                    }
                    continue;
                }
                _ = looks.tick() => {
                    // Our relay reads the new token and comes back: no close code that forbids it.
                    match self.bridge.access.still(&self.admitted) {
                        Ok(()) => continue,
                        Err(why) => return Ended::Ours(End::new(GOING_AWAY, why.message())),
                    }
                }
                () = &mut silence, if !spoke => {
                    return Ended::Ours(End::new(PROTOCOL_ERROR, "a socket begins with a hello, and none came in time"));
                }
                () = self.bridge.stopping.cancelled() => return Ended::Ours(stopping()),
            };
            unanswered = 0;
            match message {
                Some(Ok(Message::Text(text))) => {
                    spoke = true;
                    self.bridge.metrics.frame_in();
                    if let Err(outline) = admit(&text, self.role, self.bridge.limits.frame_bytes) {
                        return Ended::Ours(self.unfit(Unfit::TooLarge, &outline));
                    }
                    if self.bridge.hub.send(ToHub::SocketText { socket: self.socket, text }).await.is_err() {
                        return Ended::Ours(stopping());
                    }
                }
                Some(Ok(Message::Binary(_))) => {
                    self.bridge.metrics.frame_in();
                    return Ended::Ours(self.unfit(Unfit::Binary, &Outline::default()));
                }
                Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
                Some(Ok(Message::Close(_))) | None => return Ended::Gone,
                Some(Err(error)) => return self.broken(error),
            }
        }
    }

    fn unfit(&self, why: Unfit, outline: &Outline<'_>) -> End {
        self.bridge.metrics.unfit(why);
        tracing::info!(socket = self.socket.0, reason = why.code(), "frame not taken");
        let limit = self.bridge.limits.frame_bytes;
        End { last: Some(why.nack(limit, outline).into()), code: why.close_code(), reason: why.message(limit) }
    }

    fn broken(&self, error: Error) -> Ended {
        // axum hands the error of its own tungstenite on in a box.
        let Ok(error) = error.into_inner().downcast::<WireError>() else { return Ended::Gone };
        match *error {
            WireError::Capacity(_) => Ended::MidMessage(self.unfit(Unfit::TooLarge, &Outline::default())),
            // No breach: a page that was closed, a network that went. Calls must learn of it at once.
            WireError::Protocol(ProtocolError::ResetWithoutClosingHandshake) => Ended::Gone,
            WireError::Utf8(_) => Ended::MidMessage(End::new(NOT_UTF8, "a text frame is UTF-8")),
            WireError::Protocol(problem) => {
                tracing::debug!(socket = self.socket.0, %problem, "the peer broke the WebSocket protocol");
                Ended::MidMessage(End::new(PROTOCOL_ERROR, "the WebSocket protocol was broken"))
            }
            _ => Ended::Gone,
        }
    }
}

fn stopping() -> End {
    End::new(GOING_AWAY, "the daemon is stopping")
}
