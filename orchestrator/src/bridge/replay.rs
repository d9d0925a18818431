//! Where the rows of a conversation come from when a panel has missed some. The bridge asks for pages; it must not know
//! how a row becomes a frame.

use async_trait::async_trait;
use axum::extract::ws::Utf8Bytes;
use routing_core::id::{ConversationKey, Seq};

/// Rows that are read at a time.
pub const PAGE_ROWS: usize = 200;

/// Some rows, as frames.
#[derive(Clone, Debug, Default)]
pub struct ReplayPage {
    /// The encoded frames, in order. A row may give none.
    pub frames: Vec<Utf8Bytes>,
    /// The last row that was looked at; `None` when there is none up to the end that was asked for.
    pub last: Option<Seq>,
}

/// The log could not be read. The socket is closed so that the panel comes back and asks again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the conversation cannot be read now: {reason}")]
pub struct ReplayFailed {
    /// For the log.
    pub reason: String,
}

/// Reads the log of a conversation.
#[async_trait]
pub trait ReplaySource: Send + Sync {
    /// At most `limit` rows from after `after` up to and with `upto`, as frames of the socket's dialect.
    ///
    /// # Errors
    /// See [`ReplayFailed`].
    async fn page(
        &self,
        conversation: &ConversationKey,
        after: Seq,
        upto: Seq,
        legacy: bool,
        limit: usize,
    ) -> Result<ReplayPage, ReplayFailed>;
}
