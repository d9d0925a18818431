//! What the sockets and the tool server know of the conversations: messages in, frames and results out. No decision
//! stands here.

use axum::extract::ws::Utf8Bytes;
use routing_core::id::{Backend, ConversationKey, Seq, SocketId};
use routing_core::refusal::Refusal;
use serde_json::{Map, Value};
use tokio::sync::{mpsc, oneshot};

/// Who is at the other end of a socket, as the server decided it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The role that the capability gave.
    pub role: Role,
    /// The ComfyUI that the tab's tools use: the paired origin of the socket, or what our relay named.
    pub comfyui: Option<String>,
}

/// What a socket may do. No frame widens it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Holds canvases, answers commands.
    Panel,
    /// Sees allow-listed frames.
    Viewer,
}

/// What goes to a socket, in this order.
#[derive(Clone, Debug)]
pub enum ToSocket {
    /// One encoded frame, shared by every socket that gets it.
    Frame(Utf8Bytes),
    /// Rows of the log from after `after` up to `upto`, read when its turn comes.
    Replay {
        /// Whose log.
        conversation: ConversationKey,
        /// The last row that the panel has.
        after: Seq,
        /// The last row to send.
        upto: Seq,
        /// The socket speaks the legacy dialect.
        legacy: bool,
    },
    /// The end, with a WebSocket close code and a reason.
    Close {
        /// 1008, or 4000 and above: do not come back.
        code: u16,
        /// For people.
        reason: String,
    },
}

/// What comes to the conversations.
#[derive(Debug)]
pub enum ToHub {
    /// A socket passed every check and was upgraded.
    SocketOpened {
        /// Its id, from [`Hub::next_socket`].
        socket: SocketId,
        /// Who it is.
        peer: Peer,
        /// Where its frames go. The receiver bounds what waits.
        out: SocketSender,
    },
    /// A text frame, within the size limit.
    SocketText {
        /// From which socket.
        socket: SocketId,
        /// As it came.
        text: Utf8Bytes,
    },
    /// The socket is gone.
    SocketClosed {
        /// Which.
        socket: SocketId,
    },
    /// An agent called a tool.
    ToolCall {
        /// The conversation that the handle belongs to.
        backend: Backend,
        /// The tool's name, a row of the command table.
        tool: String,
        /// Its arguments, not yet checked.
        arguments: Map<String, Value>,
        /// Where the outcome goes; dropped when the agent gave up.
        answer: oneshot::Sender<Result<Value, Refusal>>,
    },
}

/// The way into the conversations.
#[derive(Clone, Debug)]
pub struct Hub {
    inbox: mpsc::Sender<ToHub>,
    sockets: std::sync::Arc<std::sync::atomic::AtomicU64>,
}

impl Hub {
    /// A hub whose messages are read from the receiver.
    pub fn new(capacity: usize) -> (Self, mpsc::Receiver<ToHub>) {
        let (inbox, receiver) = mpsc::channel(capacity);
        (Self { inbox, sockets: std::sync::Arc::default() }, receiver)
    }

    /// A fresh socket id.
    pub fn next_socket(&self) -> SocketId {
        SocketId(1 + self.sockets.fetch_add(1, std::sync::atomic::Ordering::Relaxed))
    }

    /// Hands a message over; waits while the inbox is full, which holds the sender's socket back.
    ///
    /// # Errors
    /// The daemon is stopping.
    pub async fn send(&self, message: ToHub) -> Result<(), Stopping> {
        self.inbox.send(message).await.map_err(|_| Stopping)
    }

    /// Calls a tool and waits for its outcome.
    ///
    /// # Errors
    /// The refusal; `conversation_closed` when the daemon is stopping.
    pub async fn call_tool(
        &self,
        backend: Backend,
        tool: String,
        arguments: Map<String, Value>,
    ) -> Result<Value, Refusal> {
        let (answer, outcome) = oneshot::channel();
        let sent = self.send(ToHub::ToolCall { backend, tool, arguments, answer }).await;
        if sent.is_err() {
            return Err(Refusal::ConversationClosed);
        }
        outcome.await.unwrap_or(Err(Refusal::ConversationClosed))
    }
}

/// The daemon is stopping.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the daemon is stopping")]
pub struct Stopping;

