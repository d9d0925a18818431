//! Questions to the person: in the log before they are shown, answered once, and open until they are answered or their
//! conversation is cleared (rules F3, D6, B1).

use super::commits::Then;
use super::conversation::Phase;
use super::{Pending, Router};
use crate::command;
use crate::frame::{AskClosed, Reply};
use crate::id::{AskId, Backend, CallId, Seq, SocketId, TabKey};
use crate::ledger::{Ask, Call, CallState, Purpose};
use crate::refusal::Refusal;
use crate::turn::Origin;
use serde_json::{Map, Value, json};

/// What the call is told when nobody answered in time.
const NO_ANSWER_YET: &str = "No answer yet. The question stays open; its answer will come as a message. Go on without it or \
                             end your turn; do not ask again.";

impl Router {
    /// A question: the card outlives the call that waits for it. One that is open already is taken up again, so that no
    /// two cards ask the same (report 59).
    pub(super) fn ask(&mut self, call: CallId, mut record: Call, tab: &TabKey, now: u64) {
        let backend = record.backend.clone();
        let args = shown(&record.args);
        let same = |ask: &Ask| ask.backend == backend && ask.tab == *tab && ask.args == args;
        let open = self.asks.iter().find(|(_, ask)| same(ask)).map(|(id, _)| id.clone());
        let id = open.clone().unwrap_or_else(|| self.fresh_ask());
        record.state = CallState::Asking(id.clone());
        self.calls.insert(call, record);
        let deadline = now + self.config.limits.ask;
        if open.is_some() {
            return self.ask_again(&id, call, deadline, now);
        }
        let origin = self.origin_of(tab, None);
        let text = args.get("question").cloned().unwrap_or_default();
        let body = json!({"ask_id": id, "text": text, "args": args, "origin": origin});
        let mut row = self.row(&backend, "ask", body, now);
        row.key = Some(format!("question:{id}"));
        // It waits in the log for its answer; no turn takes it.
        row.inbound = true;
        let ask = Ask { backend: backend.clone(), tab: tab.clone(), call: Some(call), deadline, args, seq: None };
        self.asks.insert(id.clone(), ask);
        self.commit(&backend, vec![row], Then::Question(id));
    }

    fn ask_again(&mut self, id: &AskId, call: CallId, deadline: u64, now: u64) {
        let Some(ask) = self.asks.get_mut(id) else { return };
        ask.deadline = deadline;
        if let Some(before) = ask.call.replace(call) {
            self.answer(before, Err(Refusal::Superseded));
        }
        self.sent.retain(|_, sent| sent.purpose != Purpose::Ask(id.clone()));
        self.show_question(id, now);
    }

    /// The question is in the log (`None`: it could not be written, and does not survive a restart): its card is shown.
    pub(super) fn question_written(&mut self, backend: &Backend, id: &AskId, seq: Option<Seq>, now: u64) {
        if let Some(ask) = self.asks.get_mut(id) {
            ask.seq = seq;
            return self.show_question(id, now);
        }
        // Closed or dismissed meanwhile.
        if let Some(seq) = seq {
            self.settle_question(backend, id, seq, now);
        }
    }

    /// Shows a question's card, or shows it again: the same `ask_id` replaces it.
    fn show_question(&mut self, id: &AskId, now: u64) {
        let being_written = |commit: &super::commits::Commit| commit.then == Then::Question(id.clone());
        if self.commits.values().any(being_written) {
            return;
        }
        let Some(ask) = self.asks.get(id).cloned() else { return };
        let Some(spec) = command::by_cmd("ask_user") else { return };
        let mut args = ask.args;
        args.insert("ask_id".to_owned(), json!(id));
        self.send_command(&ask.backend, spec, &ask.tab, args, None, Purpose::Ask(id.clone()), now);
    }

