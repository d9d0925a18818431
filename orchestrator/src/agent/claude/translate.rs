//! The daemon's side of the CLI's protocol: from its messages to [`AgentEvent`]s and answers. Pure, fed one line at a
//! time; knows no process and no clock.

use super::super::drive::{Garbage, Speaker, Step};
use super::super::tool;
use super::wire::{self, Assistant, Block, BlockKind, Message, Outcome};
use routing_core::agent::{AgentEvent, TurnOutcome};
use routing_core::id::AgentSessionId;
use serde_json::Value;

/// What has been seen so far.
#[derive(Default)]
pub(super) struct Translator {
    agent: String,
    allow_tools: Vec<String>,
    interrupts: u64,
    session: Option<String>,
    model: Option<String>,
    tools_failed: bool,
    context: Option<u64>,
    output: u64,
    growing: Vec<Growing>,
    anchor: Option<String>,
    api_error: Option<String>,
    blocks_without_stream: u64,
}

struct Growing {
    index: u64,
    id: String,
    kind: BlockKind,
    text: String,
    finished: bool,
}

impl Speaker for Translator {
    fn program(&self) -> &str {
        super::PROGRAM
    }

    fn prompt(&mut self, text: &str) -> Vec<Step> {
        self.anchor = None;
        vec![Step::Send(wire::user(text))]
    }

    fn interrupt(&mut self) -> Vec<Step> {
        self.interrupts += 1;
        vec![Step::Send(wire::interrupt(self.interrupts))]
    }

    fn line(&mut self, line: &str) -> Result<Vec<Step>, Garbage> {
        wire::read(line).map(|message| self.take(message))
    }

    // A block that stopped growing without its end is said as far as it came.
    fn abandon(&mut self) -> Vec<AgentEvent> {
        let left = self.growing.drain(..).filter(|block| !block.finished && block.kind == BlockKind::Text);
        left.filter(|block| !block.text.is_empty())
            .map(|block| AgentEvent::Text { id: block.id, text: block.text })
            .collect()
    }
}

impl Translator {
    /// A fresh conversation. `agent` is the name in the configuration; `allow_tools` may run besides ours.
    pub(super) fn new(agent: &str, allow_tools: Vec<String>) -> Self {
        Self { agent: agent.to_owned(), allow_tools, ..Self::default() }
    }

    /// Takes the next message.
    pub(super) fn take(&mut self, message: Message) -> Vec<Step> {
        match message {
            Message::Init { session, model, servers } => self.init(session, model, &servers),
            Message::Permission { id, tool, input } => self.decide(&id, &tool, &input),
            Message::Request { id, subtype } => vec![Step::Send(wire::unsupported(&id, &subtype))],
            Message::Retry { attempt, of, status, error } => vec![Step::Say(retry(attempt, of, status, &error))],
            Message::StreamStart { model, context } => {
                let steps = self.abandon().into_iter().map(Step::Say).collect();
                self.model = model.or_else(|| self.model.take());
                self.context = context.or(self.context);
                self.output = 0;
                steps
            }
            Message::BlockStart { index, kind, id } => {
                self.growing.push(Growing { index, id, kind, text: String::new(), finished: false });
                Vec::new()
            }
            Message::BlockDelta { index, text } => self.delta(index, text),
            Message::StreamUsage { output } => {
                self.output = output;
                Vec::new()
            }
            Message::Assistant(assistant) => self.assistant(assistant),
            Message::Outcome(outcome) => self.outcome(&outcome),
            Message::Answer { .. } | Message::Other => Vec::new(),
        }
    }

    fn init(&mut self, session: String, model: Option<String>, servers: &[(String, String)]) -> Vec<Step> {
        let mut steps = Vec::new();
        self.model = model.or_else(|| self.model.take());
        if !session.is_empty() && self.session.as_deref() != Some(session.as_str()) {
            self.session = Some(session.clone());
            steps.push(Step::Say(AgentEvent::Session { id: AgentSessionId(session) }));
        }
        let failed = servers.iter().any(|(name, status)| name == tool::SERVER && status == "failed");
        if failed && !self.tools_failed {
            steps.push(Step::Say(AgentEvent::Notice {
                text: "The agent could not reach the canvas tools. It can talk, but cannot act; start a new chat if that lasts.".into(),
            }));
        }
        self.tools_failed = failed;
        steps
    }

    fn decide(&self, id: &str, tool: &str, input: &Value) -> Vec<Step> {
        if tool::may_run(tool, &self.allow_tools) {
            return vec![Step::Send(wire::allow(id, input))];
        }
        let notice = AgentEvent::Notice { text: format!("The agent asked for {tool}, which is not allowed.") };
        vec![Step::Say(notice), Step::Send(wire::deny(id, &tool::refusal(tool, &self.agent)))]
    }

