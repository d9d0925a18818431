//! What a conversation is pinned to, and whether a workflow can be pinned (rules G1 to G3).

use crate::command::Spec;
use crate::frame::WorkflowIdentity;
use crate::path::{WorkflowPath, same_workflow};
use crate::refusal::Refusal;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The target of a conversation (rule G1).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema))]
#[serde(tag = "mode", rename_all = "snake_case")]
pub enum Target {
    /// The workflow that each turn was issued for.
    #[default]
    Current,
    /// One workflow only.
    Pinned {
        /// Its canonical path when saved, else its handle.
        path: String,
        /// A label for people.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        #[cfg_attr(feature = "schema", ts(optional))]
        filename: Option<String>,
    },
}

impl Target {
    /// The pin that goes with a command as `workflow_path` (rule G3). A value that is there already wins.
    pub fn inject(&self, spec: &Spec, args: &mut Map<String, Value>) {
        let Self::Pinned { path, .. } = self else { return };
        if spec.is_pinned(args.contains_key("path")) && !args.contains_key("workflow_path") {
            args.insert("workflow_path".to_owned(), Value::String(path.clone()));
        }
    }

    /// Follows a rename of the pinned workflow, which is still the same one.
    pub fn renamed(&mut self, before: &WorkflowIdentity, after: &WorkflowIdentity) {
        let Self::Pinned { path, filename } = self else { return };
        if before.uuid == after.uuid && before.answers_to(path) && !after.answers_to(path) {
            *path = after.key();
            *filename = after.path.as_ref().map(|path| path.filename().to_owned());
        }
    }
}

/// One open workflow, as `workflow_list` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct OpenWorkflow {
    /// The workflow.
    #[serde(flatten)]
    pub identity: WorkflowIdentity,
    /// It is in front.
    #[serde(default)]
    pub active: bool,
    /// It has unsaved changes.
    #[serde(default)]
    pub modified: bool,
}

/// Reads the `workflows` of a `workflow_list` result. `None`: the result does not say (rule G2: its own answer).
pub fn open_workflows(result: &Value) -> Option<Vec<OpenWorkflow>> {
    let list = result.get("workflows")?.as_array()?;
    list.iter()
        .map(|entry| {
            let mut entry = entry.clone();
            // A legacy panel calls the instance `workflow_uuid` and the handle `routing_key`.
            if let Value::Object(map) = &mut entry {
                for (theirs, ours) in [("workflow_uuid", "uuid"), ("routing_key", "handle")] {
                    if let (Some(value), false) = (map.get(theirs).cloned(), map.contains_key(ours)) {
                        map.insert(ours.to_owned(), value);
                    }
                }
            }
            serde_json::from_value(entry).ok()
        })
        .collect()
}

/// Whether a name can be pinned now (rule G2): open, in front, and unmistakable.
///
/// # Errors
/// `target_not_open`, `target_not_active`, `target_name_ambiguous` or `target_undetermined`; none of them pins.
pub fn resolve_pin(name: &str, open: Option<&[OpenWorkflow]>) -> Result<WorkflowIdentity, Refusal> {
    let Some(open) = open else { return Err(Refusal::TargetUndetermined) };
    let Some(front) = open.iter().find(|one| one.active) else { return Err(Refusal::TargetUndetermined) };
    let found = find(name, open);
    match found.as_slice() {
        [] => Err(Refusal::TargetNotOpen {
            path: name.to_owned(),
            open: open.iter().map(|one| one.identity.handle.clone()).collect(),
            tab: None,
        }),
        [only] if only.active => Ok(only.identity.clone()),
        [_] => {
            Err(Refusal::TargetNotActive { path: name.to_owned(), active: front.identity.handle.clone(), tab: None })
        }
        several => Err(Refusal::TargetNameAmbiguous {
            path: name.to_owned(),
            matches: several.iter().map(|one| one.identity.handle.clone()).collect(),
        }),
    }
}

/// Open workflows that a name means: by handle or path; else by file name or title, if that is unmistakable.
pub fn find<'a>(name: &str, open: &'a [OpenWorkflow]) -> Vec<&'a OpenWorkflow> {
    let exact: Vec<_> = open.iter().filter(|one| one.identity.answers_to(name)).collect();
    if !exact.is_empty() {
        return exact;
    }
    let wanted = WorkflowPath::parse(name).ok();
    open.iter()
        .filter(|one| {
            let by_file = match (&one.identity.path, &wanted) {
                (Some(path), Some(wanted)) => same_workflow(path.filename(), wanted.filename()) && !name.contains('/'),
                _ => false,
            };
            by_file || one.identity.title == name
        })
        .collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use crate::command::by_cmd;
    use serde_json::json;

    fn listed() -> Vec<OpenWorkflow> {
        open_workflows(&json!({"workflows": [
            {"uuid": "u1", "handle": "wf:workflows/a.json", "path": "workflows/a.json", "title": "a", "active": true},
            {"uuid": "u2", "handle": "wf:workflows/sub/b.json", "path": "workflows/sub/b.json", "title": "b"},
            {"uuid": "u3", "handle": "tmp:1", "title": "Unsaved Workflow"},
            {"uuid": "u4", "handle": "tmp:2", "title": "Unsaved Workflow"},
        ]}))
        .unwrap()
    }

    #[test]
    fn g2_only_the_open_workflow_in_front_can_be_pinned() {
        let open = listed();
        assert_eq!(resolve_pin("a.json", Some(&open)).unwrap().key(), "workflows/a.json");
        assert!(matches!(resolve_pin("sub/b", Some(&open)), Err(Refusal::TargetNotActive { .. })));
        assert!(matches!(resolve_pin("c", Some(&open)), Err(Refusal::TargetNotOpen { .. })));
        assert_eq!(resolve_pin("a", None), Err(Refusal::TargetUndetermined));
        let nothing_in_front: Vec<_> = open.into_iter().map(|one| OpenWorkflow { active: false, ..one }).collect();
        assert_eq!(resolve_pin("a", Some(&nothing_in_front)), Err(Refusal::TargetUndetermined));
    }

    #[test]
    fn report_038_a_file_name_finds_its_workflow_in_a_folder() {
        let open = listed();
        assert_eq!(find("b.json", &open)[0].identity.uuid, "u2".into());
        assert!(find("other/b.json", &open).is_empty());
    }

    #[test]
    fn report_040_two_unsaved_workflows_of_one_title_are_ambiguous() {
        assert!(matches!(
            resolve_pin("Unsaved Workflow", Some(&listed())),
            Err(Refusal::TargetNameAmbiguous { matches, .. }) if matches == ["tmp:1", "tmp:2"]
        ));
    }

    #[test]
    fn g3_the_pin_is_added_where_the_table_says_and_never_replaces_a_value() {
        let pin = Target::Pinned { path: "workflows/a.json".into(), filename: None };
        let injected = |cmd: &str, args: Value| {
            let Value::Object(mut map) = args else { panic!("an object") };
            pin.inject(by_cmd(cmd).unwrap(), &mut map);
            map.get("workflow_path").cloned()
        };
        assert_eq!(injected("graph_outline", json!({})), Some(json!("workflows/a.json")));
        assert_eq!(injected("graph_outline", json!({"workflow_path": "x"})), Some(json!("x")));
        assert_eq!(injected("workflow_save", json!({})), Some(json!("workflows/a.json")));
        assert_eq!(injected("workflow_close", json!({"path": "b"})), None);
        for cmd in ["workflow_list", "workflow_new", "workflow_open"] {
            assert_eq!(injected(cmd, json!({"path": "b"})), None, "{cmd}");
        }
    }
}
