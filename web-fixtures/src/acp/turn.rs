//! One turn: plays the directives of a prompt, or hands the strings to the puppeteer.
//!
//! Decides what the client sees of a turn and how it ends.

use super::puppet::TurnEnd;
use super::session::{Session, TurnRecord};
use super::wire::Failure;
use super::{Agent, FAILED};
use crate::script::{Directive, Results, ToolResult, parse, pieces, truncate};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use uuid::Uuid;

/// A prompt that waits for its answer.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) id: Value,
    pub(super) text: String,
    /// Number in this process, from 1.
    pub(super) turn: u64,
    pub(super) cancels_seen: u64,
}

impl Prompt {
    pub(super) fn new(id: Value, params: &Value) -> Self {
        let blocks = params["prompt"].as_array().map(Vec::as_slice).unwrap_or_default();
        let texts: Vec<&str> = blocks.iter().filter_map(|block| block["text"].as_str()).collect();
        Self { id, text: texts.join("\n"), turn: 0, cancels_seen: 0 }
    }

    pub(super) fn event(&self) -> Value {
        json!({"event": "prompt", "text": self.text, "turn": self.turn})
    }
}

/// A finished turn.
pub(super) struct Done {
    pub(super) said: TurnRecord,
    /// The stop reason, or the error of the request.
    pub(super) outcome: Result<String, Failure>,
    /// The prompts it answers.
    pub(super) answers: Vec<Value>,
}

/// Why a turn ends before its script does.
enum Stop {
    Cancelled,
    Failed(Failure),
}

pub(super) async fn run(agent: &Agent, session: &Session, prompt: Prompt) -> Done {
    let mut turn = Turn {
        agent,
        session,
        cancels_seen: prompt.cancels_seen,
        user: prompt.text.clone(),
        said: String::new(),
        separator: "",
        results: Results::default(),
        last_was_tool: false,
        answers: vec![prompt.id.clone()],
    };
    let outcome = if agent.puppet.is_some() { turn.be_pulled(&prompt).await } else { turn.play(&prompt.text).await };
    while let Some(late) = session.merged_or_over() {
        turn.user = format!("{}\n{}", turn.user, late.text);
        turn.answers.push(late.id);
    }
    let outcome = match outcome {
        Ok(stop) => Ok(stop),
        Err(Stop::Cancelled) => Ok("cancelled".to_owned()),
        Err(Stop::Failed(failure)) => Err(failure),
    };
    Done { said: TurnRecord { user: turn.user, agent: turn.said }, outcome, answers: turn.answers }
}

struct Turn<'a> {
    agent: &'a Agent,
    session: &'a Session,
    cancels_seen: u64,
    user: String,
    said: String,
    separator: &'static str,
    results: Results,
    last_was_tool: bool,
    answers: Vec<Value>,
}

