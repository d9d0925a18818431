//! A browser tab: the panel's machine that ships, behind a line that may misbehave, with a canvas that does what it is
//! told and a person who answers questions. Time runs ten times as fast for the panel, so that its pauses are short.

use super::dice::Dice;
use super::line::{self, Address, News, Weather};
use super::records::{Book, Shown};
use routing_core::frame::WorkflowIdentity;
use routing_core::id::{AskId, PromptId};
use routing_core::panel::{
    ConnectionState, MessageState, Outcome, Panel, PanelConfig, PanelInput, PanelOutput, UiChange,
};
use serde_json::{Map, Value, json};
use std::time::Duration;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How long a question holds its call, in milliseconds.
pub(super) const ASK_MS: u64 = 200;
/// How much faster the panel's time runs.
const SPEED: u64 = 10;

/// A running tab.
pub(super) struct Tab {
    pub(super) name: String,
    orders: UnboundedSender<PanelInput>,
    task: tokio::task::JoinHandle<()>,
}

impl Tab {
    /// Opens a tab that takes part in a backend's conversation.
    pub(super) fn open(
        name: &str,
        backend: &str,
        address: watch::Receiver<Address>,
        weather: watch::Receiver<Weather>,
        dice: Dice,
        book: Book,
    ) -> Self {
        let (orders, todo) = unbounded_channel();
        let (hurry, later) = unbounded_channel();
        let (lines, news) = unbounded_channel();
        book.tab(name, |record| record.backend = backend.to_owned());
        let uuid = format!("w-{name}");
        let front = WorkflowIdentity {
            uuid: uuid.as_str().into(),
            path: None,
            handle: format!("tmp:{uuid}"),
            title: uuid.clone(),
            canvas: Some(format!("canvas-{uuid}").as_str().into()),
        };
        let page = Page {
            name: name.to_owned(),
            panel: Panel::new(PanelConfig {
                tab_id: name.to_owned(),
                version: "faults".to_owned(),
                backend: Some(backend.to_owned()),
                comfyui_url: None,
                begun: Vec::new(),
            }),
            begun: Instant::now(),
            front,
            address,
            weather,
            dice,
            book,
            line: None,
            lines,
            hurry,
            cleared: false,
            runs: 0,
        };
        Self { name: name.to_owned(), orders, task: tokio::spawn(page.run(todo, later, news)) }
    }

    /// The person, or the page, does something.
    pub(super) fn order(&self, input: PanelInput) {
        let _ = self.orders.send(input);
    }
}

impl Drop for Tab {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Page {
    name: String,
    panel: Panel,
    begun: Instant,
    front: WorkflowIdentity,
    address: watch::Receiver<Address>,
    weather: watch::Receiver<Weather>,
    dice: Dice,
    book: Book,
    line: Option<(u32, UnboundedSender<String>)>,
    lines: UnboundedSender<(u32, News)>,
    /// What the page itself does later: runs end, the person answers.
    hurry: UnboundedSender<PanelInput>,
    cleared: bool,
    runs: u32,
}

impl Page {
    async fn run(
        mut self,
        mut todo: UnboundedReceiver<PanelInput>,
        mut later: UnboundedReceiver<PanelInput>,
        mut news: UnboundedReceiver<(u32, News)>,
    ) {
        self.input(PanelInput::Canvas { workflow: Some(self.front.clone()) });
        self.input(PanelInput::Start);
        loop {
            let due = self.panel.poll_timeout().map(|(at, _)| self.begun + Duration::from_millis(at.div_ceil(SPEED)));
            let timer = async {
                match due {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            let input = tokio::select! {
                Some(order) = todo.recv() => order,
                Some(order) = later.recv() => order,
                Some((socket, news)) = news.recv() => match news {
                    News::Opened => PanelInput::Opened { socket },
                    News::Frame(text) => {
                        self.trace(socket, "<-", &text);
                        PanelInput::Frame { socket, text }
                    }
                    News::Closed(code, reason) => {
                        self.trace(socket, "closed", &code.to_string());
                        PanelInput::Closed { socket, code, reason }
                    }
                },
                () = timer => PanelInput::Tick,
            };
            self.input(input);
        }
    }

    fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX) * SPEED
    }

