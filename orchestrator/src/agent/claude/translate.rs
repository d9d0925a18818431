//! From the CLI's messages to [`AgentEvent`]s: pure, fed one message at a time. Knows no process and no clock.

use super::super::tool;
use super::wire::{Assistant, Block, BlockKind, Message, Outcome};
use routing_core::agent::{AgentEvent, TurnOutcome};
use routing_core::id::AgentSessionId;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};

/// What is to be done about a message.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Step {
    /// Report this.
    Say(AgentEvent),
    /// Decide whether a tool may run.
    Decide { id: String, tool: String, input: Value },
    /// Refuse a request that is not served.
    Refuse { id: String, subtype: String },
    /// The turn is over.
    End { outcome: TurnOutcome, anchor: Option<String> },
}

/// What has been seen so far.
#[derive(Default)]
pub(super) struct Translator {
    session: Option<String>,
    model: Option<String>,
    tools_failed: bool,
    context: Option<u64>,
    output: u64,
    growing: BTreeMap<u64, Growing>,
    unfinished: VecDeque<Growing>,
    anchor: Option<String>,
    api_error: Option<String>,
    blocks_without_stream: u64,
}

#[derive(Clone)]
struct Growing {
    id: String,
    kind: BlockKind,
}

impl Translator {
    /// Takes the next message.
    pub(super) fn take(&mut self, message: Message) -> Vec<Step> {
        match message {
            Message::Init { session, model, servers } => self.init(session, model, &servers),
            Message::Permission { id, tool, input } => vec![Step::Decide { id, tool, input }],
            Message::Request { id, subtype } => vec![Step::Refuse { id, subtype }],
            Message::Retry { attempt, of, status, error } => vec![Step::Say(retry(attempt, of, status, &error))],
            Message::StreamStart { model, context } => {
                self.growing.clear();
                self.unfinished.clear();
                self.model = model.or_else(|| self.model.take());
                self.context = context.or(self.context);
                self.output = 0;
                Vec::new()
            }
            Message::BlockStart { index, kind, id } => {
                let block = Growing { id, kind };
                if kind != BlockKind::Other {
                    self.unfinished.push_back(block.clone());
                }
                self.growing.insert(index, block);
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

    fn delta(&self, index: u64, text: String) -> Vec<Step> {
        let Some(block) = self.growing.get(&index).filter(|_| !text.is_empty()) else { return Vec::new() };
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

    // Blocks finish in the order in which they began; one that turned out empty is never reported as finished.
    fn finish(&mut self, kind: BlockKind) -> Option<String> {
        let place = self.unfinished.iter().position(|block| block.kind == kind)?;
        self.unfinished.drain(..=place).next_back().map(|block| block.id)
    }

    fn name_block(&mut self, uuid: Option<&str>) -> String {
        self.blocks_without_stream += 1;
        format!("{}-{}", uuid.or(self.session.as_deref()).unwrap_or("block"), self.blocks_without_stream)
    }

    fn outcome(&mut self, outcome: &Outcome) -> Vec<Step> {
        self.growing.clear();
        self.unfinished.clear();
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
        vec![Step::Say(usage), Step::End { outcome: end, anchor: self.anchor.take() }]
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
