//! Every way in which a call or a frame is refused: one enum, stable codes, and the remedy of each (rule G10).

use crate::id::{Rid, TabKey, WorkflowUuid};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// A tab that a caller could choose instead.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Candidate {
    /// What to give as `tab`.
    pub tab: TabKey,
    /// What a person sees: the title of the workflow in front.
    pub title: String,
}

/// Why a turn has no target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum NoTarget {
    /// Messages of several origins in one batch (rule T2).
    MixedOrigins,
    /// The message's origin is not known (rule T9).
    UnknownOrigin,
    /// Only injected events, and nothing to inherit (rule T3).
    NothingToInherit,
    /// The pinned tab went over to another backend (rule T7).
    OwnershipLost,
    /// Several tabs fit and none was named (rule G12).
    SeveralTabs,
    /// No workflow was ever targeted (rule B2, or the first call of all).
    NeverSet,
}

/// A refusal. Nothing was applied, unless the variant says that this is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(tag = "code", rename_all = "snake_case")]
pub enum Refusal {
    /// The pinned workflow is not the one in front (rule G4).
    WorkflowMismatch {
        /// What the command was pinned to.
        wanted: String,
        /// The handle of the workflow in front; absent when it cannot be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        active: Option<String>,
    },
    /// The workflow in front is another instance than the call was issued for, or one of the two is unknown (rule G5).
    WorkflowInstanceMismatch {
        /// The stamp; absent when the call has none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        issued: Option<WorkflowUuid>,
        /// The instance in front; absent when it cannot be read.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        active: Option<WorkflowUuid>,
    },
    /// The turn has no target and none may be guessed.
    TargetAmbiguous {
        /// Why.
        reason: NoTarget,
        /// Tabs that can be named.
        #[serde(default)]
        candidates: Vec<Candidate>,
    },
    /// The turn's tab did not come back in time (rule T6).
    TargetGone {
        /// Tabs that are there.
        #[serde(default)]
        candidates: Vec<Candidate>,
    },
    /// The tab takes part in another conversation (rule T7).
    NotOwner {
        /// The tab.
        tab: TabKey,
        /// Tabs of this conversation.
        #[serde(default)]
        candidates: Vec<Candidate>,
    },
    /// No tab of this conversation is connected. A re-target is kept and applied when one comes (rule T6, report 13).
    NoTab {
        /// Whether the request was kept for the next tab.
        #[serde(default)]
        deferred: bool,
    },
    /// A pin names a workflow that is not open (rule G2).
    TargetNotOpen {
        /// What was asked for.
        path: String,
        /// Handles of what is open.
        #[serde(default)]
        open: Vec<String>,
        /// In which tab.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tab: Option<TabKey>,
    },
    /// A pin names an open workflow that is not in front (rule G2).
    TargetNotActive {
        /// What was asked for.
        path: String,
        /// The handle in front.
        active: String,
        /// In which tab.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tab: Option<TabKey>,
    },
    /// Several open workflows answer to the name.
    TargetNameAmbiguous {
        /// What was asked for.
        path: String,
        /// Their handles.
        matches: Vec<String>,
    },
    /// Which workflow is in front could not be determined (rule G2): not yet is another answer than no.
    TargetUndetermined,
    /// A newer request took this one's place (rule G1).
    Superseded,
    /// The person has blind mode on: it was done, and its pictures are withheld (rule F6).
    Blind,
    /// The command was sent and no answer came: it may have been applied (rule G11).
    UnknownOutcome {
        /// Give this as `retry_of` to ask again without a second effect.
        token: Rid,
    },
    /// No answer in time, and nothing was applied.
    NoReply {
        /// How long was waited, in milliseconds.
        after_ms: u64,
        /// What the tab is at work on meanwhile, where that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        busy: Option<Busy>,
    },
    /// The panel answered in a way that the protocol does not allow (rules G8, G9).
    BadReply {
        /// What was wrong.
        problem: String,
    },
    /// The panel could not do it: its own code and words.
    Failed {
        /// The panel's code, such as `unknown_node`.
        failure: String,
        /// What happened and what would be valid.
        message: String,
    },
    /// The arguments do not fit the command.
    BadArguments {
        /// One sentence each.
        problems: Vec<String>,
    },
    /// There is no such command.
    UnknownCommand {
        /// What was asked for.
        name: String,
    },
    /// The panel in that tab is too old to be fenced at the write.
    PanelTooOld,
    /// A duplicate of a command that is still running (report 63): nothing was applied twice.
    StillRunning {
        /// The first dispatch.
        token: Rid,
        /// What it is, and for how long.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        busy: Option<Busy>,
    },
    /// The conversation was cleared or is stopping.
    ConversationClosed,
    /// A bounded queue is full.
    Overloaded {
        /// When to try again, in milliseconds.
        retry_after_ms: u64,
    },
}