    /// A tab is back: what was asked there is shown again.
    pub(super) fn show_questions(&mut self, tab: &TabKey, now: u64) {
        let Some(backend) = self.tabs.get(tab).map(|tab| tab.backend.clone()) else { return };
        let here = |ask: &Ask| ask.tab == *tab && ask.backend == backend;
        let shown = |id: &AskId| self.sent.values().any(|sent| sent.purpose == Purpose::Ask(id.clone()));
        let cards: Vec<AskId> =
            self.asks.iter().filter(|(id, ask)| here(ask) && !shown(id)).map(|(id, _)| id.clone()).collect();
        for id in cards {
            self.show_question(&id, now);
        }
    }

    /// An answer, or the panel's refusal to show the card.
    pub(super) fn answered(&mut self, id: &AskId, reply: Reply, now: u64) {
        let Some(ask) = self.asks.remove(id) else { return };
        if reply.ok {
            return self.take_answer(id, ask, reply.result.unwrap_or(Value::Null), now);
        }
        if let Some(seq) = ask.seq {
            self.settle_question(&ask.backend, id, seq, now);
        }
        if let Some(call) = ask.call {
            let refusal = match &reply.refusal {
                Some(wire) => Refusal::from_wire(wire),
                None => Refusal::Failed {
                    failure: "dismissed".to_owned(),
                    message: reply.error.unwrap_or_else(|| "The person closed the question.".to_owned()),
                },
            };
            self.answer(call, Err(refusal));
        }
    }

    /// An answer outside its dispatch: taken once, and only from the tab that was asked.
    pub(super) fn late_answer(&mut self, socket: SocketId, tab: &TabKey, id: &AskId, reply: Reply, now: u64) {
        match self.asks.get(id) {
            Some(ask) if ask.tab == *tab => {
                self.sent.retain(|_, sent| sent.purpose != Purpose::Ask(id.clone()));
                self.answered(id, reply, now);
            }
            Some(_) => {
                self.nack_about(socket, None, reply.rid, "not_yours", "Another tab was asked that question.");
            }
            None => {
                let words = "That question is closed; its answer was not taken.";
                self.nack_about(socket, None, reply.rid, "ask_closed", words);
            }
        }
    }

