//! Reads in the log for whoever asked: beside the conversations, which never wait for it. It decides only how much is told
//! at once.

use crate::history;
use crate::store::log::{LogError, LogStore};
use routing_core::frame::{ExportFormat, FromDaemon, HistoryExport, HistoryFound, HistoryList, HistoryTranscript};
use routing_core::id::{AgentSessionId, Backend, CallId, ConversationKey, SocketId};
use routing_core::past::{Found, NotFound, Point};
use routing_core::refusal::Refusal;
use routing_core::router::{Look, Reader};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};

/// Reads at the same time, so that the disk stays free for the conversations.
const AT_ONCE: usize = 2;
/// Most rows that a search tells.
const MOST_HITS: usize = 50;
/// Bytes of one part of a document, with room for what JSON escapes.
const PART: usize = 128 * 1024;
/// A document is told to a panel up to this size, in bytes.
const LARGEST: usize = 32 * 1024 * 1024;

/// What was read.
pub(super) enum Told {
    /// For the router.
    Recalled {
        /// Who asked.
        socket: SocketId,
        /// Whose conversation.
        backend: Backend,
        /// What was asked for.
        point: Point,
        /// What is there.
        found: Result<Found, NotFound>,
    },
    /// For a panel.
    Frame(SocketId, FromDaemon),
    /// For an agent.
    Answer(CallId, Result<Value, Refusal>),
}

/// Reads the log of every conversation.
pub(super) struct Library {
    log: Arc<dyn LogStore>,
    desks: Arc<Semaphore>,
    told: mpsc::UnboundedSender<Told>,
}

impl Library {
    /// A reader of a log, and what it tells.
    pub(super) fn new(log: Arc<dyn LogStore>) -> (Self, mpsc::UnboundedReceiver<Told>) {
        let (told, read) = mpsc::unbounded_channel();
        (Self { log, desks: Arc::new(Semaphore::new(AT_ONCE)), told }, read)
    }

    pub(super) fn recall(&self, socket: SocketId, backend: Backend, point: Point) {
        self.read(move |log| {
            let found = history::recall(log, &ConversationKey::of(&backend), &point);
            vec![Told::Recalled { socket, backend, point, found }]
        });
    }

    pub(super) fn look(&self, by: Reader, backend: Backend, look: Look) {
        let key = ConversationKey::of(&backend);
        self.read(move |log| match by {
            Reader::Panel { socket, cid } => {
                let frames = for_panel(log, &key, cid, look);
                frames.into_iter().map(|frame| Told::Frame(socket, frame)).collect()
            }
            Reader::Call(call) => vec![Told::Answer(call, for_agent(log, &key, look))],
        });
    }

    fn read(&self, job: impl FnOnce(&dyn LogStore) -> Vec<Told> + Send + 'static) {
        let (log, desks, told) = (self.log.clone(), self.desks.clone(), self.told.clone());
        tokio::spawn(async move {
            let Ok(_desk) = desks.acquire_owned().await else { return };
            match tokio::task::spawn_blocking(move || job(&*log)).await {
                Ok(all) => all.into_iter().for_each(|one| {
                    // Nobody is there any more when the daemon ends.
                    let _ = told.send(one);
                }),
                Err(error) => tracing::error!(%error, "a reader of the log failed"),
            }
        });
    }
}

fn for_panel(log: &dyn LogStore, key: &ConversationKey, cid: String, look: Look) -> Vec<FromDaemon> {
    let words = |error: &LogError| Some(error.to_string());
    match look {
        Look::Sessions => {
            let (sessions, error) = match history::sessions(log, key) {
                Ok(sessions) => (sessions, None),
                Err(error) => (Vec::new(), words(&error)),
            };
            vec![HistoryList { cid, sessions, error }.into()]
        }
        Look::Transcript(session_id) => {
            let (messages, error) = match history::transcript(log, key, &session_id) {
                Ok(Some(messages)) => (messages, None),
                Ok(None) => (Vec::new(), Some(NotFound::Session.message().to_owned())),
                Err(error) => (Vec::new(), words(&error)),
            };
            vec![HistoryTranscript { cid, session_id, messages, error }.into()]
        }
        Look::Search(text) => {
            let (hits, more, error) = match history::search(log, key, &text, MOST_HITS) {
                Ok((hits, more)) => (hits, more, None),
                Err(error) => (Vec::new(), false, words(&error)),
            };
            vec![HistoryFound { cid, hits, more, error }.into()]
        }
        Look::Export { format, session } => export(log, key, &cid, format, session.as_ref()),
    }
}

fn export(
    log: &dyn LogStore,
    key: &ConversationKey,
    cid: &str,
    format: ExportFormat,
    session: Option<&AgentSessionId>,
) -> Vec<FromDaemon> {
    let ending = match format {
        ExportFormat::Md => "md",
        ExportFormat::Json => "json",
    };
    let name = format!("conversation-{}.{ending}", key.backend());
    let part = |text: String, last, error| -> FromDaemon {
        HistoryExport { cid: cid.to_owned(), name: name.clone(), text, last, error }.into()
    };
    let read = match session {
        Some(_) => history::document(log, key, session, format, false),
        None => history::shown(log, key, format).map(Some),
    };
    let failed = |words: String| vec![part(String::new(), true, Some(words))];
    let text = match read {
        Ok(Some(text)) if text.len() > LARGEST => {
            return failed("It is too long for the panel: use `comfy-orchestrator log export`.".to_owned());
        }
        Ok(Some(text)) => text,
        Ok(None) => return failed(NotFound::Session.message().to_owned()),
        Err(error) => return failed(error.to_string()),
    };
    let mut parts = Vec::new();
    let mut rest = text.as_str();
    while rest.len() > PART {
        let at = (0..=PART).rev().find(|at| rest.is_char_boundary(*at)).unwrap_or(rest.len());
        let (now, later) = rest.split_at(at);
        parts.push(part(now.to_owned(), false, None));
        rest = later;
    }
    parts.push(part(rest.to_owned(), true, None));
    parts
}

/// An agent only searches.
fn for_agent(log: &dyn LogStore, key: &ConversationKey, look: Look) -> Result<Value, Refusal> {
    let Look::Search(text) = look else {
        return Err(Refusal::BadArguments { problems: vec!["agents can only search".to_owned()] });
    };
    let (hits, more) = history::search(log, key, &text, MOST_HITS)
        .map_err(|error| Refusal::Failed { failure: error.code().to_owned(), message: error.to_string() })?;
    let hits: Vec<Value> = hits
        .iter()
        .map(|hit| {
            let who = match hit.kind.as_str() {
                "user" => "person",
                "say" => "you",
                _ => "daemon",
            };
            json!({"row": hit.seq, "who": who, "at": history::moment(hit.at_ms), "text": hit.text})
        })
        .collect();
    Ok(json!({"hits": hits, "more": more}))
}
