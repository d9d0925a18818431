//! What must hold after every kill, and at the end: nothing said is lost, nothing is done twice. It looks at the log as
//! it lies on disk and at what was seen from outside, and knows nothing of how the daemon came there.

use super::agents::messages;
use super::records::{AgentRecord, Records, TabRecord};
use super::victim::LogRow;
use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
#[path = "check_tests.rs"]
mod tests;

/// How a message is marked that is given to the agent again (rule T8).
const AGAIN: &str = "[This message was interrupted before and is sent again.]";
/// How an event is marked that is told again (rule F3).
const REPEATED: &str = "[Repeated: a turn that did not come to its end was told this before.]";

/// What was found, in words.
#[derive(Debug, Default)]
pub(super) struct Findings(pub(super) Vec<String>);

impl Findings {
    fn add(&mut self, text: String) {
        if !self.0.contains(&text) {
            self.0.push(text);
        }
    }

    fn expect(&mut self, holds: bool, text: impl FnOnce() -> String) {
        if !holds {
            self.add(text());
        }
    }
}

/// After a kill: what was acknowledged or shown is on disk, and the rows have no gap.
pub(super) fn after_kill(log: &[LogRow], records: &Records) -> Findings {
    let mut found = Findings::default();
    let log = Log::new(log);
    log.numbered(&mut found);
    for (name, tab) in &records.tabs {
        for mid in &tab.acknowledged {
            found.expect(log.message(&tab.backend, mid).is_some(), || {
                format!("{mid} was acknowledged to tab {name} and is not in the log")
            });
        }
        log.shown(name, tab, &mut found);
    }
    found
}

/// At the end, when nothing is under way any more.
pub(super) fn at_end(log: &[LogRow], records: &Records, killed: bool) -> Findings {
    let mut found = after_kill(log, records);
    let log = Log::new(log);
    for (name, tab) in &records.tabs {
        log.sent(name, tab, &mut found);
        log.complete(name, tab, &mut found);
        log.runs_of(name, tab, &records.agents, &mut found);
        for (class, times) in &tab.added {
            found.expect(*times == 1, || format!("{class} was added {times} times in tab {name}"));
        }
    }
    log.turns(&mut found);
    log.reported(&mut found);
    log.given(&records.agents, &mut found);
    log.said(&mut found);
    log.runs(&records.agents, &mut found);
    questions(&log, records, killed, &mut found);
    found
}

struct Log<'a> {
    rows: BTreeMap<&'a str, Vec<&'a LogRow>>,
}

impl<'a> Log<'a> {
    fn new(rows: &'a [LogRow]) -> Self {
        let mut of: BTreeMap<&str, Vec<&LogRow>> = BTreeMap::new();
        for row in rows {
            of.entry(&row.backend).or_default().push(row);
        }
        Self { rows: of }
    }

    fn of(&self, backend: &str) -> &[&'a LogRow] {
        self.rows.get(backend).map(Vec::as_slice).unwrap_or_default()
    }

