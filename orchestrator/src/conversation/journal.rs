//! The log as the conversations use it: rows of the router written in order, what a start must take up, and pages for a
//! panel that missed some.

use crate::bridge::{ReplayFailed, ReplayPage, ReplaySource};
use crate::history;
use crate::store::log::{Appended, LogError, LogStore, NewRow, OnTrouble, Row};
use async_trait::async_trait;
use routing_core::frame::Span;
use routing_core::id::{AgentSessionId, ConversationKey, Seq, TurnId};
use routing_core::past::{kept_by, seqs};
use routing_core::router::{self, Pending, Placed, Restored, row_frame};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::mpsc;

/// Kinds that people read.
const SEEDS: &[&str] = &["user", "say", "event", "ask", "answer"];

/// What became of an append.
pub(super) struct Written {
    /// Its number.
    pub(super) append: u64,
    /// What its keyed rows say.
    pub(super) said: Vec<Option<Said>>,
    /// Where the rows stand, or why they are not there.
    pub(super) outcome: Result<Vec<Appended>, LogError>,
}

/// The log of every conversation.
#[derive(Clone)]
pub struct Journal {
    log: Arc<dyn LogStore>,
}

impl Journal {
    /// A journal over a log.
    pub fn new(log: Arc<dyn LogStore>) -> Self {
        Self { log }
    }

    /// The log.
    pub fn log(&self) -> &Arc<dyn LogStore> {
        &self.log
    }

    /// Writes rows, in the order of the calls; what became of them comes to `written` in that order. Rows to keep are
    /// written when the disk takes them, if it does not now.
    pub(super) fn append(
        &self,
        append: u64,
        rows: Vec<router::NewRow>,
        keep: bool,
        written: &mpsc::UnboundedSender<Written>,
    ) {
        let rows: Vec<NewRow> = rows.into_iter().map(stored).collect();
        // What a keyed row says, to tell a repetition from another row under the same key.
        let said = rows.iter().map(|row| row.key.is_some().then(|| said(row))).collect();
        let on_trouble = if keep { OnTrouble::Keep } else { OnTrouble::Refuse };
        let written = written.clone();
        let answer = move |outcome| {
            // The conversations have ended: the rows stand all the same.
            let _ = written.send(Written { append, said, outcome });
        };
        self.log.append_then(rows, on_trouble, Box::new(answer));
    }

    /// Where the rows of an append stand, for the router.
    pub(super) fn placed(&self, appended: Vec<Appended>, said: Vec<Option<Said>>) -> Vec<Placed> {
        appended.into_iter().zip(said).map(|(appended, said)| self.place(appended, said)).collect()
    }