/// The bounded way to one socket: beyond [`MOST_FRAMES`] or [`MOST_BYTES`] that wait, the socket is told and closed.
#[derive(Clone, Debug)]
pub struct SocketSender {
    queue: mpsc::UnboundedSender<ToSocket>,
    waiting: std::sync::Arc<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    frames: std::sync::atomic::AtomicUsize,
    bytes: std::sync::atomic::AtomicUsize,
}

/// The reading end of a [`SocketSender`].
#[derive(Debug)]
pub struct SocketReceiver {
    queue: mpsc::UnboundedReceiver<ToSocket>,
    waiting: std::sync::Arc<Waiting>,
}

/// Most frames that may wait for one socket.
pub const MOST_FRAMES: usize = 256;
/// Most bytes that may wait for one socket.
pub const MOST_BYTES: usize = 8 << 20;

/// A socket does not read: what was offered was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the socket's queue is full")]
pub struct Full;

/// Makes the way to one socket.
pub fn socket_queue() -> (SocketSender, SocketReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let waiting = std::sync::Arc::<Waiting>::default();
    (SocketSender { queue: sender, waiting: waiting.clone() }, SocketReceiver { queue: receiver, waiting })
}

impl SocketSender {
    /// Queues something. Closes always pass; a socket that is gone takes everything and sends nothing.
    ///
    /// # Errors
    /// [`Full`]: 256 frames or 8 MiB are waiting.
    pub fn send(&self, item: ToSocket) -> Result<(), Full> {
        use std::sync::atomic::Ordering::Relaxed;
        if let ToSocket::Frame(text) = &item {
            let frames = self.waiting.frames.fetch_add(1, Relaxed) + 1;
            let bytes = self.waiting.bytes.fetch_add(text.len(), Relaxed) + text.len();
            // A single frame always fits: nothing waits that its reader did not take.
            if frames > 1 && (frames > MOST_FRAMES || bytes > MOST_BYTES) {
                self.waiting.frames.fetch_sub(1, Relaxed);
                self.waiting.bytes.fetch_sub(text.len(), Relaxed);
                return Err(Full);
            }
        }
        let _ = self.queue.send(item);
        Ok(())
    }

    /// Ends a socket that does not read: a last frame, whatever waits, and the close.
    pub fn finish(&self, frame: Utf8Bytes, code: u16, reason: &str) {
        use std::sync::atomic::Ordering::Relaxed;
        self.waiting.frames.fetch_add(1, Relaxed);
        self.waiting.bytes.fetch_add(frame.len(), Relaxed);
        let _ = self.queue.send(ToSocket::Frame(frame));
        let _ = self.queue.send(ToSocket::Close { code, reason: reason.to_owned() });
    }
}

impl SocketReceiver {
    /// The next item; `None` when the conversations let go of the socket.
    pub async fn next(&mut self) -> Option<ToSocket> {
        let item = self.queue.recv().await;
        self.taken(item)
    }

    /// The next item if one is waiting: for coalescing writes.
    pub fn ready(&mut self) -> Option<ToSocket> {
        let item = self.queue.try_recv().ok();
        self.taken(item)
    }

    fn taken(&self, item: Option<ToSocket>) -> Option<ToSocket> {
        use std::sync::atomic::Ordering::Relaxed;
        if let Some(ToSocket::Frame(text)) = &item {
            self.waiting.frames.fetch_sub(1, Relaxed);
            self.waiting.bytes.fetch_sub(text.len(), Relaxed);
        }
        item
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;

    #[tokio::test]
    async fn one_large_frame_passes_and_none_after_it() {
        let (sender, mut receiver) = socket_queue();
        sender.send(ToSocket::Frame("x".repeat(MOST_BYTES + 1).into())).unwrap();
        assert_eq!(sender.send(ToSocket::Frame("y".into())), Err(Full));
        assert!(receiver.next().await.is_some());
        sender.send(ToSocket::Frame("y".into())).unwrap();
    }

    #[tokio::test]
    async fn a_queue_is_bounded_and_recovers() {
        let (sender, mut receiver) = socket_queue();
        for _ in 0..MOST_FRAMES {
            sender.send(ToSocket::Frame("x".into())).unwrap();
        }
        assert_eq!(sender.send(ToSocket::Frame("x".into())), Err(Full));
        assert!(receiver.next().await.is_some());
        sender.send(ToSocket::Frame("x".into())).unwrap();
    }
}
