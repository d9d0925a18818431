//! Any agent that speaks the Agent Client Protocol on its standard streams. This file decides how one is started and
//! how a session begins; it knows nothing of tabs, workflows and routing.
//!
//! The protocol is spoken by hand, a few messages of it, because agents are ahead of any typed schema: an update of a
//! kind that nobody has heard of must not end a conversation.

mod speak;
#[cfg(test)]
mod tests;
mod wire;

use super::config::AgentConfig;
use super::drive::{Drive, Garbage};
use super::handle::{Handle, Reporter};
use super::process::{self, Output, Process, Program};
use super::{AgentBackend, AgentSession, Launch, Readiness, StartError};
use async_trait::async_trait;
use routing_core::agent::AgentEvent;
use routing_core::id::AgentSessionId;
use serde_json::{Value, json};
use speak::{AcpSpeaker, State};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;
use wire::{Failure, Message};

/// The mode in which an agent asks before it acts, by the name that agents give it.
const ASKING_MODE: &str = "default";

/// An ACP agent, configured.
pub(super) struct Acp {
    name: String,
    config: AgentConfig,
    models: Mutex<Vec<String>>,
}

impl Acp {
    /// A driver with these settings; `name` is that of the `[agents.…]` table.
    pub(super) fn new(name: &str, config: AgentConfig) -> Self {
        let models = Mutex::new(config.models.clone());
        Self { name: name.to_owned(), config, models }
    }

    fn program_name(&self) -> &str {
        self.config.command.first().map_or("", String::as_str)
    }

    fn executable(&self) -> Result<PathBuf, StartError> {
        let name = self.program_name();
        process::find(name, self.config.env.get("PATH").map(String::as_str)).ok_or_else(|| StartError::NotFound {
            program: name.to_owned(),
            mend: format!("install it, or set command in [agents.{}] to where it is", self.name),
        })
    }

    fn program(&self, path: PathBuf, cwd: PathBuf) -> Program {
        let arguments = self.config.command.iter().skip(1).cloned().collect();
        Program { path, arguments, set: self.config.env.clone(), unset: Vec::new(), cwd }
    }

    fn learn_models(&self, models: Vec<String>) {
        if self.config.models.is_empty() && !models.is_empty() {
            *self.models.lock().unwrap_or_else(PoisonError::into_inner) = models;
        }
    }

    async fn begin(&self, process: &mut Process, launch: &Launch) -> Result<Begun, StartError> {
        let deadline = Instant::now() + launch.deadline;
        let mut opening = Opening { process, launch, program: self.program_name(), deadline, next_request: 1 };
        let agent = opening.introduce().await?;
        let (session, answer, fresh) = opening.session(&agent).await?;
        self.learn_models(offered_models(&answer));
        opening.choose_mode(&session, &answer, self.config.mode.as_deref()).await?;
        let wanted = launch.model.as_ref().or(self.config.model.as_ref());
        let model = match wanted {
            Some(model) => opening.choose_model(&session, &answer, model).await?,
            None => current_model(&answer),
        };
        Ok(Begun { session, fresh, model, sign_in: agent.sign_in, next_request: opening.next_request })
    }
}

struct Begun {
    session: String,
    fresh: bool,
    model: Option<String>,
    sign_in: String,
    next_request: u64,
}

struct Introduced {
    can_load: bool,
    sign_in: String,
}

/// The conversation before the first prompt: one request at a time.
struct Opening<'a> {
    process: &'a mut Process,
    launch: &'a Launch,
    program: &'a str,
    deadline: Instant,
    next_request: u64,
}

