//! Inputs out of JSON. By hand: what serde derives for a tagged enum is a third of the module that a browser loads.

use super::{Outcome, PanelConfig, PanelInput};
use crate::frame::{ExportFormat, WorkflowIdentity};
use crate::id::{AgentSessionId, AskId, CanvasToken, MessageId, PromptId, Rid, WorkflowUuid};
use crate::path::WorkflowPath;
use crate::target::Target;
use serde_json::{Map, Value};

/// A JSON object that is no input.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("`{field}` must be {wanted}")]
pub struct BadInput {
    /// The field that is wrong or missing.
    pub field: &'static str,
    /// What it must be.
    pub wanted: String,
}

fn bad<T>(field: &'static str, wanted: &str) -> Result<T, BadInput> {
    Err(BadInput { field, wanted: wanted.to_owned() })
}

/// Takes fields out of an object; `null` is absent.
struct Fields(Map<String, Value>);

impl Fields {
    fn any(&mut self, field: &'static str) -> Option<Value> {
        self.0.remove(field).filter(|value| !value.is_null())
    }

    fn text(&mut self, field: &'static str) -> Result<String, BadInput> {
        match self.any(field) {
            Some(Value::String(text)) => Ok(text),
            _ => bad(field, "a text"),
        }
    }

    fn text_if_any(&mut self, field: &'static str) -> Result<Option<String>, BadInput> {
        match self.any(field) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(_) => bad(field, "a text"),
        }
    }

    fn number<N: TryFrom<u64>>(&mut self, field: &'static str) -> Result<N, BadInput> {
        match self.any(field).and_then(|value| value.as_u64()).map(N::try_from) {
            Some(Ok(number)) => Ok(number),
            Some(Err(_)) | None => bad(field, "a whole number"),
        }
    }

    fn list(&mut self, field: &'static str) -> Result<Vec<Value>, BadInput> {
        match self.any(field) {
            None => Ok(Vec::new()),
            Some(Value::Array(list)) => Ok(list),
            Some(_) => bad(field, "a list"),
        }
    }

    fn mid(&mut self) -> Result<MessageId, BadInput> {
        self.text("mid").map(MessageId)
    }

    fn object(&mut self, field: &'static str) -> Result<Self, BadInput> {
        match self.any(field) {
            Some(Value::Object(map)) => Ok(Self(map)),
            _ => bad(field, "an object"),
        }
    }

    fn workflow(&mut self) -> Result<Option<WorkflowIdentity>, BadInput> {
        if self.0.get("workflow").is_none_or(Value::is_null) {
            return Ok(None);
        }
        let mut workflow = self.object("workflow")?;
        Ok(Some(WorkflowIdentity {
            uuid: workflow.text("uuid").map(WorkflowUuid)?,
            // A path that is no path is no reason to drop an identity: it is only a label.
            path: workflow.text_if_any("path")?.and_then(|path| WorkflowPath::parse(&path).ok()),
            handle: workflow.text_if_any("handle")?.unwrap_or_default(),
            title: workflow.text_if_any("title")?.unwrap_or_default(),
            canvas: workflow.text_if_any("canvas")?.map(CanvasToken),
        }))
    }
}

impl TryFrom<Map<String, Value>> for PanelConfig {
    type Error = BadInput;

    fn try_from(map: Map<String, Value>) -> Result<Self, BadInput> {
        let mut fields = Fields(map);
        Ok(Self {
            tab_id: fields.text("tab_id")?,
            version: fields.text("version")?,
            backend: fields.text_if_any("backend")?,
            comfyui_url: fields.text_if_any("comfyui_url")?,
            begun: fields.list("begun")?.iter().filter_map(Value::as_str).map(Rid::from).collect(),
        })
    }
}

impl TryFrom<Map<String, Value>> for PanelInput {
    type Error = BadInput;