    /// The answer is in the log before anybody acts on it: given to the call that waits, or told as an event.
    fn take_answer(&mut self, id: &AskId, ask: Ask, result: Value, now: u64) {
        let question = ask.args.get("question").and_then(Value::as_str).unwrap_or_default();
        let words = match &result {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let told = format!("[event] The person answered your question “{question}”: {words}. Do not ask it again.");
        let call = ask.call.filter(|call| self.calls.contains_key(call));
        let Some(call) = call.filter(|call| self.is_heard(*call)) else {
            if let Some(call) = call {
                self.answer(call, Err(Refusal::ConversationClosed));
            }
            let about = json!({"event": "answer", "ask_id": id, "answer": result});
            return self.inject(&ask.backend, told, Some(format!("answer:{id}")), about, ask.seq, now);
        };
        let body = json!({"ask_id": id, "question": question, "answer": result, "text": words});
        let mut row = self.row(&ask.backend, "answer", body, now);
        row.key = Some(format!("answer:{id}"));
        row.settles = ask.seq.into_iter().collect();
        let result = json!({"answered": true, "answer": result, "ask_id": id});
        self.commit(&ask.backend, vec![row], Then::Answered { call, result, told });
    }

    /// The answer is on disk: the call gets it. One whose turn was stopped meanwhile is told as an event.
    pub(super) fn answer_written(&mut self, backend: &Backend, call: CallId, result: Value, told: String, now: u64) {
        // A boundary may have answered it meanwhile.
        if !self.calls.contains_key(&call) {
            return;
        }
        if self.is_heard(call) {
            return self.answer(call, Ok(result));
        }
        self.answer(call, Err(Refusal::ConversationClosed));
        let key = format!("told:{}", result["ask_id"].as_str().unwrap_or_default());
        self.inject(backend, told, Some(key), json!({"event": "answer", "ask_id": result["ask_id"]}), None, now);
    }

    /// Whether the agent still listens to a call: not when the turn that made it was stopped or is over.
    fn is_heard(&self, call: CallId) -> bool {
        let Some(record) = self.calls.get(&call) else { return false };
        let running = self.conversations.get(&record.backend).and_then(|one| one.running());
        running.map(|turn| turn.id) == record.turn && running.is_none_or(|turn| turn.phase == Phase::Running)
    }

    /// Closes questions: their cards go, their calls are answered. Returns the rows that are settled by it.
    pub(super) fn close_asks(&mut self, which: impl Fn(&Ask) -> bool) -> Vec<(AskId, Seq)> {
        let closing: Vec<AskId> = self.asks.iter().filter(|(_, ask)| which(ask)).map(|(id, _)| id.clone()).collect();
        let mut settles = Vec::new();
        for id in closing {
            let Some(ask) = self.asks.remove(&id) else { continue };
            self.sent.retain(|_, sent| sent.purpose != Purpose::Ask(id.clone()));
            if let Some(socket) = self.live_socket(&ask.tab) {
                self.to(socket, AskClosed { ask_id: id.clone() });
            }
            // A boundary has answered its calls before it closes the questions.
            if let Some(call) = ask.call.filter(|call| self.calls.contains_key(call)) {
                self.answer(call, Err(Refusal::ConversationClosed));
            }
            settles.extend(ask.seq.map(|seq| (id, seq)));
        }
        settles
    }

    /// The tab left the conversation: what was asked there is closed.
    pub(super) fn close_asks_of(&mut self, tab: &TabKey, backend: &Backend, now: u64) {
        for (id, seq) in self.close_asks(|ask| ask.tab == *tab && ask.backend == *backend) {
            self.settle_question(backend, &id, seq, now);
        }
    }

    /// A question that nobody will answer any more.
    fn settle_question(&mut self, backend: &Backend, id: &AskId, seq: Seq, now: u64) {
        let mut row = self.row(backend, "ask_closed", json!({"ask_id": id}), now);
        row.settles = vec![seq];
        self.commit(backend, vec![row], Then::Show);
    }

    /// Calls that have waited long enough go on without an answer.
    pub(super) fn questions_without_answer(&mut self, now: u64) {
        let waiting = |ask: &Ask| ask.call.is_some() && ask.deadline <= now;
        let late: Vec<AskId> = self.asks.iter().filter(|(_, ask)| waiting(ask)).map(|(id, _)| id.clone()).collect();
        for id in late {
            let Some(call) = self.asks.get_mut(&id).and_then(|ask| ask.call.take()) else { continue };
            self.answer(call, Ok(json!({"answered": false, "ask_id": id, "note": NO_ANSWER_YET})));
        }
    }

    /// Takes up a question that was open when the daemon stopped: its tab is shown the card when it comes back.
    pub(super) fn restore_question(&mut self, backend: &Backend, row: &Pending) {
        let field = |name: &str| row.body.get(name).cloned().unwrap_or_default();
        let (Ok(origin), Some(id)) = (serde_json::from_value::<Origin>(field("origin")), row.body["ask_id"].as_str())
        else {
            return;
        };
        self.remember_tab(&origin);
        let args = field("args").as_object().cloned().unwrap_or_default();
        let ask = Ask { backend: backend.clone(), tab: origin.tab, call: None, deadline: 0, args, seq: Some(row.seq) };
        self.asks.insert(AskId::from(id), ask);
    }
}

/// The question as it is sent, with every choice in one shape.
fn shown(args: &Map<String, Value>) -> Map<String, Value> {
    let plain = |choice: &Value| match choice {
        Value::String(label) => json!({"label": label}),
        other => other.clone(),
    };
    let mut args = args.clone();
    if let Some(Value::Array(options)) = args.get_mut("options") {
        *options = options.iter().map(plain).collect();
    }
    args
}