impl Opening<'_> {
    async fn introduce(&mut self) -> Result<Introduced, StartError> {
        let answer = self.call("initialize", &wire::introduction(), "answering the handshake").await?;
        let answer = answer.map_err(|failure| self.protocol(failure.text))?;
        if answer["protocolVersion"].as_u64() != Some(1) {
            return Err(
                self.protocol(format!("it speaks version {} of the protocol, not 1", answer["protocolVersion"]))
            );
        }
        let abilities = &answer["agentCapabilities"];
        if abilities["mcpCapabilities"]["http"] != true {
            return Err(self.protocol(
                "it cannot use tools over HTTP (agentCapabilities.mcpCapabilities.http); a newer version may".into(),
            ));
        }
        let ways = answer["authMethods"].as_array().into_iter().flatten();
        let ways: Vec<&str> = ways
            .filter_map(|way| way["description"].as_str().filter(|text| !text.is_empty()).or(way["name"].as_str()))
            .collect();
        let sign_in = match ways.as_slice() {
            [] => format!("Run {} in a terminal and sign in.", self.program),
            ways => format!("Sign in to {} in a terminal: {}.", self.program, ways.join("; or ").trim_end_matches('.')),
        };
        Ok(Introduced { can_load: abilities["loadSession"] == true, sign_in })
    }

    /// The session's name, what the agent says of it, and whether it is a new one.
    async fn session(&mut self, agent: &Introduced) -> Result<(String, Value, bool), StartError> {
        let mut params = wire::session(&self.launch.cwd, &self.launch.mcp);
        let not_signed_in =
            |program: &str| StartError::NotSignedIn { program: program.to_owned(), mend: agent.sign_in.clone() };
        if let Some(known) = self.launch.resume.as_ref().filter(|_| agent.can_load) {
            params["sessionId"] = json!(known);
            return match self.call("session/load", &params, LOADING).await? {
                Ok(answer) => Ok((known.0.clone(), answer, false)),
                Err(failure) if failure.signed_out() => Err(not_signed_in(self.program)),
                Err(failure) => {
                    tracing::info!(agent = self.program, reason = failure.text, "session not loaded");
                    Err(StartError::UnknownSession(known.clone()))
                }
            };
        }
        match self.call("session/new", &params, OPENING).await? {
            Ok(answer) => match answer["sessionId"].as_str() {
                Some(id) => Ok((id.to_owned(), answer, true)),
                None => Err(self.protocol("it opened a session without a name".into())),
            },
            Err(failure) if failure.signed_out() => Err(not_signed_in(self.program)),
            Err(failure) => Err(self.protocol(format!("it opened no session: {}", failure.text))),
        }
    }

    /// Leaves modes in which the agent, or a model of its own, answers the questions that are ours.
    async fn choose_mode(&mut self, session: &str, answer: &Value, wanted: Option<&str>) -> Result<(), StartError> {
        let modes = &answer["modes"];
        let offered = modes["availableModes"].as_array().into_iter().flatten();
        let mode = wanted.unwrap_or(ASKING_MODE);
        let is_offered = offered.into_iter().any(|offer| offer["id"] == mode);
        if modes["currentModeId"] == mode || (wanted.is_none() && !is_offered) {
            return Ok(());
        }
        let params = json!({"sessionId": session, "modeId": mode});
        match self.call("session/set_mode", &params, "choosing the mode").await? {
            Ok(_) => Ok(()),
            Err(failure) => Err(self.protocol(format!("it did not take the mode {mode}: {}", failure.text))),
        }
    }

    /// The model that will answer. An agent that does not let it be chosen goes on with its own.
    async fn choose_model(&mut self, session: &str, answer: &Value, model: &str) -> Result<Option<String>, StartError> {
        let current = current_model(answer);
        if current.as_deref() == Some(model) {
            return Ok(current);
        }
        let request = match model_option(answer) {
            Some(option) => Some((
                "session/set_config_option",
                json!({"sessionId": session, "configId": option["id"], "value": model}),
            )),
            None if answer["models"].is_object() => {
                Some(("session/set_model", json!({"sessionId": session, "modelId": model})))
            }
            None => None,
        };
        let refused = match request {
            Some((method, params)) => {
                self.call(method, &params, "choosing the model").await?.err().map(|failure| failure.text)
            }
            None => Some("it does not let it be chosen".into()),
        };
        let Some(reason) = refused else { return Ok(Some(model.to_owned())) };
        let text = format!("{} did not take the model {model}: {reason}. It goes on with its own.", self.program);
        // The receiver is gone only when the start is no longer wanted.
        let _ = self.launch.events.send(AgentEvent::Notice { text });
        Ok(current)
    }

    /// Sends a request and waits for its answer. What the agent tells meanwhile is the past, replayed.
    async fn call(
        &mut self,
        method: &str,
        params: &Value,
        stage: &'static str,
    ) -> Result<Result<Value, Failure>, StartError> {
        let number = self.next_request;
        self.next_request += 1;
        self.process.send(wire::request(number, method, params));
        loop {
            let timeout =
                |_| StartError::Timeout { program: self.program.to_owned(), stage, after: self.launch.deadline };
            match timeout_at(self.deadline, self.process.next()).await.map_err(timeout)? {
                Output::Line(line) => match wire::read(&line) {
                    Ok(Message::Answer { id, result }) if id == number => return Ok(result),
                    Ok(Message::Request { id, method, .. }) => self.process.send(wire::unsupported(&id, &method)),
                    Ok(Message::Answer { .. } | Message::Notice { .. }) | Err(Garbage) => {}
                },
                Output::Oversize => {}
                Output::Ended { reason } => {
                    return Err(StartError::Exited { program: self.program.to_owned(), reason });
                }
            }
        }
    }

    fn protocol(&self, reason: String) -> StartError {
        StartError::Protocol { program: self.program.to_owned(), reason }
    }
}

