//! The daemon's side of a running ACP session: from updates to [`AgentEvent`]s and answers. Pure, fed one line at a
//! time; knows no process and no clock.
//!
//! ACP marks no end of a block of text, so a block ends where something else begins: a thought, a tool call, or the
//! turn's end.

use super::super::drive::{Garbage, Speaker, Step};
use super::super::tool;
use super::wire::{self, Call, Failure, Message, Update};
use routing_core::agent::{AgentEvent, TurnOutcome};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// So many calls of one turn are remembered, for the questions about them.
const CALLS_REMEMBERED: usize = 256;

/// How some agents name the server of a tool in its title.
const SERVER_IN_TITLE: &str = " (panel MCP Server)";

/// A running session.
pub(super) struct AcpSpeaker {
    pub(super) agent: String,
    pub(super) program: String,
    pub(super) allow_tools: Vec<String>,
    /// The agent's name for the session.
    pub(super) session: String,
    /// Makes block ids unique over processes.
    pub(super) prefix: String,
    /// What the first prompt of a new session is preceded by.
    pub(super) instructions: Option<String>,
    /// The model, where it is known.
    pub(super) model: Option<String>,
    /// What to do when the agent turns out to be signed out.
    pub(super) sign_in: String,
    /// The next request's number.
    pub(super) next_request: u64,
    pub(super) state: State,
}

/// What a session has come to.
#[derive(Default)]
pub(super) struct State {
    turn: Option<u64>,
    interrupted: bool,
    block: Option<Block>,
    blocks: u64,
    calls: BTreeMap<String, Call>,
}

struct Block {
    id: String,
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Thought,
}

impl Speaker for AcpSpeaker {
    fn program(&self) -> &str {
        &self.program
    }

    fn prompt(&mut self, text: &str) -> Vec<Step> {
        let mut blocks = Vec::new();
        if let Some(instructions) = self.instructions.take() {
            blocks.push(json!({"type": "text", "text": instructions}));
        }
        blocks.push(json!({"type": "text", "text": text}));
        let id = self.next_request;
        self.next_request += 1;
        self.state.turn = Some(id);
        self.state.interrupted = false;
        self.state.calls.clear();
        let params = json!({"sessionId": self.session, "prompt": blocks});
        vec![Step::Send(wire::request(id, "session/prompt", &params))]
    }

    fn interrupt(&mut self) -> Vec<Step> {
        self.state.interrupted = true;
        vec![Step::Send(wire::notice("session/cancel", &json!({"sessionId": self.session})))]
    }

    fn line(&mut self, line: &str) -> Result<Vec<Step>, Garbage> {
        Ok(match wire::read(line)? {
            Message::Answer { id, result } if self.state.turn == Some(id) => self.answer(result),
            Message::Answer { .. } => Vec::new(),
            Message::Request { id, method, params } => match method.as_str() {
                "session/request_permission" => self.decide(&id, &params),
                _ => vec![Step::Send(wire::unsupported(&id, &method))],
            },
            Message::Notice { method, params } => {
                // An agent may run sessions of its own beside ours.
                if method == "session/update" && params["sessionId"] == self.session.as_str() {
                    self.update(wire::update(&params))
                } else {
                    Vec::new()
                }
            }
        })
    }

    fn abandon(&mut self) -> Vec<AgentEvent> {
        self.finish_block().into_iter().collect()
    }
}

impl AcpSpeaker {
    fn update(&mut self, update: Update) -> Vec<Step> {
        let events = match update {
            Update::Text(text) => self.grow(Kind::Text, text),
            Update::Thought(text) => self.grow(Kind::Thought, text),
            Update::Call(call) => self.begin_call(call),
            Update::MoreOfCall(call) => {
                self.learn(call);
                Vec::new()
            }
            Update::Usage { used, size, dollars } => vec![AgentEvent::Usage {
                used,
                window: size,
                model: self.model.clone(),
                // Micro-dollars of any real conversation fit; a float that does not is clamped by the cast.
                cost_micros: dollars.map(|dollars| (dollars * 1e6).round() as u64),
            }],
            Update::Other => Vec::new(),
        };
        events.into_iter().map(Step::Say).collect()
    }

    fn grow(&mut self, kind: Kind, text: String) -> Vec<AgentEvent> {
        if text.is_empty() {
            return Vec::new();
        }
        let mut events = Vec::new();
        if self.state.block.as_ref().is_none_or(|block| block.kind != kind) {
            events.extend(self.finish_block());
            self.state.blocks += 1;
            let id = format!("{}-{}", self.prefix, self.state.blocks);
            self.state.block = Some(Block { id, kind, text: String::new() });
        }
        if let Some(block) = &mut self.state.block {
            block.text.push_str(&text);
            let id = block.id.clone();
            events.push(match kind {
                Kind::Text => AgentEvent::Delta { id, text },
                Kind::Thought => AgentEvent::Thought { id, text },
            });
        }
        events
    }

    fn finish_block(&mut self) -> Option<AgentEvent> {
        let block = self.state.block.take()?;
        match block.kind {
            Kind::Text => Some(AgentEvent::Text { id: block.id, text: block.text }),
            Kind::Thought => None,
        }
    }

    fn begin_call(&mut self, call: Call) -> Vec<AgentEvent> {
        let mut events: Vec<AgentEvent> = self.finish_block().into_iter().collect();
        let title = call.title.as_deref().unwrap_or_default();
        let name = call.name.as_deref().or_else(|| {
            let name = name_in_title(title)?;
            // A name that is not believed is not shown either.
            (!tool::is_ours(name) || is_ours_by_title(&call, [&call, &call])).then_some(name)
        });
        // A title of the model's own words says nothing of the tool; its kind does.
        let shown = name.map_or_else(|| call.kind.as_deref().unwrap_or("tool"), tool::plain_name).to_owned();
        let mut detail = tool::detail(&call.input);
        if detail.is_empty() && name.is_none() {
            detail = title.chars().take(80).collect();
        }
        events.push(AgentEvent::Tool { name: shown, detail });
        self.learn(call);
        events
    }

