//! The writing half of a socket: everything in the order in which it was queued, as many frames as are ready in one
//! flush, none merged.

use super::metrics::Metrics;
use super::replay::{PAGE_ROWS, ReplaySource};
use crate::fault;
use crate::hub::{SocketReceiver, ToSocket};
use axum::body::Bytes;
use axum::extract::ws::{CloseFrame, Message, Utf8Bytes, WebSocket};
use futures_util::SinkExt;
use futures_util::stream::SplitSink;
use routing_core::id::{ConversationKey, Seq};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::timeout;

/// How long a peer may take nothing off the wire.
const WRITE_STALL: Duration = Duration::from_secs(20);
/// Most items in one flush, so that pings and the end come between.
const MOST_ITEMS: usize = 64;
/// Close code: the log could not be read.
const INTERNAL: u16 = 1011;
/// Close code: the conversations let go of the socket.
const GOING_AWAY: u16 = 1001;

/// How we end a socket.
#[derive(Debug)]
pub(super) struct End {
    /// A frame before the close.
    pub(super) last: Option<Utf8Bytes>,
    /// The WebSocket close code.
    pub(super) code: u16,
    /// For people.
    pub(super) reason: String,
}

impl End {
    pub(super) fn new(code: u16, reason: &str) -> Self {
        Self { last: None, code, reason: reason.to_owned() }
    }
}

/// What the reading half wants written.
#[derive(Debug)]
pub(super) enum Local {
    Ping,
    /// After the frames that wait already.
    End(End),
}

/// Whether there is more to write.
enum Next {
    GoOn,
    Stop,
}

pub(super) struct Writer {
    pub(super) sink: SplitSink<WebSocket, Message>,
    pub(super) queue: SocketReceiver,
    pub(super) local: mpsc::Receiver<Local>,
    pub(super) replay: Arc<dyn ReplaySource>,
    pub(super) metrics: Arc<Metrics>,
}

impl Writer {
    /// Writes until the end was sent, or the peer is gone or takes nothing.
    pub(super) async fn run(mut self) {
        loop {
            let next = tokio::select! {
                biased;
                Some(local) = self.local.recv() => self.local(local).await,
                item = self.queue.next() => match item {
                    Some(item) => self.batch(item).await,
                    None => self.end(End::new(GOING_AWAY, "the conversation let go of this socket")).await,
                },
            };
            // An error means that the peer is gone: the reading half sees it too.
            match next {
                Ok(Next::GoOn) => {}
                Ok(Next::Stop) | Err(Unwritten) => return,
            }
        }
    }

    async fn local(&mut self, local: Local) -> Result<Next, Unwritten> {
        match local {
            Local::Ping => {
                self.write(Message::Ping(Bytes::new())).await?;
                self.flush(0).await?;
                Ok(Next::GoOn)
            }
            Local::End(end) => {
                let mut frames = 0;
                while let Some(item) = self.queue.ready() {
                    if let ToSocket::Frame(text) = item {
                        self.write(Message::Text(text)).await?;
                        frames += 1;
                    }
                }
                self.metrics.frames_out(frames);
                self.end(end).await
            }
        }
    }

    async fn batch(&mut self, first: ToSocket) -> Result<Next, Unwritten> {
        fault::at("frames-due");
        let (mut item, mut items, mut frames) = (Some(first), 0, 0);
        while let Some(now) = item {
            items += 1;
            match now {
                ToSocket::Frame(text) => {
                    self.write(Message::Text(text)).await?;
                    frames += 1;
                }
                ToSocket::Replay { conversation, after, upto, legacy } => {
                    match self.replay(&conversation, after, upto, legacy).await? {
                        Some(sent) => frames += sent,
                        None => return self.end(End::new(INTERNAL, "the conversation cannot be read now")).await,
                    }
                }
                ToSocket::Close { code, reason } => return self.end(End { last: None, code, reason }).await,
            }
            item = if items < MOST_ITEMS { self.queue.ready() } else { None };
        }
        self.flush(frames).await?;
        Ok(Next::GoOn)
    }

    /// Writes the frames of a replay; `None` when the log could not be read.
    async fn replay(
        &mut self,
        conversation: &ConversationKey,
        after: Seq,
        upto: Seq,
        legacy: bool,
    ) -> Result<Option<u64>, Unwritten> {
        let (mut after, mut frames) = (after, 0);
        while after < upto {
            let page = match self.replay.page(conversation, after, upto, legacy, PAGE_ROWS).await {
                Ok(page) => page,
                Err(error) => {
                    tracing::warn!(%conversation, %error, "replay broken off");
                    return Ok(None);
                }
            };
            for text in page.frames {
                self.write(Message::Text(text)).await?;
                frames += 1;
            }
            match page.last {
                Some(last) if last > after => after = last,
                Some(_) | None => break,
            }
        }
        Ok(Some(frames))
    }

    async fn end(&mut self, end: End) -> Result<Next, Unwritten> {
        if let Some(text) = end.last {
            self.write(Message::Text(text)).await?;
        }
        let reason = Utf8Bytes::from(shortened(&end.reason));
        self.write(Message::Close(Some(CloseFrame { code: end.code, reason }))).await?;
        self.flush(0).await?;
        Ok(Next::Stop)
    }

    async fn write(&mut self, message: Message) -> Result<(), Unwritten> {
        in_time(self.sink.feed(message)).await
    }

    async fn flush(&mut self, frames: u64) -> Result<(), Unwritten> {
        in_time(self.sink.flush()).await?;
        self.metrics.frames_out(frames);
        Ok(())
    }
}

/// The peer is gone, or took nothing for [`WRITE_STALL`].
struct Unwritten;

async fn in_time(work: impl Future<Output = Result<(), axum::Error>>) -> Result<(), Unwritten> {
    match timeout(WRITE_STALL, work).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(_)) | Err(_) => Err(Unwritten),
    }
}

/// A close frame holds 123 bytes of reason.
fn shortened(reason: &str) -> &str {
    let end = (0..=123.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
    &reason[..end]
}
