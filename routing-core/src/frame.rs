//! Every frame on the wire, both dialects. One JSON object in one text frame; what has `rid` and `cmd` is a command, what
//! has `rid` or `ask_id` and no `type` is a reply, all else is told by `type`.
//!
//! Unknown fields are kept in `extra` and unknown types as they came, so that both survive a round trip.

mod from_daemon;
mod from_panel;
mod past;

pub use from_daemon::*;
pub use from_panel::*;
pub use past::*;

use crate::id::{CanvasToken, WorkflowUuid};
use crate::path::{WorkflowPath, same_workflow};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The dialect of our own panel, as `hello.protocol`.
pub const PROTOCOL: u32 = 1;

/// Fields that this version does not know.
pub type Extra = Map<String, Value>;

/// A workflow instance as its panel proves it: in `hello.workflow` and at the top level of replies.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct WorkflowIdentity {
    /// The instance: what the fence compares.
    pub uuid: WorkflowUuid,
    /// Where it is saved, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "lenient_path")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub path: Option<WorkflowPath>,
    /// `wf:<path>` when saved, `tmp:<id>` when not. A label.
    #[serde(default)]
    pub handle: String,
    /// What the person sees.
    #[serde(default)]
    pub title: String,
    /// Which canvas object shows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", ts(optional))]
    pub canvas: Option<CanvasToken>,
}

impl WorkflowIdentity {
    /// Whether a name means this workflow: its handle, or, once saved, any spelling of its path (rule G4).
    pub fn answers_to(&self, name: &str) -> bool {
        self.handle == name || self.path.as_ref().is_some_and(|path| same_workflow(path.as_str(), name))
    }

    /// The name that a pin keeps: the canonical path when saved, else the handle (rule G2).
    pub fn key(&self) -> String {
        self.path.as_ref().map_or_else(|| self.handle.clone(), |path| path.as_str().to_owned())
    }
}

/// A path that is no path is no reason to drop an identity: it is only a label.
fn lenient_path<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<WorkflowPath>, D::Error> {
    let text = Option::<String>::deserialize(from)?;
    Ok(text.and_then(|text| WorkflowPath::parse(&text).ok()))
}

/// Why a text is no frame.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum FrameError {
    /// Not a JSON object.
    #[error("a frame is one JSON object: {0}")]
    NotJson(String),
    /// Nested deeper than [`MAX_DEPTH`].
    #[error("a frame may be nested {MAX_DEPTH} deep at most")]
    TooDeep,
    /// Neither `type`, nor `rid`, nor `ask_id`.
    #[error("a frame needs `type`, or `rid` for a reply")]
    NoType,
    /// A known type with a field that does not fit.
    #[error("`{kind}` does not fit: {problem}")]
    BadField {
        /// The frame's type.
        kind: String,
        /// What is wrong, with the field's name.
        problem: String,
    },
}

impl FrameError {
    /// The stable code, as in `nack.code`.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NotJson(_) => "not_json",
            Self::TooDeep => "too_deep",
            Self::NoType => "no_type",
            Self::BadField { .. } => "bad_field",
        }
    }
}

/// How deep a frame may be nested.
pub const MAX_DEPTH: usize = 64;

/// Reads a JSON object and checks its depth before anything is built from it.
pub(crate) fn object(text: &str) -> Result<Map<String, Value>, FrameError> {
    if depth(text) > MAX_DEPTH {
        return Err(FrameError::TooDeep);
    }
    match serde_json::from_str(text) {
        Ok(Value::Object(map)) => Ok(map),
        Ok(_) => Err(FrameError::NotJson("it is another value".to_owned())),
        Err(error) => Err(FrameError::NotJson(error.to_string())),
    }
}

fn depth(text: &str) -> usize {
    let (mut now, mut most, mut in_text, mut escaped) = (0usize, 0usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_text => escaped = true,
            b'"' => in_text = !in_text,
            b'{' | b'[' if !in_text => {
                now += 1;
                most = most.max(now);
            }
            b'}' | b']' if !in_text => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

#[cfg(test)]
mod tests;