    // Later reports repeat only what changed.
    fn learn(&mut self, call: Call) {
        if self.state.calls.len() >= CALLS_REMEMBERED && !self.state.calls.contains_key(&call.id) {
            self.state.calls.pop_first();
        }
        let known = self.state.calls.entry(call.id.clone()).or_default();
        *known = merged(known, call);
    }

    fn decide(&mut self, id: &Value, params: &Value) -> Vec<Step> {
        let asked = wire::call(&params["toolCall"]);
        let nothing = Call::default();
        let known = self.state.calls.get(&asked.id).unwrap_or(&nothing);
        let may_run = self.is_allowed(known, &asked);
        if may_run {
            return vec![Step::Send(wire::permission(id, wire::option_of_kind(params, "allow_once")))];
        }
        let shown = merged(known, asked);
        let name = shown.name.or(shown.title).or(shown.kind).unwrap_or_else(|| "a tool".into());
        let option = ["reject_once", "reject_always"].into_iter().find_map(|kind| wire::option_of_kind(params, kind));
        let text = format!(
            "The agent asked for {}, which is not allowed; allow_tools in [agents.{}] can allow it.",
            name.chars().take(120).collect::<String>(),
            self.agent
        );
        vec![Step::Say(AgentEvent::Notice { text }), Step::Send(wire::permission(id, option))]
    }

    fn is_allowed(&self, known: &Call, asked: &Call) -> bool {
        let stated = asked.name.as_deref().or(known.name.as_deref());
        let kind = asked.kind.as_deref().or(known.kind.as_deref());
        let named = [stated, kind].into_iter().flatten();
        if named.into_iter().any(|name| self.allow_tools.iter().any(|allowed| allowed == name)) {
            return true;
        }
        match stated {
            Some(name) => tool::is_ours(name),
            None => [known, asked].into_iter().any(|call| is_ours_by_title(call, [known, asked])),
        }
    }

    fn answer(&mut self, result: Result<Value, Failure>) -> Vec<Step> {
        let mut steps: Vec<Step> = self.finish_block().map(Step::Say).into_iter().collect();
        self.state.turn = None;
        let outcome = match result {
            Ok(answer) => match answer["stopReason"].as_str() {
                Some("cancelled") => TurnOutcome::Interrupted,
                Some("refusal") => {
                    failed("The model refused to go on. Put the request in other words, or start a new chat.")
                }
                Some("max_tokens") => failed("The answer was cut, because it became too long. Ask for the rest."),
                Some("max_turn_requests") => failed("The agent stopped after too many steps. Ask it to go on."),
                Some(_) | None => TurnOutcome::Completed,
            },
            // Some agents answer a cancelled prompt with an error.
            Err(_) if self.state.interrupted => TurnOutcome::Interrupted,
            Err(failure) if failure.signed_out() => TurnOutcome::Failed {
                code: "not_signed_in".into(),
                message: format!("{}. {}", failure.text, self.sign_in),
            },
            Err(failure) => failed(&format!(
                "{}. Send the message again; if it fails again, start a new chat or choose another model.",
                failure.text.trim_end_matches('.')
            )),
        };
        steps.push(Step::End { outcome, anchor: None });
        steps
    }
}

fn failed(message: &str) -> TurnOutcome {
    TurnOutcome::Failed { code: "model_error".into(), message: message.to_owned() }
}

fn merged(known: &Call, more: Call) -> Call {
    let input = match more.input {
        Value::Null => known.input.clone(),
        input => input,
    };
    Call {
        id: more.id,
        name: more.name.or_else(|| known.name.clone()),
        title: more.title.or_else(|| known.title.clone()),
        kind: more.kind.or_else(|| known.kind.clone()),
        input,
    }
}

/// The tool's name when a title is nothing but a name, alone or followed by its server in brackets.
fn name_in_title(title: &str) -> Option<&str> {
    let name = title.strip_suffix(SERVER_IN_TITLE).unwrap_or(title);
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/');
    (!name.is_empty() && name.chars().all(is_name)).then_some(name)
}

/// Whether a title can be believed when it names one of our tools. Some agents put the model's own words there (a
/// command's description, a file's name), and those must not open the door to a shell.
fn is_ours_by_title(call: &Call, reports: [&Call; 2]) -> bool {
    // None of our tools has an argument of this name; `path` is not among them, because some of ours do have it.
    const OF_OTHER_TOOLS: [&str; 7] = ["command", "commands", "cmd", "script", "code", "file_path", "url"];
    const OTHER_KINDS: [&str; 6] = ["read", "edit", "delete", "move", "search", "fetch"];
    let Some(title) = call.title.as_deref() else { return false };
    let from_server = title.ends_with(SERVER_IN_TITLE);
    let ours = name_in_title(title).is_some_and(|name| from_server || tool::is_ours(name));
    let arguments = || reports.iter().filter_map(|report| report.input.as_object());
    let is_kind = |kind: &str| reports.iter().any(|report| report.kind.as_deref() == Some(kind));
    let suspicious = arguments().flatten().any(|(name, value)| OF_OTHER_TOOLS.contains(&name.as_str()) || value == title)
        || OTHER_KINDS.iter().any(|kind| is_kind(kind))
        // Of something to execute, the arguments must be seen.
        || (is_kind("execute") && arguments().next().is_none());
    ours && !suspicious
}