/// A command that a tab is at work on (report 65).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
pub struct Busy {
    /// Its name on the wire.
    pub cmd: String,
    /// For how long, in milliseconds.
    pub for_ms: u64,
}

impl Busy {
    /// For agents and for people.
    pub fn words(&self) -> String {
        format!("The tab has been at work on {} for {} s.", self.cmd, self.for_ms / 1_000)
    }
}

/// What makes the refused command pass: a tool and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Remedy {
    /// The tool to call.
    pub tool: String,
    /// Its arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
}

impl Remedy {
    fn new(tool: &str, arguments: Value) -> Self {
        let arguments = match arguments {
            Value::Object(map) => map,
            _ => Map::new(),
        };
        Self { tool: tool.to_owned(), arguments }
    }

    fn target_current(candidates: &[Candidate]) -> Self {
        match candidates {
            [first, ..] => Self::new("panel_set_workflow_target", json!({"mode": "current", "tab": first.tab})),
            [] => Self::new("panel_set_workflow_target", json!({"mode": "current"})),
        }
    }
}

impl Refusal {
    /// The stable code, as on the wire.
    pub fn code(&self) -> &'static str {
        match self {
            Self::WorkflowMismatch { .. } => "workflow_mismatch",
            Self::WorkflowInstanceMismatch { .. } => "workflow_instance_mismatch",
            Self::TargetAmbiguous { .. } => "target_ambiguous",
            Self::TargetGone { .. } => "target_gone",
            Self::NotOwner { .. } => "not_owner",
            Self::NoTab { .. } => "no_tab",
            Self::TargetNotOpen { .. } => "target_not_open",
            Self::TargetNotActive { .. } => "target_not_active",
            Self::TargetNameAmbiguous { .. } => "target_name_ambiguous",
            Self::TargetUndetermined => "target_undetermined",
            Self::Superseded => "superseded",
            Self::Blind => "blind",
            Self::UnknownOutcome { .. } => "unknown_outcome",
            Self::NoReply { .. } => "no_reply",
            Self::BadReply { .. } => "bad_reply",
            Self::Failed { .. } => "failed",
            Self::BadArguments { .. } => "bad_arguments",
            Self::UnknownCommand { .. } => "unknown_command",
            Self::PanelTooOld => "panel_too_old",
            Self::StillRunning { .. } => "still_running",
            Self::ConversationClosed => "conversation_closed",
            Self::Overloaded { .. } => "overloaded",
        }
    }

    /// The tool call whose success makes the refused command pass. `None` where the same call, corrected or later, is
    /// the way on.
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::WorkflowMismatch { .. } | Self::WorkflowInstanceMismatch { .. } => Some(Remedy::target_current(&[])),
            Self::TargetAmbiguous { candidates, .. }
            | Self::TargetGone { candidates }
            | Self::NotOwner { candidates, .. } => Some(Remedy::target_current(candidates)),
            Self::NoTab { .. } => Some(Remedy::target_current(&[])),
            Self::TargetNotOpen { path, tab, .. } | Self::TargetNotActive { path, tab, .. } => {
                let arguments = match tab {
                    Some(tab) => json!({"path": path, "tab": tab}),
                    None => json!({"path": path}),
                };
                Some(Remedy::new("panel_open_workflow", arguments))
            }
            Self::TargetNameAmbiguous { .. } => Some(Remedy::new("panel_list_workflows", json!({}))),
            Self::UnknownOutcome { .. } => Some(Remedy::new("panel_graph_outline", json!({}))),
            Self::TargetUndetermined
            | Self::Superseded
            | Self::Blind
            | Self::NoReply { .. }
            | Self::BadReply { .. }
            | Self::Failed { .. }
            | Self::BadArguments { .. }
            | Self::UnknownCommand { .. }
            | Self::PanelTooOld
            | Self::StillRunning { .. }
            | Self::ConversationClosed
            | Self::Overloaded { .. } => None,
        }
    }

    /// What happened and what to do, for the agent and for people.
    pub fn message(&self) -> String {
        match self {
            Self::WorkflowMismatch { wanted, active } => format!(
                "Workflow mismatch: this conversation is pinned to `{wanted}`, but {} is in front. Nothing was applied. \
                 Open the pinned workflow with panel_open_workflow, or take the one in front with \
                 panel_set_workflow_target {{\"mode\":\"current\"}}, then repeat the call.",
                active.as_deref().map_or_else(|| "no readable workflow".to_owned(), |handle| format!("`{handle}`"))
            ),
            Self::WorkflowInstanceMismatch { issued, active } => format!(
                "Workflow instance mismatch: {}, {}. Nothing was applied. Go back with panel_open_workflow, or take the \
                 workflow in front with panel_set_workflow_target {{\"mode\":\"current\"}}, then repeat the call.",
                match issued {
                    Some(uuid) => format!("this call was issued for workflow instance {uuid}"),
                    None => "this turn has no workflow that it was issued for".to_owned(),
                },
                match active {
                    Some(uuid) => format!("and the canvas now shows {uuid}"),
                    None => "and what the canvas shows is not known".to_owned(),
                }
            ),
            Self::TargetAmbiguous { reason, candidates } => format!(
                "This turn has no target: {}. Nothing was applied. Choose with panel_set_workflow_target \
                 {{\"mode\":\"current\",\"tab\":…}}{}.",
                reason.words(),
                listed(candidates)
            ),
            Self::TargetGone { candidates } => format!(
                "The browser tab of this turn is gone and did not come back. Nothing was applied. If the person wants to \
                 go on elsewhere, choose with panel_set_workflow_target {{\"mode\":\"current\",\"tab\":…}}{}.",
                listed(candidates)
            ),
            Self::NotOwner { tab, candidates } => format!(
                "Tab {tab} belongs to another conversation. Nothing was applied. Choose a tab of this one with \
                 panel_set_workflow_target{}.",
                listed(candidates)
            ),
            Self::NoTab { deferred } => format!(
                "No ComfyUI tab of this conversation is connected.{} Ask the person to open ComfyUI with the panel.",
                if *deferred { " The new target is kept and applied when a tab connects." } else { "" }
            ),
            Self::TargetNotOpen { path, open, .. } => format!(
                "`{path}` is not open. Open it with panel_open_workflow first. Open now: {}.",
                if open.is_empty() { "nothing".to_owned() } else { open.join(", ") }
            ),
            Self::TargetNotActive { path, active, .. } => format!(
                "`{path}` is open but not in front (`{active}` is). Only the workflow in front can be a target: bring it \
                 there with panel_open_workflow."
            ),
            Self::TargetNameAmbiguous { path, matches } => {
                format!("`{path}` fits several open workflows: {}. Give one of these in full.", matches.join(", "))
            }
            Self::TargetUndetermined => {
                "Which workflow is in front could not be determined yet. Nothing was changed; try again shortly.".to_owned()
            }
            Self::Blind => {
                "Blind mode is on: pictures are withheld. Read the graph as text with panel_graph_outline, or ask the person to \
                 switch blind mode off."
                    .to_owned()
            }
            Self::Superseded => "A newer request took this one's place.".to_owned(),
            Self::UnknownOutcome { token } => format!(
                "Outcome unknown: the command was sent, but no answer came that says what became of it, so it may have been applied. Look with \
                 panel_graph_outline, or repeat the call with retry_of \"{token}\": it is then never applied twice."
            ),
            Self::NoReply { after_ms, busy } => format!(
                "The tab did not answer within {after_ms} ms, and nothing was applied. {} Try again.",
                busy.as_ref().map_or_else(|| "It may be in the background or busy.".to_owned(), Busy::words)
            ),
            Self::BadReply { problem } => format!("The panel's answer breaks the protocol: {problem}."),
            Self::Failed { message, .. } => message.clone(),
            Self::BadArguments { problems } => problems.join(" "),
            Self::UnknownCommand { name } => format!("There is no command `{name}`."),
            Self::PanelTooOld => {
                "The panel in that tab cannot check the workflow at the moment of the write, so writes are refused. Update \
                 the panel and reload the page."
                    .to_owned()
            }
            Self::StillRunning { token, busy } => format!(
                "The first dispatch is still running, and nothing was applied twice. {}Ask for its outcome later: repeat the call \
                 with retry_of \"{token}\".",
                busy.as_ref().map(|busy| busy.words() + " ").unwrap_or_default()
            ),
            Self::ConversationClosed => "The conversation was cleared or stopped; the call was not carried out.".to_owned(),
            Self::Overloaded { retry_after_ms } => format!("Too much is waiting. Try again in {retry_after_ms} ms."),
        }
    }

    /// The same, with the tab that it is about, so that its remedy goes there and nowhere else.
    #[must_use]
    pub fn in_tab(mut self, key: &TabKey) -> Self {
        if let Self::TargetNotOpen { tab, .. } | Self::TargetNotActive { tab, .. } = &mut self {
            *tab = Some(key.clone());
        }
        self
    }

    /// As it stands in a reply and in an MCP result: the fields of the variant with `code`, `message` and `remedy`.
    pub fn to_wire(&self) -> Value {
        let mut wire = serde_json::to_value(self).unwrap_or_else(|_| json!({"code": self.code()}));
        if let Value::Object(map) = &mut wire {
            // A panel's failure has a `message` field of its own, with the same text.
            map.insert("message".to_owned(), Value::String(self.message()));
            if let Some(remedy) = self.remedy() {
                map.insert("remedy".to_owned(), json!({"tool": remedy.tool, "arguments": remedy.arguments}));
            }
        }
        wire
    }

    /// Reads a refusal back from [`Refusal::to_wire`]. An unknown code becomes [`Refusal::Failed`] with that code.
    pub fn from_wire(wire: &Value) -> Self {
        serde_json::from_value(wire.clone()).unwrap_or_else(|_| {
            let text = |field: &str| wire.get(field).and_then(Value::as_str).map(str::to_owned);
            Self::Failed {
                failure: text("code").unwrap_or_else(|| "refused".to_owned()),
                message: text("message").unwrap_or_else(|| "The panel refused the command.".to_owned()),
            }
        })
    }
}