    fn input(&mut self, input: PanelInput) {
        if let PanelInput::RunFinished { prompt_id, .. } = &input {
            let id = prompt_id.to_string();
            self.book.tab(&self.name, |record| record.runs.insert(id, true));
        }
        let now = self.now();
        self.panel.handle(input, now);
        while let Some(output) = self.panel.poll_output() {
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: PanelOutput) {
        match output {
            PanelOutput::Connect { socket } => {
                let address = self.address.borrow().clone();
                let dice = self.dice.fork(&format!("line {socket}"));
                let line = line::open(socket, address, self.weather.clone(), dice, self.lines.clone());
                self.line = Some((socket, line));
            }
            PanelOutput::Disconnect { socket } => {
                self.line.take_if(|(open, _)| *open == socket);
            }
            PanelOutput::Transmit { socket, text } => {
                self.trace(socket, "->", &text);
                if let Some((_, line)) = self.line.as_ref().filter(|(open, _)| *open == socket) {
                    let _ = line.send(text);
                }
            }
            PanelOutput::Remember { .. } => {}
            PanelOutput::Execute { rid, cmd, args, .. } => {
                let outcome = match self.panel.recheck(&rid) {
                    Ok(()) => Outcome::Ok { result: self.execute(&cmd, &args) },
                    Err(refusal) => Outcome::Refused { refusal: refusal.to_wire() },
                };
                let done = PanelInput::Done { rid, outcome, workflow: Some(self.front.clone()) };
                let _ = self.hurry.send(done);
            }
            PanelOutput::Ui { change } => self.show(change),
        }
    }

    fn trace(&self, socket: u32, what: &str, text: &str) {
        let (ms, text) = (self.begun.elapsed().as_millis(), text.chars().take(300).collect::<String>());
        self.book.tab(&self.name, |record| record.frames.push(format!("{ms} ms, line {socket} {what} {text}")));
    }

    fn execute(&mut self, cmd: &str, args: &Map<String, Value>) -> Value {
        match cmd {
            "graph_run" => {
                self.runs += 1;
                let id = format!("run-{}-{}", self.name, self.runs);
                self.book.tab(&self.name, |record| record.runs.insert(id.clone(), false));
                let ended = PanelInput::RunFinished {
                    prompt_id: PromptId::new(id.clone()),
                    status: "success".to_owned(),
                    images: vec![json!({"filename": format!("{id}.png"), "subfolder": "", "type": "output"})],
                    error: None,
                };
                self.later(5, 250, ended);
                json!({"queued": true, "prompt_id": id})
            }
            "graph_add_node" => {
                let class = args.get("class_type").and_then(Value::as_str).unwrap_or_default().to_owned();
                self.book.tab(&self.name, |record| *record.added.entry(class).or_default() += 1);
                json!({"node_id": 7})
            }
            "workflow_list" => {
                let mut entry = serde_json::to_value(&self.front).unwrap_or_default();
                entry["active"] = json!(true);
                json!({"workflows": [entry]})
            }
            _ => json!({"text": "an outline"}),
        }
    }

    /// Something that happens by itself after a while.
    fn later(&mut self, least: u64, most: u64, input: PanelInput) {
        let (time, hurry) = (self.dice.time(least, most), self.hurry.clone());
        tokio::spawn(async move {
            tokio::time::sleep(time).await;
            let _ = hurry.send(input);
        });
    }

    fn show(&mut self, change: UiChange) {
        match change {
            UiChange::Row { row } => {
                if let Some(seq) = row.seq {
                    let after_clear = std::mem::take(&mut self.cleared);
                    let shown = Shown { seq: seq.0, text: row.text, after_clear };
                    self.book.tab(&self.name, |record| record.rows.push(shown));
                }
            }
            UiChange::Cleared => self.cleared = true,
            UiChange::Message { mid, state, code, .. } => {
                let words = match code {
                    Some(code) => format!("{state:?} ({code})"),
                    None => format!("{state:?}"),
                };
                self.book.tab(&self.name, |record| {
                    if matches!(state, MessageState::Accepted | MessageState::Seen | MessageState::Done) {
                        record.acknowledged.insert(mid.to_string());
                    }
                    record.messages.insert(mid.to_string(), words);
                });
            }
            UiChange::Notice { code, .. } => self.book.tab(&self.name, |record| record.notices.push(code)),
            UiChange::Connection { state, code, reason, .. } => self.book.tab(&self.name, |record| {
                record.connected = state == ConnectionState::Connected;
                record.connections += usize::from(record.connected);
                if state == ConnectionState::Down {
                    record.down = Some(format!("{code:?} {reason:?}"));
                }
            }),
            UiChange::Question { question } => {
                self.book.tab(&self.name, |record| record.asked.insert(question.ask_id.to_string()));
                self.answer_later(&question.question, question.ask_id);
            }
            UiChange::QuestionClosed { ask_id, answered } => {
                self.book.tab(&self.name, |record| {
                    record.asked.remove(ask_id.as_str());
                    if answered {
                        record.answered.insert(ask_id.to_string());
                    }
                });
            }
            UiChange::Conversation { .. }
            | UiChange::Blind { .. }
            | UiChange::Downloads { .. }
            | UiChange::Recalled { .. }
            | UiChange::Sessions { .. }
            | UiChange::Found { .. }
            | UiChange::Exported { .. }
            | UiChange::Delta { .. }
            | UiChange::BlockEnd { .. }
            | UiChange::BlockGone { .. }
            | UiChange::Working { .. }
            | UiChange::Activity { .. }
            | UiChange::Agent { .. }
            | UiChange::Usage { .. }
            | UiChange::Session { .. }
            | UiChange::Models { .. }
            | UiChange::Model { .. }
            | UiChange::Backends { .. }
            | UiChange::Target { .. }
            | UiChange::Comfyui { .. }
            | UiChange::ActsOn { .. }
            | UiChange::Queue { .. }
            | UiChange::Todo { .. }
            | UiChange::Run { .. } => {}
        }
    }

    /// The person answers, in time for the call or after it went on.
    fn answer_later(&mut self, question: &str, ask_id: AskId) {
        let (least, most) = if question.contains("ask-late") { (ASK_MS + 40, ASK_MS + 300) } else { (10, ASK_MS - 50) };
        self.later(least, most, PanelInput::Answer { ask_id, result: json!("red") });
    }
}