    fn by_key(&self, backend: &str, key: &str) -> Option<&'a LogRow> {
        self.of(backend).iter().find(|row| row.key.as_deref() == Some(key)).copied()
    }

    fn message(&self, backend: &str, mid: &str) -> Option<&'a LogRow> {
        self.by_key(backend, &format!("mid:{mid}"))
    }

    /// Rows are numbered 1, 2, 3 in each conversation, and no row has another's key.
    fn numbered(&self, found: &mut Findings) {
        for (backend, rows) in &self.rows {
            for (at, row) in rows.iter().enumerate() {
                found.expect(row.seq == at as u64 + 1, || {
                    format!("the log of {backend} has row {} at place {}", row.seq, at + 1)
                });
            }
            let keys: Vec<&String> = rows.iter().filter_map(|row| row.key.as_ref()).collect();
            let distinct: BTreeSet<_> = keys.iter().collect();
            found.expect(keys.len() == distinct.len(), || format!("the log of {backend} has a key twice"));
        }
    }

    /// What a tab showed is in the log, in its order, without a gap but where a boundary emptied the transcript.
    fn shown(&self, name: &str, tab: &TabRecord, found: &mut Findings) {
        let rows = self.of(&tab.backend);
        let mut last = 0;
        for shown in &tab.rows {
            match rows.iter().find(|row| row.seq == shown.seq) {
                Some(row) => found.expect(row.text("text") == shown.text, || {
                    format!("row {} in tab {name} reads `{}`, in the log `{}`", shown.seq, shown.text, row.text("text"))
                }),
                None => found.add(format!("row {} was shown in tab {name} and is not in the log", shown.seq)),
            }
            let cleared = shown.after_clear
                && shown.seq > last
                && rows.iter().any(|row| row.kind == "boundary" && row.seq + 1 >= shown.seq);
            let next = shown.seq == last + 1;
            found.expect(next || cleared, || format!("tab {name} showed row {} after row {last}", shown.seq));
            last = shown.seq;
        }
        for code in &tab.notices {
            found.expect(code != "log_gap", || format!("tab {name} had to show the log with a gap"));
        }
    }

    /// Every message of a tab came to its end at the panel, too.
    fn sent(&self, name: &str, tab: &TabRecord, found: &mut Findings) {
        found.expect(tab.down.is_none(), || format!("tab {name} was told to stay away: {:?}", tab.down));
        for (mid, state) in &tab.messages {
            found.expect(state == "Done" || state == "Cancelled", || {
                format!("{mid} is `{state}` in the panel of tab {name}")
            });
            if state == "Done" {
                let logged = self.message(&tab.backend, mid).is_some();
                found.expect(logged, || format!("{mid} of tab {name} is done and not in the log"));
            }
        }
    }

    /// Every tab has seen the end of its conversation's log.
    fn complete(&self, name: &str, tab: &TabRecord, found: &mut Findings) {
        let newest = self.of(&tab.backend).last().map_or(0, |row| row.seq);
        let seen = tab.rows.last().map_or(0, |row| row.seq);
        let emptied = self.of(&tab.backend).last().is_some_and(|row| row.kind == "boundary");
        found.expect(seen == newest || emptied, || format!("tab {name} has seen row {seen} of {newest}"));
    }

    /// Turns have increasing numbers, one start and one end.
    fn turns(&self, found: &mut Findings) {
        for (backend, rows) in &self.rows {
            let mut last = 0;
            for row in rows {
                let Some(turn) = row.turn() else { continue };
                let ends = rows.iter().filter(|other| other.kind == "turn_end" && other.turn() == Some(turn)).count();
                match row.kind.as_str() {
                    "turn_start" => {
                        found.expect(turn > last, || format!("turn {turn} of {backend} starts after turn {last}"));
                        found.expect(ends == 1, || format!("turn {turn} of {backend} has {ends} ends"));
                        last = turn;
                    }
                    "turn_end" => found.expect(ends == 1, || format!("turn {turn} of {backend} has {ends} ends")),
                    _ => {}
                }
            }
        }
    }

    /// Every row that an agent must take is settled once: a message by a turn's end that names it, by the row that takes
    /// it back, or by a boundary; and what a kill cut off, with a notice.
    fn reported(&self, found: &mut Findings) {
        for (backend, rows) in &self.rows {
            for row in rows.iter().filter(|row| row.inbound) {
                let what = row.key.clone().unwrap_or_else(|| format!("row {}", row.seq));
                let Some(by) = row.settled_by.and_then(|seq| rows.iter().find(|other| other.seq == seq)) else {
                    found.add(format!("{what} of {backend} is neither answered nor reported"));
                    continue;
                };
                if row.kind != "user" {
                    continue;
                }
                let mid = row.text("mid");
                let final_ends: Vec<_> =
                    self.ends(backend, mid).filter(|end| end.text("outcome") != "put_back").collect();
                let expected = match by.kind.as_str() {
                    "turn_end" => final_ends.len() == 1 && final_ends[0].seq == by.seq,
                    "boundary" => final_ends.len() <= 1,
                    "cancelled" => final_ends.is_empty() && by.text("mid") == mid,
                    _ => false,
                };
                found.expect(expected, || {
                    format!("{mid} is settled by a `{}` and named by {} ends of turns", by.kind, final_ends.len())
                });
                if by.kind == "turn_end" && by.text("outcome") == "unknown" {
                    let told = rows.iter().any(|notice| {
                        notice.text("code") == "cut_off" && notice.turn() == by.turn() && notice.seq + 1 == by.seq
                    });
                    found.expect(told, || format!("{mid} was cut off and nobody is told"));
                }
            }
        }
    }

    fn ends(&self, backend: &str, mid: &str) -> impl Iterator<Item = &'a LogRow> {
        let named = |row: &&LogRow| row.kind == "turn_end" && row.mids().contains(&mid);
        self.of(backend).iter().copied().filter(named).collect::<Vec<_>>().into_iter()
    }

    /// No message is given to an agent twice, but for one that was put back, and that is marked. What was answered was
    /// given.
    fn given(&self, agents: &AgentRecord, found: &mut Findings) {
        for (backend, rows) in &self.rows {
            for row in rows.iter().filter(|row| row.kind == "user") {
                let mid = row.text("mid");
                let back = self.ends(backend, mid).filter(|end| end.text("outcome") == "put_back").count();
                let completed = self.ends(backend, mid).any(|end| end.text("outcome") == "completed");
                let is_it = |part: &str| messages(part).iter().any(|(found, _)| found == mid);
                let (plain, marked) = agents.times_given(backend, AGAIN, is_it);
                found.expect(plain <= 1, || format!("{mid} was given {plain} times without the mark of a repetition"));
                found.expect(marked <= back, || {
                    format!("{mid} was given again {marked} times and put back {back} times")
                });
                found.expect(plain + marked > 0 || !completed, || format!("{mid} is answered and was never given"));
            }
        }
    }

    /// What the agent said in a turn that it completed is in the log, once.
    fn said(&self, found: &mut Findings) {
        for (backend, rows) in &self.rows {
            for row in rows.iter().filter(|row| row.kind == "user") {
                let mid = row.text("mid");
                let said = rows
                    .iter()
                    .filter(|say| say.kind == "say")
                    .map(|say| say.text("text").matches(&format!("answer to «{mid}»")).count())
                    .sum::<usize>();
                let completed = self.ends(backend, mid).any(|end| end.text("outcome") == "completed");
                let back = self.ends(backend, mid).filter(|end| end.text("outcome") == "put_back").count();
                found.expect(said <= 1 + back, || format!("the answer to {mid} is in the log {said} times"));
                found.expect(said >= 1 || !completed, || format!("the answer to {mid} is not in the log"));
            }
        }
    }

    /// Every run with a ticket is delivered once.
    fn runs(&self, agents: &AgentRecord, found: &mut Findings) {
        for (backend, rows) in &self.rows {
            for ticket in rows.iter().filter(|row| row.kind == "run") {
                let id = ticket.text("prompt_id");
                let delivered = rows.iter().filter(|row| row.kind == "event" && row.text("prompt_id") == id).count();
                let dropped = ticket.settled_by.is_some_and(|by| {
                    rows.iter().any(|row| row.seq == by && ["boundary", "cancelled"].contains(&row.kind.as_str()))
                });
                found.expect(delivered == 1 || dropped, || format!("the end of {id} was delivered {delivered} times"));
            }
            for event in rows.iter().filter(|row| row.kind == "event") {
                let told = event.text("text");
                let (plain, marked) = agents.times_given(backend, REPEATED, |part| part == told);
                let unfinished = rows
                    .iter()
                    .filter(|row| row.kind == "turn_end" && row.text("outcome") != "completed")
                    .filter(|end| self.takes(backend, end.turn(), event.seq))
                    .count();
                found.expect(plain <= 1, || {
                    format!("`{told}` was given {plain} times without the mark of a repetition")
                });
                found.expect(marked <= unfinished, || {
                    format!("`{told}` was repeated {marked} times after {unfinished} turns that did not end well")
                });
            }
        }
    }

    fn takes(&self, backend: &str, turn: Option<u64>, seq: u64) -> bool {
        self.of(backend).iter().filter(|row| row.kind == "turn_start" && row.turn() == turn).any(|start| {
            let taken = start.body.get("takes").and_then(serde_json::Value::as_array);
            taken.is_some_and(|taken| taken.iter().any(|one| one.as_u64() == Some(seq)))
        })
    }

    /// A tab queues no run that no call asked for, and what an agent was told of is followed up.
    fn runs_of(&self, name: &str, tab: &TabRecord, agents: &AgentRecord, found: &mut Findings) {
        let calls = agents.calls.iter().filter(|call| call.backend == tab.backend && call.tool == "panel_run").count();
        found
            .expect(tab.runs.len() <= calls, || format!("tab {name} queued {} runs for {calls} calls", tab.runs.len()));
        for (id, ended) in &tab.runs {
            found.expect(*ended, || format!("{id} has not ended in tab {name}"));
            let told = agents.calls.iter().find(|call| {
                call.outcome.as_ref().is_some_and(|outcome| {
                    outcome.as_ref().is_ok_and(|result| result["prompt_id"].as_str() == Some(id))
                })
            });
            let Some(call) = told else { continue };
            // Where the daemon died before the ticket was on disk, the turn that asked is reported as cut off.
            let ticket = self.by_key(&tab.backend, &format!("ticket:{id}")).is_some();
            let cut = self.ends(&tab.backend, &call.mid).any(|end| end.text("outcome") == "unknown");
            found.expect(ticket || cut, || format!("the agent was told of {id} and its end is not waited for"));
        }
    }
}

