//! The workflow-instance fence (rules G5, G6, G9): was the command issued for the instance that is in front? Asked by the
//! panel at execution and again after every await before the write, and by the daemon when it predicts.

use crate::command;
use crate::frame::WorkflowIdentity;
use crate::id::WorkflowUuid;
use crate::refusal::Refusal;

/// Compares a command's stamp with the instance in front. Commands that the fence does not concern pass.
///
/// # Errors
/// `workflow_instance_mismatch` when the stamp is missing, different, or what is in front cannot be read.
pub fn check(
    cmd: &str,
    has_path: bool,
    stamp: Option<&WorkflowUuid>,
    active: Option<&WorkflowUuid>,
) -> Result<(), Refusal> {
    if !command::is_fenced(cmd, has_path) {
        return Ok(());
    }
    match (stamp, active) {
        (Some(issued), Some(front)) if issued == front && !issued.as_str().trim().is_empty() => Ok(()),
        (issued, active) => Err(Refusal::WorkflowInstanceMismatch { issued: issued.cloned(), active: active.cloned() }),
    }
}

/// Whether an identity in a reply contradicts the one that is bound (rule G9): the same canvas, another instance.
pub fn contradicts(bound: Option<&WorkflowIdentity>, reported: &WorkflowIdentity) -> bool {
    bound.is_some_and(|bound| bound.canvas.is_some() && bound.canvas == reported.canvas && bound.uuid != reported.uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn g5_missing_different_or_unreadable_is_refused() {
        let (w1, w2) = (WorkflowUuid::from("w1"), WorkflowUuid::from("w2"));
        assert_eq!(check("graph_set_widget", false, Some(&w1), Some(&w1)), Ok(()));
        for (stamp, active) in [(Some(&w1), Some(&w2)), (None, Some(&w1)), (Some(&w1), None), (None, None)] {
            assert!(check("graph_set_widget", false, stamp, active).is_err(), "{stamp:?} {active:?}");
        }
        let blank = WorkflowUuid::from(" ");
        assert!(check("graph_outline", false, Some(&blank), Some(&blank)).is_err());
    }

    #[test]
    fn report_028_identity_queries_are_never_fenced() {
        let stale = WorkflowUuid::from("stale");
        for cmd in ["workflow_list", "workflow_open", "workflow_new", "nodes_search", "ask_user", "set_todo"] {
            assert_eq!(check(cmd, false, Some(&stale), Some(&"w1".into())), Ok(()), "{cmd}");
        }
    }

    #[test]
    fn a_close_by_path_is_no_write_to_the_canvas_in_front() {
        assert_eq!(check("workflow_close", true, None, Some(&"w1".into())), Ok(()));
        assert!(check("workflow_close", false, None, Some(&"w1".into())).is_err());
    }

    #[test]
    fn g9_the_same_canvas_with_another_instance_contradicts() {
        let one = |uuid: &str, canvas: Option<&str>| WorkflowIdentity {
            uuid: uuid.into(),
            path: None,
            handle: String::new(),
            title: String::new(),
            canvas: canvas.map(Into::into),
        };
        assert!(contradicts(Some(&one("w1", Some("c"))), &one("w2", Some("c"))));
        assert!(!contradicts(Some(&one("w1", Some("c"))), &one("w2", Some("d"))));
        assert!(!contradicts(Some(&one("w1", None)), &one("w2", None)));
        assert!(!contradicts(None, &one("w2", Some("c"))));
    }
}