impl NoTarget {
    fn words(self) -> &'static str {
        match self {
            Self::MixedOrigins => "it answers messages that came from different workflows",
            Self::UnknownOrigin => "the workflow that its message came from is not known",
            Self::NothingToInherit => "it was started by an event, and no tab stands out",
            Self::OwnershipLost => "its tab went over to another agent",
            Self::SeveralTabs => "several tabs fit",
            Self::NeverSet => "no workflow was targeted yet",
        }
    }
}

fn listed(candidates: &[Candidate]) -> String {
    if candidates.is_empty() {
        return " (no tab is connected now)".to_owned();
    }
    let names: Vec<String> = candidates.iter().map(|one| format!("{} “{}”", one.tab, one.title)).collect();
    format!(". Tabs: {}", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_survives_the_wire() {
        let refusal = Refusal::WorkflowInstanceMismatch { issued: Some("w1".into()), active: None };
        let wire = refusal.to_wire();
        assert_eq!(wire["code"], "workflow_instance_mismatch");
        assert_eq!(wire["remedy"]["tool"], "panel_set_workflow_target");
        assert_eq!(Refusal::from_wire(&wire), refusal);
    }

    #[test]
    fn an_unknown_code_is_kept_as_a_failure() {
        let refusal = Refusal::from_wire(&json!({"code": "from_the_future", "message": "later"}));
        assert_eq!(refusal, Refusal::Failed { failure: "from_the_future".into(), message: "later".into() });
    }
}