/// An answer of the person reaches the agent once: as the call's result, or as an event.
fn questions(log: &Log<'_>, records: &Records, killed: bool, found: &mut Findings) {
    for tab in records.tabs.values() {
        let rows = log.of(&tab.backend);
        let cleared = rows.iter().any(|row| row.kind == "boundary");
        for id in &tab.answered {
            let results = records.agents.calls.iter().filter(|call| {
                call.outcome.as_ref().is_some_and(|outcome| {
                    outcome
                        .as_ref()
                        .is_ok_and(|result| result["ask_id"].as_str() == Some(id) && result["answered"] == true)
                })
            });
            // A question that is in the log outlives the daemon, and so does its answer; one that is not ends with it.
            let durable = rows.iter().any(|row| row.kind == "ask" && row.text("ask_id") == id);
            let rows_of = |kind: &str| rows.iter().filter(|row| row.kind == kind && row.text("ask_id") == id).count();
            let heard = results.count() + rows_of("event");
            let taken = if durable { rows_of("answer") + rows_of("event") } else { heard };
            found.expect(heard <= 1, || format!("the agent heard the answer to question {id} {heard} times"));
            found.expect(rows_of("answer") <= 1, || format!("the answer to question {id} was taken twice"));
            found.expect(taken > 0 || cleared || (killed && !durable), || {
                format!("the answer to question {id} was not taken")
            });
        }
    }
}