    fn try_from(map: Map<String, Value>) -> Result<Self, BadInput> {
        let mut fields = Fields(map);
        let input = fields.text("input")?;
        Ok(match input.as_str() {
            "start" => Self::Start,
            "reconnect" => Self::Reconnect,
            "tick" => Self::Tick,
            "opened" => Self::Opened { socket: fields.number("socket")? },
            "frame" => Self::Frame { socket: fields.number("socket")?, text: fields.text("text")? },
            "closed" => Self::Closed {
                socket: fields.number("socket")?,
                code: fields.number("code")?,
                reason: fields.text_if_any("reason")?.unwrap_or_default(),
            },
            "canvas" => Self::Canvas { workflow: fields.workflow()? },
            "done" => Self::Done {
                rid: fields.text("rid").map(Rid)?,
                outcome: Outcome::try_from(fields.object("outcome")?.0)?,
                workflow: fields.workflow()?,
            },
            "run_finished" => Self::RunFinished {
                prompt_id: fields.text("prompt_id").map(PromptId)?,
                status: fields.text("status")?,
                images: fields.list("images")?,
                error: fields.text_if_any("error")?,
            },
            "send" => Self::Send {
                mid: fields.mid()?,
                text: fields.text("text")?,
                context: fields.text_if_any("context")?,
                now: fields.any("now") == Some(Value::Bool(true)),
            },
            "send_now" => Self::SendNow,
            "resend" => Self::Resend { mid: fields.mid()? },
            "cancel" => Self::Cancel { mid: fields.mid()? },
            "reorder" => Self::Reorder {
                order: fields.list("order")?.iter().filter_map(Value::as_str).map(MessageId::from).collect(),
            },
            "stop" => Self::Stop,
            "new_chat" => Self::NewChat,
            "rewind" => Self::Rewind { mid: fields.mid()? },
            "resume" => Self::Resume { session_id: fields.text("session_id").map(AgentSessionId)? },
            "list_sessions" => Self::ListSessions,
            "search" => Self::Search { words: fields.text("words")? },
            "export" => Self::Export {
                format: match fields.text("format")?.as_str() {
                    "md" => ExportFormat::Md,
                    "json" => ExportFormat::Json,
                    _ => return bad("format", "`md` or `json`"),
                },
                session_id: fields.text_if_any("session_id")?.map(AgentSessionId),
            },
            "set_backend" => Self::SetBackend { backend: fields.text("backend")? },
            "set_target" => Self::SetTarget { target: target(fields.object("target")?)? },
            "set_model" => Self::SetModel { model: fields.text("model")? },
            "set_blind" => Self::SetBlind {
                on: match fields.any("on") {
                    Some(Value::Bool(on)) => on,
                    Some(_) | None => return bad("on", "true or false"),
                },
            },
            "answer" => Self::Answer {
                ask_id: fields.text("ask_id").map(AskId)?,
                result: fields.any("result").unwrap_or_default(),
            },
            other => return Err(BadInput { field: "input", wanted: format!("a known one, not `{other}`") }),
        })
    }
}

impl TryFrom<Map<String, Value>> for Outcome {
    type Error = BadInput;

    fn try_from(map: Map<String, Value>) -> Result<Self, BadInput> {
        let mut fields = Fields(map);
        match fields.text("outcome")?.as_str() {
            "ok" => Ok(Self::Ok { result: fields.any("result").unwrap_or_default() }),
            "refused" => Ok(Self::Refused { refusal: fields.any("refusal").unwrap_or_default() }),
            "failed" => Ok(Self::Failed { code: fields.text("code")?, message: fields.text("message")? }),
            _ => bad("outcome", "`ok`, `refused` or `failed`"),
        }
    }
}