    /// What the log holds of a conversation, for the router.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn restored(&self, conversation: &ConversationKey) -> Result<Restored, LogError> {
        let started = self.log.last_of_kind(conversation, "turn_start")?;
        let ended = self.log.last_of_kind(conversation, "turn_end")?;
        let number = |row: &Option<Row>| row.as_ref().and_then(|row| row.body.get("turn")).and_then(Value::as_u64);
        let open = number(&started) > number(&ended);
        let taken = started.iter().filter(|_| open).flat_map(|row| seqs(&row.body, "takes")).collect();
        let boundary = self.log.last_of_kind(conversation, "boundary")?;
        let blind = self.log.last_of_kind(conversation, "blind")?;
        let pending = self.log.pending(conversation)?;
        let turns = self.turns_of(conversation, &pending)?;
        let pending = pending.into_iter().map(|row| Pending {
            turns: turns.get(&row.seq).map_or(0, |turns| u32::try_from(turns.len()).unwrap_or(u32::MAX)),
            seq: row.seq,
            kind: row.kind,
            body: row.body,
        });
        Ok(Restored {
            newest: self.log.newest(conversation)?,
            start: boundary.as_ref().map_or(Seq(0), |row| row.seq),
            kept: boundary.as_ref().map(|row| kept_by(&row.body)).unwrap_or_default(),
            last_turn: TurnId(number(&started).max(number(&ended)).unwrap_or_default()),
            blind: blind.is_some_and(|row| row.body.get("blind") == Some(&Value::Bool(true))),
            pending: pending.collect(),
            taken,
            again: ended.iter().flat_map(|row| seqs(&row.body, "again")).collect(),
        })
    }

    /// Which turns had taken rows that wait still.
    fn turns_of(
        &self,
        conversation: &ConversationKey,
        pending: &[Row],
    ) -> Result<BTreeMap<Seq, BTreeSet<u64>>, LogError> {
        let mut turns: BTreeMap<Seq, BTreeSet<u64>> = BTreeMap::new();
        // No turn takes a ticket or a question, and one may wait for days.
        let first =
            pending.iter().filter(|row| ["user", "event"].contains(&row.kind.as_str())).map(|row| row.seq).min();
        let Some(after) = first else { return Ok(turns) };
        history::each(&*self.log, conversation, Span { after, upto: history::END }, |row| {
            if let ("turn_start", Some(turn)) = (row.kind.as_str(), row.body.get("turn").and_then(Value::as_u64)) {
                for seq in seqs(&row.body, "takes") {
                    turns.entry(seq).or_default().insert(turn);
                }
            }
        })?;
        Ok(turns)
    }

    fn place(&self, appended: Appended, said: Option<Said>) -> Placed {
        let seq = appended.seq();
        let duplicate = matches!(appended, Appended::Duplicate(_));
        let differs = duplicate
            && said.is_some_and(|(conversation, text)| {
                let there = self.log.page(&conversation, Seq(seq.0 - 1), Some(seq), 1);
                there.is_ok_and(|rows| rows.first().is_some_and(|row| row.body.get("text") != text.as_ref()))
            });
        Placed { seq, duplicate, differs }
    }

    /// Rows of the transcript, the newest `most` of the kinds that people read.
    pub(super) fn recent(&self, conversation: &ConversationKey, most: usize) -> Result<Vec<Row>, LogError> {
        let boundary = self.log.last_of_kind(conversation, "boundary")?;
        let mut rows = Vec::new();
        for span in boundary.as_ref().map(|row| kept_by(&row.body)).unwrap_or_default() {
            history::each(&*self.log, conversation, span, |row| {
                rows.extend(Some(row).filter(|row| SEEDS.contains(&row.kind.as_str())));
            })?;
        }
        let start = boundary.map_or(Seq(0), |row| row.seq);
        rows.extend(self.log.newest_of_kinds(conversation, SEEDS, start, most)?);
        Ok(rows.split_off(rows.len().saturating_sub(most)))
    }

    /// The point within a session that the agent has to go back to when it starts: the conversation was rewound, and no
    /// turn has ended since with the agent there.
    pub(super) fn rewound_to(
        &self,
        conversation: &ConversationKey,
        session: &AgentSessionId,
    ) -> Result<Option<String>, LogError> {
        let Some(boundary) = self.log.last_of_kind(conversation, "boundary")? else { return Ok(None) };
        let text = |row: &Row, field: &str| row.body.get(field).and_then(Value::as_str).map(str::to_owned);
        if text(&boundary, "session_id").as_deref() != Some(session.as_str()) {
            return Ok(None);
        }
        let ended = self.log.last_of_kind(conversation, "turn_end")?;
        let is_there = ended.is_some_and(|row| row.seq > boundary.seq && text(&row, "session").is_some());
        Ok(text(&boundary, "anchor").filter(|_| !is_there))
    }
}

#[async_trait]
impl ReplaySource for Journal {
    async fn page(
        &self,
        conversation: &ConversationKey,
        after: Seq,
        upto: Seq,
        legacy: bool,
        limit: usize,
    ) -> Result<ReplayPage, ReplayFailed> {
        let (log, conversation) = (self.log.clone(), conversation.clone());
        let read = tokio::task::spawn_blocking(move || log.page(&conversation, after, Some(upto), limit));
        let failed = |reason: String| ReplayFailed { reason };
        let rows = read.await.map_err(|error| failed(error.to_string()))?.map_err(|error| failed(error.to_string()))?;
        let frame = |row: &Row| {
            let at_ms = u64::try_from(row.at_ms).unwrap_or_default();
            Some(row_frame(row.seq, &row.kind, at_ms, &row.body, legacy)?.encode().into())
        };
        Ok(ReplayPage { frames: rows.iter().filter_map(frame).collect(), last: rows.last().map(|row| row.seq) })
    }
}

fn stored(row: router::NewRow) -> NewRow {
    NewRow {
        conversation: row.conversation,
        kind: row.kind.to_owned(),
        key: row.key,
        at_ms: i64::try_from(row.at_ms).unwrap_or(i64::MAX),
        body: row.body,
        inbound: row.inbound,
        settles: row.settles,
    }
}

/// Whose row it is, and its text.
pub(super) type Said = (ConversationKey, Option<Value>);

fn said(row: &NewRow) -> Said {
    (row.conversation.clone(), row.body.get("text").cloned())
}
