//! The answer of a write that is on its way: a future for the daemon, a blocking wait for plain threads.

use super::LogError;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::sync::oneshot;

/// A write that was accepted into the queue. Dropping it does not take the write back.
#[derive(Debug)]
#[must_use = "the write is durable only once this is answered"]
pub struct Pending<T>(oneshot::Receiver<Result<T, LogError>>);

impl<T> Pending<T> {
    /// A pending answer and the end that gives it. An end that is dropped answers [`LogError::Closed`].
    pub(super) fn channel() -> (oneshot::Sender<Result<T, LogError>>, Self) {
        let (answer, receiver) = oneshot::channel();
        (answer, Self(receiver))
    }

    /// An answer that is there already.
    pub(super) fn ready(result: Result<T, LogError>) -> Self {
        let (answer, pending) = Self::channel();
        // The receiver lives in `pending`, so this cannot fail.
        let _ = answer.send(result);
        pending
    }

    /// Blocks the thread until the answer is there. Not for asynchronous tasks, which await instead.
    ///
    /// # Errors
    /// Those of the write.
    pub fn wait(self) -> Result<T, LogError> {
        self.0.blocking_recv().unwrap_or(Err(LogError::Closed))
    }
}

impl<T> Future for Pending<T> {
    type Output = Result<T, LogError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context).map(|received| received.unwrap_or(Err(LogError::Closed)))
    }
}
