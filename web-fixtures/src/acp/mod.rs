//! The scripted agent: speaks the Agent Client Protocol (version 1) on stdio and does what the prompt says.
//!
//! Decides which request goes where, and misbehaves where a test wants it to. What a prompt asks for is
//! [`crate::script`]'s. The protocol is written by hand, line by line, because a well-behaved library could not
//! break it on purpose.

mod mcp;
mod puppet;
mod session;
mod turn;
mod wire;

use crate::acp::puppet::Puppet;
use crate::acp::session::{Session, Store};
use crate::acp::turn::Prompt;
use crate::acp::wire::{Failure, Incoming, Output};
use serde_json::{Value, json};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncBufReadExt, BufReader};

/// How the agent behaves, apart from what prompts say.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Folder that keeps sessions, one JSON file each; without it they die with the process.
    pub state: Option<PathBuf>,
    /// Name the agent reports to its puppeteer.
    pub name: String,
    /// Address of the test that pulls the strings.
    pub puppet: Option<String>,
    /// End with an error instead of starting.
    pub fail_start: bool,
    /// Never answer this request.
    pub hang: Option<String>,
    /// End the process in the middle of the first turn.
    pub exit_in_turn: bool,
    /// Neither offer nor answer `session/load`.
    pub no_load: bool,
    /// Fold a prompt that comes during a turn into that turn.
    pub merge: bool,
}

/// Exit code when a start was to fail, and when the process leaves a turn by order of `exit_in_turn`.
pub const FAILED: i32 = 1;

/// Exit code when the puppeteer cannot be reached or is gone.
pub const NO_PUPPETEER: i32 = 4;

/// Runs the agent until its input ends.
///
/// # Errors
/// When the state folder cannot be made or the puppeteer cannot be reached.
pub async fn run(options: Options) -> anyhow::Result<()> {
    anyhow::ensure!(!options.fail_start, "told to fail at the start");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let store = Store::open(options.state.clone())?;
    let agent = Arc::new(Agent {
        output: Output::start(),
        store,
        sessions: Mutex::default(),
        newest: Mutex::default(),
        puppet: match &options.puppet {
            Some(address) => Some(Puppet::connect(address).await?),
            None => None,
        },
        options,
    });
    if let Some(puppet) = &agent.puppet {
        puppet.obey(Arc::clone(&agent));
    }
    while let Some(line) = lines.next_line().await? {
        agent.take(&line);
    }
    agent.output.flush().await;
    Ok(())
}

/// What all turns share.
#[derive(Debug)]
struct Agent {
    options: Options,
    output: Output,
    store: Store,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// The session that was started or loaded last; the puppeteer's commands are for it.
    newest: Mutex<Option<Arc<Session>>>,
    puppet: Option<Puppet>,
}

impl Agent {
    fn take(self: &Arc<Self>, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        match wire::read(line) {
            Incoming::Request { id, method, params } => self.answer(id, &method, &params),
            Incoming::Notification { method, params } => {
                if method == "session/cancel"
                    && let Ok(session) = self.session(&params)
                {
                    session.cancel();
                }
            }
            Incoming::Response { id, outcome } => self.output.resolve(&id, outcome),
            Incoming::Unreadable => self.output.fail(&Value::Null, &Failure::unreadable()),
        }
    }

    fn answer(self: &Arc<Self>, id: Value, method: &str, params: &Value) {
        if self.options.hang.as_deref() == Some(method) {
            return;
        }
        let result = match method {
            "initialize" => Ok(self.introduction()),
            "authenticate" | "session/set_mode" | "session/set_model" => Ok(json!({})),
            "session/new" => self.new_session(params),
            "session/load" if !self.options.no_load => self.load_session(params),
            "session/prompt" => match self.session(params) {
                Ok(session) => {
                    session.prompt(Prompt::new(id, params), self.options.merge, self.puppet.as_ref());
                    return;
                }
                Err(failure) => Err(failure),
            },
            _ => Err(Failure::unknown_method(method)),
        };
        match result {
            Ok(result) => self.output.reply(&id, &result),
            Err(failure) => self.output.fail(&id, &failure),
        }
    }

    fn introduction(&self) -> Value {
        json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": !self.options.no_load,
                "promptCapabilities": {"image": false, "audio": false, "embeddedContext": false},
                "mcpCapabilities": {"http": true, "sse": false},
            },
            "agentInfo": {"name": "scripted-acp", "title": self.options.name, "version": env!("CARGO_PKG_VERSION")},
            "authMethods": [],
        })
    }

    fn new_session(self: &Arc<Self>, params: &Value) -> Result<Value, Failure> {
        let record = self.store.create(params["cwd"].as_str().unwrap_or_default())?;
        let session = self.open(record, params, false)?;
        Ok(json!({"sessionId": session.id}))
    }

    /// The client is told the whole conversation before it gets its answer.
    fn load_session(self: &Arc<Self>, params: &Value) -> Result<Value, Failure> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let record = self.store.load(id)?;
        for turn in &record.turns {
            self.output.chunk(id, "user_message_chunk", &turn.user);
            if !turn.agent.is_empty() {
                self.output.chunk(id, "agent_message_chunk", &turn.agent);
            }
        }
        self.open(record, params, true)?;
        Ok(json!({}))
    }

    fn open(self: &Arc<Self>, record: session::Record, params: &Value, resumed: bool) -> Result<Arc<Session>, Failure> {
        let servers = mcp::Servers::from_params(&params["mcpServers"])?;
        let session = Session::open(Arc::clone(self), record, servers);
        lock(&self.sessions).insert(session.id.clone(), Arc::clone(&session));
        *lock(&self.newest) = Some(Arc::clone(&session));
        if let Some(puppet) = &self.puppet {
            let name = &self.options.name;
            let servers = &params["mcpServers"];
            puppet.tell(&json!({
                "event": "started", "session": session.id, "resumed": resumed, "name": name, "servers": servers,
            }));
        }
        Ok(session)
    }

    fn session(&self, params: &Value) -> Result<Arc<Session>, Failure> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        lock(&self.sessions).get(id).cloned().ok_or_else(|| Failure::unknown_session(id))
    }

    /// Ends the process once everything said has left it.
    async fn exit(&self, code: i32) -> ! {
        self.output.flush().await;
        if let Some(puppet) = &self.puppet {
            puppet.flush().await;
        }
        std::process::exit(code)
    }
}

/// A turn that panicked must not silence the others.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