    fn delta(&mut self, index: u64, text: String) -> Vec<Step> {
        let block = self.growing.iter_mut().find(|block| block.index == index);
        let Some(block) = block.filter(|block| !text.is_empty() && !block.finished) else { return Vec::new() };
        block.text.push_str(&text);
        let id = block.id.clone();
        match block.kind {
            BlockKind::Text => vec![Step::Say(AgentEvent::Delta { id, text })],
            BlockKind::Thought => vec![Step::Say(AgentEvent::Thought { id, text })],
            BlockKind::Other => Vec::new(),
        }
    }

    fn assistant(&mut self, assistant: Assistant) -> Vec<Step> {
        if let Some(error) = assistant.api_error.filter(|_| !assistant.nested) {
            self.api_error = Some(error);
            return Vec::new();
        }
        if !assistant.nested {
            self.anchor = assistant.uuid.clone().or_else(|| self.anchor.take());
        }
        let mut steps = Vec::new();
        for block in assistant.blocks {
            match block {
                Block::Tool { name, input } => {
                    let detail = tool::detail(&input);
                    steps.push(Step::Say(AgentEvent::Tool { name: tool::plain_name(&name).to_owned(), detail }));
                }
                // What a helper says is for the agent, which tells the person itself.
                Block::Text(_) | Block::Thought(_) if assistant.nested => {}
                Block::Text(text) => {
                    let id = self.finish(BlockKind::Text).unwrap_or_else(|| self.name_block(assistant.uuid.as_deref()));
                    steps.push(Step::Say(AgentEvent::Text { id, text }));
                }
                Block::Thought(text) => {
                    // A thought that streamed has been reported already.
                    if self.finish(BlockKind::Thought).is_none() {
                        let id = self.name_block(assistant.uuid.as_deref());
                        steps.push(Step::Say(AgentEvent::Thought { id, text }));
                    }
                }
            }
        }
        steps
    }

    // Blocks finish in the order in which they began; one that stayed empty is never reported as finished.
    fn finish(&mut self, kind: BlockKind) -> Option<String> {
        let block =
            self.growing.iter_mut().find(|block| block.kind == kind && !block.finished && !block.text.is_empty())?;
        block.finished = true;
        Some(block.id.clone())
    }

    fn name_block(&mut self, uuid: Option<&str>) -> String {
        self.blocks_without_stream += 1;
        format!("{}-{}", uuid.or(self.session.as_deref()).unwrap_or("block"), self.blocks_without_stream)
    }

    fn outcome(&mut self, outcome: &Outcome) -> Vec<Step> {
        let mut steps: Vec<Step> = self.abandon().into_iter().map(Step::Say).collect();
        let usage = AgentEvent::Usage {
            used: self.context.map(|context| context + self.output),
            window: outcome.window,
            model: self.model.clone(),
            // Micro-dollars of any real conversation fit; a float that does not is clamped by the cast.
            cost_micros: outcome.cost.map(|dollars| (dollars * 1e6).round() as u64),
        };
        let api_error = self.api_error.take();
        let end = if outcome.interrupted() {
            TurnOutcome::Interrupted
        } else if outcome.is_error {
            failure(outcome, api_error.as_deref())
        } else {
            TurnOutcome::Completed
        };
        steps.push(Step::Say(usage));
        steps.push(Step::End { outcome: end, anchor: self.anchor.take() });
        steps
    }
}

fn retry(attempt: u64, of: u64, status: Option<u64>, error: &str) -> AgentEvent {
    let cause = match status {
        Some(status) => format!("answered {status}"),
        None => "could not be reached".to_owned(),
    };
    let kind = if error.is_empty() { String::new() } else { format!(" ({error})") };
    AgentEvent::Notice { text: format!("The model's service {cause}{kind}; trying again, {attempt} of {of}.") }
}

fn failure(outcome: &Outcome, api_error: Option<&str>) -> TurnOutcome {
    let said = if outcome.text.is_empty() { "The agent gave no reason" } else { outcome.text.trim_end_matches('.') };
    let signed_out = api_error == Some("authentication_failed") || matches!(outcome.api_status, Some(401));
    let advice = match outcome.api_status {
        _ if signed_out => super::SIGN_IN,
        Some(429 | 529) => "The service is busy or your limit is reached: wait a little and send the message again.",
        Some(400 | 404 | 413) => "The service refused the request: choose another model, or start a new chat.",
        Some(403) => "Your account may not use this model: choose another one.",
        Some(500..) => "The service has a problem: send the message again in a while.",
        Some(_) | None => "Send the message again; if it fails again, start a new chat or choose another model.",
    };
    let code = if signed_out { "not_signed_in" } else { "model_error" };
    TurnOutcome::Failed { code: code.into(), message: format!("{said}. {advice}") }
}