impl Turn<'_> {
    async fn play(&mut self, text: &str) -> Result<String, Stop> {
        if self.agent.options.exit_in_turn {
            self.say("leaving");
            self.agent.exit(FAILED).await;
        }
        let mut script: VecDeque<Directive> = parse(text).into();
        loop {
            while let Some(merged) = self.session.next_merged() {
                script.extend(parse(&merged.text));
                self.user = format!("{}\n{}", self.user, merged.text);
                self.answers.push(merged.id);
            }
            let Some(directive) = script.pop_front() else { break };
            // Silence outlasts a cancel, even one that came before it.
            if directive != Directive::Silence && self.session.is_cancelled(self.cancels_seen) {
                return Err(Stop::Cancelled);
            }
            self.last_was_tool = matches!(directive, Directive::Tool { .. });
            self.carry_out(directive).await?;
        }
        if self.last_was_tool {
            let echo = self.results.last().map(ToolResult::joined).unwrap_or_default();
            self.say(&truncate(&echo));
        } else if self.said.is_empty() {
            self.say("done");
        }
        Ok("end_turn".to_owned())
    }

    async fn carry_out(&mut self, directive: Directive) -> Result<(), Stop> {
        match directive {
            Directive::Say(text) => self.say(&text),
            Directive::Slow { over, words } => {
                let pause = over / u32::try_from(words.len()).unwrap_or(u32::MAX).max(1);
                for word in words {
                    self.chunk(&format!("{}{word}", self.separator));
                    self.separator = " ";
                    self.wait(pause).await?;
                }
                self.separator = "\n";
            }
            Directive::Hang(time) => self.wait(time).await?,
            Directive::Tool { name, arguments, .. } => self.call(&name, &arguments).await?,
            Directive::Permission(name) => self.ask_permission(&name).await?,
            Directive::Error(status) => {
                let data = json!({"status": status});
                return Err(Stop::Failed(Failure::internal(format!("scripted failure {status}"), data)));
            }
            Directive::Exit(code) => self.agent.exit(code).await,
            Directive::Garbage => self.agent.output.raw("this line is not JSON {"),
            // Not even a cancel is answered: that is the point.
            Directive::Silence => std::future::pending().await,
            Directive::Malformed { word, problem } => self.say(&format!("malformed directive {word}: {problem}")),
        }
        Ok(())
    }

    fn say(&mut self, text: &str) {
        for piece in pieces(&format!("{}{text}", self.separator)) {
            self.chunk(&piece);
        }
        self.separator = "\n";
    }

    fn chunk(&mut self, text: &str) {
        self.said.push_str(text);
        self.agent.output.chunk(&self.session.id, "agent_message_chunk", text);
    }

    async fn wait(&self, time: Duration) -> Result<(), Stop> {
        self.unless_cancelled(tokio::time::sleep(time)).await
    }

    async fn unless_cancelled<T>(&self, work: impl Future<Output = T>) -> Result<T, Stop> {
        tokio::select! {
            done = work => Ok(done),
            () = self.session.cancelled(self.cancels_seen) => Err(Stop::Cancelled),
        }
    }

    async fn call(&mut self, name: &str, arguments: &Value) -> Result<(), Stop> {
        let arguments = match self.results.fill(arguments) {
            Ok(arguments) => arguments,
            Err(error) => {
                self.say(&format!("script error: {name}: {error}"));
                self.last_was_tool = false;
                return Ok(());
            }
        };
        let shown = ShownCall::start(self.agent, &self.session.id, name, &arguments);
        let called = self.unless_cancelled(self.session.servers.call(name, &arguments)).await;
        let result = match called {
            Ok(result) => result,
            Err(stop) => {
                shown.finish(self.agent, &ToolResult { is_error: true, ..ToolResult::text("cancelled") });
                return Err(stop);
            }
        };
        shown.finish(self.agent, &result);
        self.results.push(result);
        Ok(())
    }

    async fn ask_permission(&mut self, name: &str) -> Result<(), Stop> {
        let outcome = self.unless_cancelled(permission(self.agent, &self.session.id, name)).await?;
        self.say(&format!("permission {name}: {outcome}"));
        Ok(())
    }

    async fn be_pulled(&mut self, prompt: &Prompt) -> Result<String, Stop> {
        let Some(puppet) = &self.agent.puppet else { return Ok("end_turn".to_owned()) };
        let strings = puppet.begin_turn(prompt.turn);
        puppet.tell(&prompt.event());
        if self.agent.options.exit_in_turn {
            self.agent.exit(FAILED).await;
        }
        let end = self.unless_cancelled(strings.ended).await;
        self.said = puppet.finish_turn();
        match end {
            Ok(Ok(TurnEnd::Stop(stop))) => Ok(stop),
            Ok(Ok(TurnEnd::Fail(message))) => Err(Stop::Failed(Failure::internal(message, Value::Null))),
            // The puppeteer is gone, and the process with it in a moment.
            Ok(Err(_)) => Err(Stop::Failed(Failure::internal("the puppeteer is gone".to_owned(), Value::Null))),
            Err(stop) => {
                puppet.tell(&json!({"event": "cancelled", "turn": prompt.turn}));
                Err(stop)
            }
        }
    }
}

/// A tool call as the client sees it.
pub(super) struct ShownCall {
    id: String,
    session: String,
}

impl ShownCall {
    pub(super) fn start(agent: &Agent, session: &str, name: &str, arguments: &Value) -> Self {
        let id = format!("call-{}", Uuid::new_v4().simple());
        let update = json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "title": name, "kind": "other",
            "status": "in_progress", "rawInput": arguments,
        });
        agent.output.update(session, &update);
        Self { id, session: session.to_owned() }
    }

    pub(super) fn finish(self, agent: &Agent, result: &ToolResult) {
        let text = json!({"type": "text", "text": result.joined()});
        let mut update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": self.id,
            "status": if result.is_error { "failed" } else { "completed" },
            "content": [{"type": "content", "content": text}],
        });
        if let Some(structured) = &result.structured {
            update["rawOutput"] = structured.clone();
        }
        agent.output.update(&self.session, &update);
    }
}

/// Asks the person; answers with the kind of the option that was taken, or how the question came to nothing.
/// The options stand in an unusual order under unusual ids: a client that goes by either takes the wrong one.
pub(super) async fn permission(agent: &Agent, session: &str, name: &str) -> String {
    const OPTIONS: [(&str, &str); 4] =
        [("o-7", "reject_always"), ("allow", "reject_once"), ("o-3", "allow_always"), ("no", "allow_once")];
    let options: Vec<Value> = OPTIONS
        .iter()
        .map(|(id, kind)| json!({"optionId": id, "kind": kind, "name": kind.replace('_', " ")}))
        .collect();
    let id = format!("call-{}", Uuid::new_v4().simple());
    let call = json!({"toolCallId": id, "title": name, "kind": "execute", "status": "pending"});
    let params = json!({"sessionId": session, "toolCall": call, "options": options});
    let answer = agent.output.ask("session/request_permission", &params).await.unwrap_or_default();
    let chosen = answer["outcome"]["optionId"].as_str();
    match (answer["outcome"]["outcome"].as_str(), chosen) {
        (Some("selected"), Some(chosen)) => OPTIONS
            .iter()
            .find(|(id, _)| *id == chosen)
            .map_or_else(|| format!("unknown option {chosen}"), |(_, kind)| (*kind).to_owned()),
        (Some("cancelled"), _) => "cancelled".to_owned(),
        _ => format!("unreadable answer {answer}"),
    }
}
