//! A conversation log in memory that keeps the contract of the real one: transactions, gapless places, unique keys,
//! settling, and what a restart finds.

use crate::frame::FromDaemon;
use crate::id::{ConversationKey, Seq, TurnId};
use crate::past::{Found, NotFound, Past, Point, kept_by, seqs};
use crate::router::{NewRow, Pending, Placed, Restored, row_frame};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug)]
struct Row {
    seq: Seq,
    new: NewRow,
    settled: bool,
}

/// Every conversation's rows.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    rows: BTreeMap<ConversationKey, Vec<Row>>,
}

impl Log {
    /// Writes rows in one transaction.
    pub(super) fn append(&mut self, rows: Vec<NewRow>) -> Vec<Placed> {
        rows.into_iter().map(|row| self.append_one(row)).collect()
    }

    fn append_one(&mut self, new: NewRow) -> Placed {
        let rows = self.rows.entry(new.conversation.clone()).or_default();
        let same = new.key.as_ref().and_then(|key| rows.iter().find(|row| row.new.key.as_ref() == Some(key)));
        if let Some(row) = same {
            let differs = row.new.body.get("text") != new.body.get("text");
            return Placed { seq: row.seq, duplicate: true, differs };
        }
        let seq = Seq(rows.len() as u64 + 1);
        for row in rows.iter_mut().filter(|row| new.settles.contains(&row.seq)) {
            row.settled = true;
        }
        rows.push(Row { seq, new, settled: false });
        Placed { seq, duplicate: false, differs: false }
    }

    /// The rows from after one place up to another, as frames.
    pub(super) fn replay(
        &self,
        conversation: &ConversationKey,
        after: Seq,
        upto: Seq,
        legacy: bool,
    ) -> Vec<FromDaemon> {
        let rows = self.rows.get(conversation).into_iter().flatten();
        rows.filter(|row| row.seq > after && row.seq <= upto)
            .filter_map(|row| row_frame(row.seq, row.new.kind, row.new.at_ms, &row.new.body, legacy))
            .collect()
    }

    /// What is kept when a conversation goes back to a point.
    pub(super) fn recall(&self, conversation: &ConversationKey, point: &Point) -> Result<Found, NotFound> {
        let mut past = Past::default();
        let rows = self.rows.get(conversation).map(Vec::as_slice).unwrap_or_default();
        for row in rows {
            past.take(row.seq, row.new.kind, i64::try_from(row.new.at_ms).unwrap_or(i64::MAX), &row.new.body);
        }
        let mut found = past.find(point)?;
        let asked = found.message.and_then(|seq| rows.iter().find(|row| row.seq == seq));
        found.text = asked.and_then(|row| row.new.body.get("text")?.as_str().map(str::to_owned));
        Ok(found)
    }

    /// What a restart finds of each conversation.
    pub(super) fn restored(&self) -> Vec<(ConversationKey, Restored)> {
        self.rows.iter().map(|(key, rows)| (key.clone(), restored(rows))).collect()
    }
}

/// How many turns had taken a row.
fn turns_of(rows: &[Row], seq: Seq) -> usize {
    let takes = |row: &&Row| row.new.kind == "turn_start" && seqs(&row.new.body, "takes").contains(&seq);
    let turns: BTreeSet<u64> = rows.iter().filter(takes).filter_map(|row| row.new.body.get("turn")?.as_u64()).collect();
    turns.len()
}

/// Rows that the last turn was not done with although it ended.
fn again(rows: &[Row]) -> Vec<Seq> {
    let last = rows.iter().rfind(|row| row.new.kind == "turn_end");
    last.map(|row| seqs(&row.new.body, "again")).unwrap_or_default()
}

fn restored(rows: &[Row]) -> Restored {
    let turn_of = |row: &Row| row.new.body.get("turn").and_then(Value::as_u64);
    let started = || rows.iter().filter(|row| row.new.kind == "turn_start");
    let ended: BTreeSet<u64> = rows.iter().filter(|row| row.new.kind == "turn_end").filter_map(turn_of).collect();
    let open = started().filter(|row| turn_of(row).is_some_and(|turn| !ended.contains(&turn)));
    let taken: BTreeSet<Seq> = open.flat_map(|row| seqs(&row.new.body, "takes")).collect();
    let pending: Vec<Pending> = rows
        .iter()
        .filter(|row| row.new.inbound && !row.settled)
        .map(|row| Pending {
            seq: row.seq,
            kind: row.new.kind.to_owned(),
            body: row.new.body.clone(),
            turns: u32::try_from(turns_of(rows, row.seq)).unwrap_or(u32::MAX),
        })
        .collect();
    let boundary = rows.iter().rfind(|row| row.new.kind == "boundary");
    Restored {
        newest: rows.last().map(|row| row.seq).unwrap_or_default(),
        start: boundary.map(|row| row.seq).unwrap_or_default(),
        kept: boundary.map(|row| kept_by(&row.new.body)).unwrap_or_default(),
        last_turn: TurnId(started().filter_map(turn_of).max().unwrap_or_default()),
        taken: pending.iter().map(|row| row.seq).filter(|seq| taken.contains(seq)).collect(),
        again: again(rows),
        blind: rows.iter().rfind(|row| row.new.kind == "blind").is_some_and(|row| row.new.body["blind"] == true),
        pending,
    }
}
