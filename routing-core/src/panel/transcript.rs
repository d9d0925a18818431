//! The transcript: rows of the log in their order, each exactly once, and the blocks of text that are still being
//! written. Rows are handed on and not kept: only their number is.

use super::pairs::Pairs;
use super::{Panel, Row, RowKind, UiChange};
use crate::frame::{Action, Entry, Say, Span, Stream, StreamPhase, TurnState};
use crate::id::{MessageId, Seq, TabKey};
use crate::past::kept_by;
use serde_json::Value;

/// How often a missing row is asked for before the rest is shown without it.
const MOST_TRIES: u32 = 2;

/// How far the log was shown, and which blocks are open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Transcript {
    last: Seq,
    /// After the first row of each, the second one is the next that belongs to the transcript: what stands between does not.
    jumps: Vec<(Seq, Seq)>,
    /// After which row one was missing, and how often it was asked for.
    gap: (Seq, u32),
    /// Open blocks. `true`: text of it was missed.
    live: Pairs<String, bool>,
}

impl Transcript {
    pub(super) fn last(&self) -> Seq {
        self.last
    }

    pub(super) fn start_at(&mut self, after: Seq) {
        self.last = after;
        self.jumps.clear();
    }

    /// Reads what is kept first, then what is after.
    fn start_with(&mut self, kept: &[Span], after: Seq) {
        let starts = kept.iter().map(|span| span.after).chain([after]);
        self.jumps = kept.iter().map(|span| span.upto).zip(starts.skip(1)).collect();
        self.went_to(kept.first().map_or(after, |span| span.after));
    }

    fn went_to(&mut self, seq: Seq) {
        self.last = seq;
        while let Some((_, to)) = self.jumps.first().copied().filter(|(from, _)| *from == self.last) {
            self.last = to;
            self.jumps.remove(0);
        }
    }

    pub(super) fn lost(&mut self) {
        for missed in self.live.values_mut() {
            *missed = true;
        }
    }
}

impl Panel {
    /// One row. A row that is missing before it is read again, over a new socket: that one begins where it is told to.
    pub(super) fn entry(&mut self, entry: Entry, now: u64) {
        let last = self.transcript.last;
        if entry.seq <= last {
            return;
        }
        if entry.seq != last.next() {
            let tries = if self.transcript.gap.0 == last { self.transcript.gap.1 } else { 0 };
            if tries < MOST_TRIES {
                self.transcript.gap = (last, tries + 1);
                return self.reopen(now);
            }
            self.notice("log_gap", "");
        }
        // Beyond a jump nothing is left to be jumped to.
        self.transcript.jumps.retain(|(from, _)| *from >= entry.seq);
        self.transcript.went_to(entry.seq);
        self.committed(entry);
    }

    fn committed(&mut self, entry: Entry) {
        let mids: Vec<MessageId> = entry
            .extra
            .get("mids")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(|mid| mid.as_str().map(MessageId::from))
            .collect();
        let keeps = !kept_by(&Value::Object(entry.extra.clone())).is_empty();
        let row = row(entry, self.tab.as_ref());
        if let Some(block) = &row.block {
            self.close_block(&block.clone());
        }
        match row.kind {
            RowKind::Boundary => {
                // One that keeps something comes behind that, which was read anew for it.
                if !keeps {
                    self.clear_transcript();
                }
                // What waited is dropped with what it was said in.
                self.leave();
                self.show(UiChange::Todo { items: Vec::new() });
            }
            RowKind::TurnStart => mids.iter().for_each(|mid| self.seen(mid)),
            RowKind::TurnEnd => {
                self.set_working(false);
                self.drop_blocks();
                self.turn_over(&mids, row.outcome.as_deref() == Some("put_back"));
            }
            RowKind::Cancelled => {
                if let Some(mid) = &row.mid {
                    self.cancel_answered(&mid.clone(), true);
                }
            }
            RowKind::User => {
                if let Some(mid) = &row.mid {
                    self.accepted(&mid.clone());
                }
            }
            RowKind::Say
            | RowKind::Notice
            | RowKind::Action
            | RowKind::Event
            | RowKind::Ask
            | RowKind::Answer
            | RowKind::Other => {}
        }
        self.show(UiChange::Row { row });
    }

