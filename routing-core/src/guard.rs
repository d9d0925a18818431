//! The workflow-path guard (rule G4): does the pinned name mean the workflow in front? Asked by the panel at execution,
//! and by the daemon when it predicts.

use crate::frame::WorkflowIdentity;
use crate::refusal::Refusal;

/// Compares a command's `workflow_path` with the workflow in front.
///
/// # Errors
/// `workflow_mismatch`, also when what is in front cannot be read: a pinned command then has no proof.
pub fn check(workflow_path: Option<&str>, active: Option<&WorkflowIdentity>) -> Result<(), Refusal> {
    let Some(wanted) = workflow_path.filter(|path| !path.trim().is_empty()) else { return Ok(()) };
    match active {
        Some(active) if active.answers_to(wanted) => Ok(()),
        Some(active) => {
            Err(Refusal::WorkflowMismatch { wanted: wanted.to_owned(), active: Some(active.handle.clone()) })
        }
        None => Err(Refusal::WorkflowMismatch { wanted: wanted.to_owned(), active: None }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use crate::path::WorkflowPath;

    fn workflow(path: Option<&str>, handle: &str) -> WorkflowIdentity {
        WorkflowIdentity {
            uuid: "u".into(),
            path: path.map(|path| WorkflowPath::parse(path).unwrap()),
            handle: handle.to_owned(),
            title: "Unsaved Workflow".to_owned(),
            canvas: None,
        }
    }

    #[test]
    fn g4_a_saved_workflow_answers_to_every_spelling_of_its_path() {
        let saved = workflow(Some("a/b.json"), "wf:workflows/a/b.json");
        for name in ["workflows/a/b.json", "a/b", r"a\b.json", "wf:workflows/a/b.json"] {
            assert_eq!(check(Some(name), Some(&saved)), Ok(()), "{name}");
        }
        assert_eq!(check(Some("b"), Some(&saved)).unwrap_err().code(), "workflow_mismatch");
        assert_eq!(check(None, None), Ok(()));
    }

    #[test]
    fn g4_an_unsaved_workflow_answers_to_its_handle_only() {
        let unsaved = workflow(None, "tmp:7");
        assert_eq!(check(Some("tmp:7"), Some(&unsaved)), Ok(()));
        for name in ["tmp:8", "Unsaved Workflow", "workflows/Unsaved Workflow.json"] {
            assert!(check(Some(name), Some(&unsaved)).is_err(), "{name}");
        }
    }

    #[test]
    fn report_041_a_pin_on_a_saved_workflow_refuses_a_temporary_one() {
        assert!(check(Some("workflows/a.json"), Some(&workflow(None, "tmp:1"))).is_err());
        assert!(check(Some("workflows/a.json"), None).is_err());
    }
}