/// Events that wait, by their conversation: after a turn that failed they go along with the person's next message.
pub(super) fn waiting_events(log: &[LogRow]) -> Vec<&str> {
    let waits = |row: &&LogRow| row.kind == "event" && row.inbound && row.settled_by.is_none();
    log.iter().filter(waits).map(|row| row.backend.as_str()).collect()
}

/// What keeps the end from being there, in words; nothing once all is settled.
pub(super) fn unsettled(log: &[LogRow], records: &Records) -> Vec<String> {
    let mut waits = Vec::new();
    for row in log.iter().filter(|row| row.inbound && row.settled_by.is_none()) {
        waits.push(format!("row {} ({}) of {} waits", row.seq, row.kind, row.backend));
    }
    let log = Log::new(log);
    for (name, tab) in &records.tabs {
        for (mid, state) in tab.messages.iter().filter(|(_, state)| !["Done", "Cancelled"].contains(&state.as_str())) {
            waits.push(format!("{mid} is `{state}` in tab {name}"));
        }
        if !tab.connected {
            waits.push(format!("tab {name} is not connected"));
        }
        waits.extend(tab.asked.iter().map(|id| format!("question {id} is open in tab {name}")));
        for id in tab.runs.iter().filter(|(_, ended)| !**ended).map(|(id, _)| id) {
            waits.push(format!("{id} runs in tab {name}"));
        }
        let mut incomplete = Findings::default();
        log.complete(name, tab, &mut incomplete);
        waits.append(&mut incomplete.0);
    }
    for rows in log.rows.values() {
        for row in rows.iter().filter(|row| row.kind == "turn_start") {
            if !rows.iter().any(|other| other.kind == "turn_end" && other.turn() == row.turn()) {
                waits.push(format!("turn {:?} of {} runs", row.turn(), row.backend));
            }
        }
    }
    waits
}