    /// What the transcript consists of from now on. Its rows follow.
    pub(super) fn transcript_is(&mut self, kept: &[Span], after: Seq) {
        self.clear_transcript();
        self.transcript.start_with(kept, after);
    }

    /// Removes everything that is shown; where the log is read stays.
    pub(super) fn clear_transcript(&mut self) {
        self.transcript.live.clear();
        self.show(UiChange::Cleared);
    }

    /// Blocks that will not be finished: a turn's finished text is in the log before its end.
    pub(super) fn drop_blocks(&mut self) {
        let open: Vec<String> = self.transcript.live.iter().map(|(id, _)| id.clone()).collect();
        for id in open {
            self.close_block(&id);
        }
    }

    pub(super) fn stream(&mut self, stream: Stream) {
        match stream.phase {
            StreamPhase::Text | StreamPhase::Think => {
                let Some(text) = stream.delta.filter(|text| !text.is_empty()) else { return };
                let gap = self.transcript.live.insert(stream.id.clone(), false).unwrap_or(false);
                self.show(UiChange::Delta { id: stream.id, thought: stream.phase == StreamPhase::Think, text, gap });
            }
            StreamPhase::End => {
                if self.transcript.live.contains(&stream.id) {
                    self.show(UiChange::BlockEnd { id: stream.id });
                }
            }
        }
    }

    fn close_block(&mut self, id: &String) {
        if self.transcript.live.remove(id).is_some() {
            self.show(UiChange::BlockGone { id: id.clone() });
        }
    }

    /// Words of the daemon that are in no log.
    pub(super) fn say(&mut self, say: Say) {
        self.show(UiChange::Row {
            row: Row {
                seq: None,
                kind: RowKind::Notice,
                text: say.text,
                mid: None,
                turn: None,
                at_ms: None,
                workflow: None,
                elsewhere: false,
                block: None,
                name: None,
                detail: None,
                outcome: None,
            },
        });
    }

    pub(super) fn action(&mut self, action: Action) {
        self.show(UiChange::Activity { name: action.name, detail: action.detail.unwrap_or_default() });
    }

    pub(super) fn turn(&mut self, state: TurnState) {
        match state {
            TurnState::Working => self.set_working(true),
            TurnState::Done => {
                self.set_working(false);
                self.drop_blocks();
            }
        }
    }

    pub(super) fn set_working(&mut self, working: bool) {
        if self.working != working {
            self.working = working;
            self.show(UiChange::Working { working });
        }
    }
}

fn row(entry: Entry, here: Option<&TabKey>) -> Row {
    let text_of = |name: &str| entry.extra.get(name).and_then(Value::as_str).map(str::to_owned);
    let tab = entry.origin.as_ref().and_then(|origin| origin.get("tab")).and_then(Value::as_str);
    // The workflow stands in the origin, or its names do.
    let workflow = entry.origin.as_ref().map(|origin| origin.get("workflow").unwrap_or(origin));
    let named =
        |name: &str| workflow.and_then(|one| one.get(name)).and_then(Value::as_str).filter(|text| !text.is_empty());
    let outcome = entry.extra.get("outcome").or_else(|| entry.extra.get("reason")).and_then(|outcome| match outcome {
        Value::String(word) => Some(word.clone()),
        other => other.get("outcome").and_then(Value::as_str).map(str::to_owned),
    });
    Row {
        seq: Some(entry.seq),
        kind: RowKind::of(&entry.kind),
        workflow: named("title").or_else(|| named("handle")).map(str::to_owned),
        elsewhere: tab.is_some() && tab != here.map(TabKey::as_str),
        block: text_of("id"),
        name: text_of("name"),
        detail: text_of("detail"),
        outcome,
        text: entry.text.clone().unwrap_or_default(),
        mid: entry.mid,
        turn: entry.turn,
        at_ms: entry.at_ms,
    }
}
