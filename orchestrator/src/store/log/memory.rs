//! The conversation log in memory: the twin of the one on disk, for tests and for runs that shall leave nothing.

use super::{Answer, Appended, LogError, LogStore, NewRow, OnTrouble, Pending, Row, Words};
use routing_core::id::{ConversationKey, Seq};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// A log that ends with its value.
#[derive(Debug)]
pub struct MemoryLog {
    state: Mutex<State>,
    /// Never used: memory refuses nothing.
    trouble: watch::Sender<Option<LogError>>,
}

impl Default for MemoryLog {
    fn default() -> Self {
        Self { state: Mutex::default(), trouble: watch::Sender::new(None) }
    }
}

#[derive(Debug, Default)]
struct State {
    conversations: Vec<Conversation>,
    closed: bool,
}

#[derive(Debug)]
struct Conversation {
    key: ConversationKey,
    rows: Vec<Row>,
    by_key: HashMap<String, Seq>,
}

/// What a failed append has to take back, last first.
enum Undo {
    Conversation,
    Row(usize),
    Settled(usize, usize),
}

impl MemoryLog {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T: Default>(
        &self,
        conversation: &ConversationKey,
        job: impl FnOnce(&Conversation) -> T,
    ) -> Result<T, LogError> {
        let state = self.state();
        if state.closed {
            return Err(LogError::Closed);
        }
        Ok(state.conversations.iter().find(|known| known.key == *conversation).map(job).unwrap_or_default())
    }
}

impl State {
    fn append(&mut self, rows: Vec<NewRow>) -> Result<Vec<Appended>, LogError> {
        if self.closed {
            return Err(LogError::Closed);
        }
        let mut undo = Vec::new();
        let result = rows.into_iter().map(|row| self.append_one(row, &mut undo)).collect();
        if Result::is_err(&result) {
            for step in undo.into_iter().rev() {
                self.take_back(step);
            }
        }
        result
    }

    fn append_one(&mut self, row: NewRow, undo: &mut Vec<Undo>) -> Result<Appended, LogError> {
        let place = match self.conversations.iter().position(|known| known.key == row.conversation) {
            Some(place) => place,
            None => {
                let key = row.conversation.clone();
                self.conversations.push(Conversation { key, rows: Vec::new(), by_key: HashMap::new() });
                undo.push(Undo::Conversation);
                self.conversations.len() - 1
            }
        };
        let conversation = &mut self.conversations[place];
        if let Some(seq) = row.key.as_ref().and_then(|key| conversation.by_key.get(key)) {
            return Ok(Appended::Duplicate(*seq));
        }
        let seq = Seq(conversation.rows.len() as u64 + 1);
        if let Some(key) = &row.key {
            conversation.by_key.insert(key.clone(), seq);
        }
        conversation.rows.push(Row {
            conversation: row.conversation,
            seq,
            kind: row.kind,
            key: row.key,
            at_ms: row.at_ms,
            body: row.body,
            inbound: row.inbound,
            settled: false,
        });
        undo.push(Undo::Row(place));
        for settled in row.settles {
            let index = settled.0.checked_sub(1).and_then(|index| usize::try_from(index).ok());
            let target = index.and_then(|index| conversation.rows.get_mut(index)).filter(|target| target.inbound);
            let (Some(index), Some(target)) = (index, target) else {
                return Err(LogError::UnknownRow { conversation: conversation.key.clone(), seq: settled });
            };
            if !std::mem::replace(&mut target.settled, true) {
                undo.push(Undo::Settled(place, index));
            }
        }
        Ok(Appended::New(seq))
    }

    fn take_back(&mut self, step: Undo) {
        match step {
            Undo::Conversation => {
                self.conversations.pop();
            }
            Undo::Row(place) => {
                let conversation = &mut self.conversations[place];
                if let Some(key) = conversation.rows.pop().and_then(|row| row.key) {
                    conversation.by_key.remove(&key);
                }
            }
            Undo::Settled(place, index) => self.conversations[place].rows[index].settled = false,
        }
    }
}

impl LogStore for MemoryLog {
    fn append_then(&self, rows: Vec<NewRow>, _on_trouble: OnTrouble, answer: Answer) {
        // Answers must not overtake each other.
        let mut state = self.state();
        answer(state.append(rows));
    }

    fn trouble(&self) -> watch::Receiver<Option<LogError>> {
        self.trouble.subscribe()
    }

    fn page(
        &self,
        conversation: &ConversationKey,
        after: Seq,
        upto: Option<Seq>,
        limit: usize,
    ) -> Result<Vec<Row>, LogError> {
        let start = usize::try_from(after.0).unwrap_or(usize::MAX);
        self.read(conversation, |known| {
            let wanted = known.rows.iter().skip(start).take_while(|row| upto.is_none_or(|upto| row.seq <= upto));
            wanted.take(limit).cloned().collect()
        })
    }

    fn newest(&self, conversation: &ConversationKey) -> Result<Seq, LogError> {
        self.read(conversation, |known| Seq(known.rows.len() as u64))
    }

    fn pending(&self, conversation: &ConversationKey) -> Result<Vec<Row>, LogError> {
        self.read(conversation, |known| known.rows.iter().filter(|row| row.inbound && !row.settled).cloned().collect())
    }

    fn conversations(&self) -> Result<Vec<ConversationKey>, LogError> {
        let state = self.state();
        if state.closed {
            return Err(LogError::Closed);
        }
        Ok(state.conversations.iter().map(|known| known.key.clone()).collect())
    }

    fn last_of_kind(&self, conversation: &ConversationKey, kind: &str) -> Result<Option<Row>, LogError> {
        self.read(conversation, |known| known.rows.iter().rev().find(|row| row.kind == kind).cloned())
    }

    fn newest_of_kinds(
        &self,
        conversation: &ConversationKey,
        kinds: &[&str],
        after: Seq,
        limit: usize,
    ) -> Result<Vec<Row>, LogError> {
        self.read(conversation, |known| {
            let wanted = known.rows.iter().rev().take_while(|row| row.seq > after);
            let mut rows: Vec<Row> =
                wanted.filter(|row| kinds.contains(&row.kind.as_str())).take(limit).cloned().collect();
            rows.reverse();
            rows
        })
    }

    fn by_key(&self, conversation: &ConversationKey, key: &str) -> Result<Option<Row>, LogError> {
        self.read(conversation, |known| known.rows.iter().find(|row| row.key.as_deref() == Some(key)).cloned())
    }

    fn search(
        &self,
        conversation: &ConversationKey,
        words: &Words,
        before: Seq,
        limit: usize,
    ) -> Result<Vec<Row>, LogError> {
        self.read(conversation, |known| {
            let found = known.rows.iter().rev().filter(|row| row.seq < before && words.are_in(row));
            found.take(limit).cloned().collect()
        })
    }

    fn flush(&self) -> Pending<()> {
        let closed = self.state().closed;
        Pending::ready(if closed { Err(LogError::Closed) } else { Ok(()) })
    }

    fn close(&self) -> Pending<()> {
        self.state().closed = true;
        Pending::ready(Ok(()))
    }
}