/// An agent that hangs here mostly waits for a tool server of its own configuration (report 74).
const OPENING: &str =
    "opening a session. It starts the tool servers of its own configuration then: see whether one of them hangs";
const LOADING: &str =
    "loading the session. It starts the tool servers of its own configuration then: see whether one of them hangs";

/// The option by which newer agents let the model be chosen.
fn model_option(answer: &Value) -> Option<&Value> {
    let options = answer["configOptions"].as_array()?;
    options.iter().find(|option| option["category"] == "model" && option["id"].is_string())
}

fn current_model(answer: &Value) -> Option<String> {
    let current = model_option(answer).map_or(&answer["models"]["currentModelId"], |option| &option["currentValue"]);
    current.as_str().map(str::to_owned)
}

fn offered_models(answer: &Value) -> Vec<String> {
    let names = |list: &Value, field: &str| -> Vec<String> {
        let entries = list.as_array().into_iter().flatten();
        // Options may stand in groups.
        let flat = entries.flat_map(|entry| match entry["options"].as_array() {
            Some(group) => group.iter().collect::<Vec<_>>(),
            None => vec![entry],
        });
        flat.filter_map(|entry| entry[field].as_str().map(str::to_owned)).collect()
    };
    match model_option(answer) {
        Some(option) => names(&option["options"], "value"),
        None => names(&answer["models"]["availableModels"], "modelId"),
    }
}

#[async_trait]
impl AgentBackend for Acp {
    async fn probe(&self) -> Readiness {
        let mend = self.executable().err().map(|error| error.to_string());
        // Agents of this kind tell their version and their login only in a session, which is no cheap question.
        Readiness { found: mend.is_none(), signed_in: None, version: None, mend }
    }

    fn models(&self) -> Vec<String> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn start(&self, launch: Launch) -> Result<Box<dyn AgentSession>, StartError> {
        let program = self.program(self.executable()?, launch.cwd.clone());
        let mut process = Process::spawn(&program).map_err(|error| StartError::Exited {
            program: self.program_name().to_owned(),
            reason: error.to_string(),
        })?;
        let begun = match self.begin(&mut process, &launch).await {
            Ok(begun) => begun,
            Err(error) => {
                process.close().await;
                return Err(error);
            }
        };
        let (handle, orders) = Handle::new(Some(process.pid()));
        let reporter = Reporter::new(launch.events);
        reporter.say(AgentEvent::Session { id: AgentSessionId(begun.session.clone()) });
        let instructions = Some(launch.instructions).filter(|text| begun.fresh && !text.is_empty());
        let speaker = AcpSpeaker {
            agent: launch.name.0,
            program: self.program_name().to_owned(),
            allow_tools: self.config.allow_tools.clone(),
            session: begun.session,
            prefix: Uuid::new_v4().to_string(),
            instructions,
            model: begun.model,
            sign_in: begun.sign_in,
            next_request: begun.next_request,
            state: State::default(),
        };
        tokio::spawn(Drive::new(speaker, reporter, orders).run(process));
        Ok(Box::new(handle))
    }
}