fn target(mut fields: Fields) -> Result<Target, BadInput> {
    match fields.text("mode")?.as_str() {
        "current" => Ok(Target::Current),
        "pinned" => Ok(Target::Pinned { path: fields.text("path")?, filename: fields.text_if_any("filename")? }),
        _ => bad("mode", "`current` or `pinned`"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use serde_json::json;

    #[test]
    fn every_input_is_read_back_as_it_was_written() {
        let workflow = WorkflowIdentity {
            uuid: "w1".into(),
            path: None,
            handle: "tmp:1".into(),
            title: "t".into(),
            canvas: Some("c".into()),
        };
        let done = |outcome| PanelInput::Done { rid: "r".into(), outcome, workflow: Some(workflow.clone()) };
        let pinned = Target::Pinned { path: "workflows/a.json".into(), filename: Some("a.json".into()) };
        let inputs = [
            PanelInput::Start,
            PanelInput::Reconnect,
            PanelInput::Tick,
            PanelInput::Opened { socket: 1 },
            PanelInput::Frame { socket: 2, text: "{}".into() },
            PanelInput::Closed { socket: 3, code: 4001, reason: "r".into() },
            PanelInput::Canvas { workflow: None },
            PanelInput::Canvas { workflow: Some(workflow.clone()) },
            done(Outcome::Ok { result: json!({"a": 1}) }),
            done(Outcome::Refused { refusal: json!({"code": "x"}) }),
            done(Outcome::Failed { code: "c".into(), message: "m".into() }),
            PanelInput::RunFinished {
                prompt_id: "p".into(),
                status: "error".into(),
                images: vec![json!({"filename": "a"})],
                error: Some("e".into()),
            },
            PanelInput::Send { mid: "m".into(), text: "t".into(), context: Some("c".into()), now: true },
            PanelInput::SendNow,
            PanelInput::Resend { mid: "m".into() },
            PanelInput::Cancel { mid: "m".into() },
            PanelInput::Reorder { order: vec!["b".into(), "a".into()] },
            PanelInput::Stop,
            PanelInput::NewChat,
            PanelInput::Rewind { mid: "m".into() },
            PanelInput::Resume { session_id: "s".into() },
            PanelInput::ListSessions,
            PanelInput::Search { words: "w".into() },
            PanelInput::Export { format: ExportFormat::Md, session_id: None },
            PanelInput::Export { format: ExportFormat::Json, session_id: Some("s".into()) },
            PanelInput::SetBackend { backend: "codex".into() },
            PanelInput::SetTarget { target: Target::Current },
            PanelInput::SetTarget { target: pinned },
            PanelInput::SetModel { model: "m".into() },
            PanelInput::SetBlind { on: true },
            PanelInput::Answer { ask_id: "q".into(), result: json!(["a"]) },
        ];
        for input in inputs {
            let text = serde_json::to_string(&input).unwrap();
            assert_eq!(serde_json::from_str::<PanelInput>(&text).unwrap(), input, "{text}");
        }
    }

    #[test]
    fn a_configuration_is_read_back_as_it_was_written() {
        let config = PanelConfig {
            tab_id: "t".into(),
            version: "1".into(),
            backend: Some("codex".into()),
            comfyui_url: None,
            begun: vec!["r1".into()],
        };
        let text = serde_json::to_string(&config).unwrap();
        assert_eq!(serde_json::from_str::<PanelConfig>(&text).unwrap(), config);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let problem = |value: Value| serde_json::from_value::<PanelInput>(value).unwrap_err().to_string();
        assert!(problem(json!({})).contains("`input`"));
        assert!(problem(json!({"input": "fly"})).contains("fly"));
        assert!(problem(json!({"input": "opened", "socket": -1})).contains("`socket`"));
        assert!(problem(json!({"input": "closed", "socket": 1, "code": 70_000})).contains("`code`"));
        assert!(problem(json!({"input": "canvas", "workflow": {}})).contains("uuid"));
        assert!(problem(json!({"input": "done", "rid": "r", "outcome": {"outcome": "?"}})).contains("`outcome`"));
        assert!(problem(json!({"input": "send", "mid": "m"})).contains("`text`"));
    }
}
