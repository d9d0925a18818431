//! Question cards and the plan. A question is answered once, whenever that is: an answer without a connection is kept.

use super::admission::answer;
use super::{Choice, Panel, Question, TodoItem, UiChange};
use crate::command::{self, Spec};
use crate::frame::{CommandFrame, Reply};
use crate::id::{AskId, Rid};
use crate::refusal::Refusal;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, VecDeque};

/// Most answers that are remembered for a question that is asked again.
const MOST_ANSWERS: usize = 64;

/// Open questions, and the answers to those that were closed here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Questions {
    open: BTreeMap<AskId, Rid>,
    answers: BTreeMap<AskId, Value>,
    order: VecDeque<AskId>,
}

impl Panel {
    /// A command that shows the person something.
    pub(super) fn ask(&mut self, frame: &CommandFrame) {
        let Some(spec) = command::by_cmd(&frame.cmd) else { return };
        let mut args = frame.args.clone();
        let ask_id = match args.remove("ask_id") {
            Some(Value::String(id)) if !id.is_empty() => AskId::new(id),
            _ => AskId::new(frame.rid.as_str()),
        };
        match spec.cmd {
            "ask_user" => self.ask_user(spec, &frame.rid, ask_id, &args),
            "set_todo" => self.set_todo(spec, &frame.rid, &args),
            other => self.refuse(&frame.rid, &Refusal::UnknownCommand { name: other.to_owned() }),
        }
    }

    fn ask_user(&mut self, spec: &Spec, rid: &Rid, ask_id: AskId, args: &Map<String, Value>) {
        if let Err(problems) = command::check_arguments(spec, args) {
            return self.refuse(rid, &Refusal::BadArguments { problems });
        }
        let replaced = self.questions.open.get(&ask_id).cloned();
        self.ledger.taken(rid, replaced.as_ref());
        if let Some(result) = self.questions.answers.get(&ask_id).cloned() {
            return self.answer_with(rid.clone(), ask_id, result);
        }
        let text = |name: &str| args.get(name).and_then(Value::as_str).map(str::to_owned);
        let question = Question {
            ask_id: ask_id.clone(),
            header: text("header"),
            question: text("question").unwrap_or_default(),
            options: args.get("options").and_then(Value::as_array).into_iter().flatten().filter_map(choice).collect(),
            multi_select: args.get("multi_select").and_then(Value::as_bool).unwrap_or(false),
        };
        self.questions.open.insert(ask_id, rid.clone());
        self.show(UiChange::Question { question });
    }

    fn set_todo(&mut self, spec: &Spec, rid: &Rid, args: &Map<String, Value>) {
        if let Err(problems) = command::check_arguments(spec, args) {
            return self.refuse(rid, &Refusal::BadArguments { problems });
        }
        let list = args.get("items").cloned().unwrap_or_default();
        let items: Vec<TodoItem> = serde_json::from_value(list).unwrap_or_default();
        self.ledger.taken(rid, None);
        let reply =
            Reply { result: Some(json!({"count": items.len()})), workflow: self.front.clone(), ..answer(rid, true) };
        self.ledger.ended(rid, &reply, true);
        self.show(UiChange::Todo { items });
        self.reply(reply);
    }

    /// The person answered. The first answer counts.
    pub(super) fn answer(&mut self, ask_id: &AskId, result: Value) {
        let Some(rid) = self.questions.open.remove(ask_id) else { return };
        if self.questions.order.len() == MOST_ANSWERS
            && let Some(oldest) = self.questions.order.pop_front()
        {
            self.questions.answers.remove(&oldest);
        }
        self.questions.order.push_back(ask_id.clone());
        self.questions.answers.insert(ask_id.clone(), result.clone());
        self.show(UiChange::QuestionClosed { ask_id: ask_id.clone(), answered: true });
        self.answer_with(rid, ask_id.clone(), result);
    }

    fn answer_with(&mut self, rid: Rid, ask_id: AskId, result: Value) {
        let reply =
            Reply { result: Some(result), workflow: self.front.clone(), ask_id: Some(ask_id), ..answer(&rid, true) };
        self.ledger.ended(&rid, &reply, true);
        self.reply(reply);
    }

    /// The daemon closed a question.
    pub(super) fn ask_closed(&mut self, ask_id: AskId) {
        if let Some(rid) = self.questions.open.remove(&ask_id) {
            self.ledger.lost(&rid);
            self.show(UiChange::QuestionClosed { ask_id, answered: false });
        }
    }

    /// The tab left the conversation that asked.
    pub(super) fn close_questions(&mut self) {
        let open: Vec<AskId> = self.questions.open.keys().cloned().collect();
        for ask_id in open {
            self.ask_closed(ask_id);
        }
    }
}

fn choice(option: &Value) -> Option<Choice> {
    match option {
        Value::String(label) => Some(Choice { label: label.clone(), description: None }),
        other => serde_json::from_value(other.clone()).ok(),
    }
}
