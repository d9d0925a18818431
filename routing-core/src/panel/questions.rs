//! Question cards and the plan. A question is answered once, whenever that is: an answer without a connection is kept.

use super::admission::answer;
use super::pairs::Pairs;
use super::{Choice, Panel, Question, TodoItem, UiChange};
use crate::frame::{CommandFrame, Reply};
use crate::id::{AskId, Rid};
use crate::refusal::Refusal;
use serde_json::{Map, Value, json};

/// Most answers that are remembered for a question that is asked again.
const MOST_ANSWERS: usize = 64;

/// Open questions, and the answers to those that were closed here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Questions {
    open: Pairs<AskId, Rid>,
    answers: Pairs<AskId, Value>,
}

impl Panel {
    /// A command that shows the person something.
    pub(super) fn ask(&mut self, frame: &CommandFrame) {
        let args = &frame.args;
        let ask_id = match args.get("ask_id") {
            Some(Value::String(id)) if !id.is_empty() => AskId::new(id.as_str()),
            _ => AskId::new(frame.rid.as_str()),
        };
        match frame.cmd.as_str() {
            "ask_user" => self.ask_user(&frame.rid, ask_id, args),
            "set_todo" => self.set_todo(&frame.rid, args),
            other => self.refuse(&frame.rid, &Refusal::UnknownCommand { name: other.to_owned() }),
        }
    }

    fn ask_user(&mut self, rid: &Rid, ask_id: AskId, args: &Map<String, Value>) {
        let text = |name: &str| args.get(name).and_then(Value::as_str).map(str::to_owned);
        let options: Option<Vec<Choice>> =
            args.get("options").and_then(Value::as_array).and_then(|list| list.iter().map(choice).collect());
        let (Some(question), Some(options)) = (text("question"), options.filter(|options| options.len() > 1)) else {
            let problems = vec!["`question` must be a text and `options` a list of two or more choices.".to_owned()];
            return self.refuse(rid, &Refusal::BadArguments { problems });
        };
        let replaced = self.questions.open.get(&ask_id).cloned();
        self.ledger.taken(rid, replaced.as_ref());
        if let Some(result) = self.questions.answers.get(&ask_id).cloned() {
            return self.answer_with(rid.clone(), ask_id, result);
        }
        let question = Question {
            ask_id: ask_id.clone(),
            header: text("header"),
            question,
            options,
            multi_select: args.get("multi_select").and_then(Value::as_bool).unwrap_or(false),
        };
        self.questions.open.insert(ask_id, rid.clone());
        self.show(UiChange::Question { question });
    }

    fn set_todo(&mut self, rid: &Rid, args: &Map<String, Value>) {
        let items: Option<Vec<TodoItem>> =
            args.get("items").and_then(Value::as_array).and_then(|list| list.iter().map(item).collect());
        let Some(items) = items else {
            let problems = vec!["`items` must be a list of objects with `text` and `status`.".to_owned()];
            return self.refuse(rid, &Refusal::BadArguments { problems });
        };
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
        if self.questions.answers.len() == MOST_ANSWERS {
            self.questions.answers.remove_oldest();
        }
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
        let open: Vec<AskId> = self.questions.open.iter().map(|(ask_id, _)| ask_id.clone()).collect();
        for ask_id in open {
            self.ask_closed(ask_id);
        }
    }
}

fn choice(option: &Value) -> Option<Choice> {
    match option {
        Value::String(label) => Some(Choice { label: label.clone(), description: None }),
        other => {
            let description = other.get("description").and_then(Value::as_str).map(str::to_owned);
            Some(Choice { label: other.get("label")?.as_str()?.to_owned(), description })
        }
    }
}

fn item(item: &Value) -> Option<TodoItem> {
    let status = item.get("status").map_or(Some("pending"), Value::as_str)?;
    Some(TodoItem { text: item.get("text")?.as_str()?.to_owned(), status: status.to_owned() })
}
