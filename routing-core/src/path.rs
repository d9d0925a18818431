//! The one form of a saved workflow's path, and the parser for everything that names a workflow on the wire.
//!
//! Paths are labels for people and files; no rule uses one as an identity. They are parsed once, at the edge.

use serde::{Deserialize, Serialize};
use std::fmt;

const FOLDER: &str = "workflows/";
const SUFFIX: &str = ".json";

/// A saved workflow's path in its one form: `workflows/<folders>/<name>.json`, `/` between the parts, case kept.
///
/// Accepted on the way in: with or without `workflows/`, with or without `.json`, with `\` as a separator, with a
/// leading `./` or `/`, with a `wf:` prefix. Two paths name the same file if and only if their forms are equal.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(ts_rs::TS, schemars::JsonSchema), ts(as = "String"))]
#[serde(try_from = "String", into = "String")]
pub struct WorkflowPath(String);

/// A text that names no workflow file: empty, or it climbs out of the workflow folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("`{0}` names no workflow file: give a path inside the workflows folder, such as `portraits/first.json`")]
pub struct BadPath(pub String);

impl WorkflowPath {
    /// Parses any accepted spelling.
    ///
    /// # Errors
    /// [`BadPath`] when nothing is left or a part is `..`.
    pub fn parse(text: &str) -> Result<Self, BadPath> {
        let trimmed = text.trim();
        let bare = trimmed.strip_prefix("wf:").unwrap_or(trimmed);
        let slashed = bare.replace('\\', "/");
        let parts: Vec<&str> = slashed.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
        if parts.is_empty() || parts.contains(&"..") || parts == ["workflows"] {
            return Err(BadPath(text.to_owned()));
        }
        let mut path = parts.join("/");
        if !path.starts_with(FOLDER) {
            path.insert_str(0, FOLDER);
        }
        if !ends_with_suffix(&path) {
            path.push_str(SUFFIX);
        }
        Ok(Self(path))
    }

    /// `workflows/<folders>/<name>.json`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last part, with `.json`.
    pub fn filename(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or(&self.0)
    }

    /// The last part without `.json`: what a person sees on the tab.
    pub fn title(&self) -> &str {
        let name = self.filename();
        let stem = name.len().saturating_sub(SUFFIX.len());
        name.get(..stem).unwrap_or(name)
    }

    /// The handle of the workflow saved here: `wf:<path>`.
    pub fn handle(&self) -> String {
        format!("wf:{}", self.0)
    }
}

/// Whether it ends with `.json`, in any case.
fn ends_with_suffix(path: &str) -> bool {
    path.len().checked_sub(SUFFIX.len()).is_some_and(|at| path.as_bytes()[at..].eq_ignore_ascii_case(SUFFIX.as_bytes()))
}

impl TryFrom<String> for WorkflowPath {
    type Error = BadPath;
    fn try_from(text: String) -> Result<Self, BadPath> {
        Self::parse(&text)
    }
}

impl From<WorkflowPath> for String {
    fn from(path: WorkflowPath) -> Self {
        path.0
    }
}

impl fmt::Display for WorkflowPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl fmt::Debug for WorkflowPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "WorkflowPath({})", self.0)
    }
}

/// What a `tab_id` or a handle says about a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Route {
    /// `wf:<path>` or `wf:<tab>:<path>`: a saved workflow.
    Saved {
        /// The browser tab's own id, when the route names one.
        tab: Option<String>,
        /// Where it is saved.
        path: WorkflowPath,
    },
    /// `tmp:<id>`: a workflow that was never saved; the whole text is its handle.
    Unsaved(String),
    /// A connection that only asks who is there (`pack-probe`, `launcher-probe-…`): answered, never joined.
    Probe,
    /// Any other text: a browser tab's id.
    Plain(String),
}

impl Route {
    /// Reads a route. Total: what fits no form is [`Route::Plain`].
    pub fn parse(text: &str) -> Self {
        let text = text.trim();
        if text == "pack-probe" || text.starts_with("launcher-probe-") {
            return Self::Probe;
        }
        if text.starts_with("tmp:") {
            return Self::Unsaved(text.to_owned());
        }
        let Some(rest) = text.strip_prefix("wf:") else {
            return Self::Plain(text.to_owned());
        };
        let (tab, path) = match rest.split_once(':') {
            Some((head, tail)) if is_tab_part(head) => (Some(head.to_owned()), tail),
            _ => (None, rest),
        };
        match WorkflowPath::parse(path) {
            Ok(path) => Self::Saved { tab, path },
            Err(_) => Self::Plain(text.to_owned()),
        }
    }
}

/// A drive letter (`C:\…`) and a path that has a colon in it are no tab ids.
fn is_tab_part(head: &str) -> bool {
    head.chars().count() > 1 && !head.contains(['/', '\\'])
}

/// Whether two texts name the same workflow: equal handles, or spellings of one path. Unsaved handles equal only
/// themselves (rule G4).
pub fn same_workflow(left: &str, right: &str) -> bool {
    if left.starts_with("tmp:") || right.starts_with("tmp:") {
        return left == right;
    }
    matches!((WorkflowPath::parse(left), WorkflowPath::parse(right)), (Ok(a), Ok(b)) if a == b)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a panic is the failure of a test")]
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn report_038_a_bare_file_name_is_the_path_that_it_names() {
        let full = WorkflowPath::parse("workflows/m11.json").unwrap();
        for spelling in ["m11.json", "m11", "wf:workflows/m11.json", r".\workflows\m11.json", " /m11 "] {
            assert_eq!(WorkflowPath::parse(spelling).unwrap(), full, "{spelling}");
        }
        assert_eq!(full.title(), "m11");
    }

    #[test]
    fn report_080_drive_letters_and_colons_are_no_tab_ids() {
        assert_eq!(
            Route::parse(r"wf:C:\art\a.json"),
            Route::Saved { tab: None, path: WorkflowPath::parse("C:/art/a.json").unwrap() }
        );
        assert_eq!(
            Route::parse("wf:1f3a-77:workflows/a: b.json"),
            Route::Saved { tab: Some("1f3a-77".into()), path: WorkflowPath::parse("a: b.json").unwrap() }
        );
        assert_eq!(Route::parse("launcher-probe-12"), Route::Probe);
    }

    #[test]
    fn paths_that_leave_the_folder_are_refused() {
        for text in ["", "  ", "workflows/", "../a.json", "a/../../b"] {
            assert!(WorkflowPath::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn report_040_unsaved_workflows_are_named_by_their_handle_only() {
        assert!(!same_workflow("tmp:1", "tmp:2"));
        assert!(same_workflow("tmp:1", "tmp:1"));
        assert!(!same_workflow("tmp:1", "workflows/Unsaved Workflow.json"));
    }

    proptest! {
        #[test]
        fn report_080_what_one_tool_lists_the_next_accepts(name in "\\PC{1,24}") {
            if let Ok(path) = WorkflowPath::parse(&name) {
                prop_assert_eq!(&WorkflowPath::parse(path.as_str()).unwrap(), &path);
                prop_assert_eq!(&WorkflowPath::parse(&path.handle()).unwrap(), &path);
                let routed = Route::parse(&format!("wf:tab-1:{path}"));
                prop_assert_eq!(routed, Route::Saved { tab: Some("tab-1".into()), path: path.clone() });
                prop_assert_eq!(Route::parse(&path.handle()), Route::Saved { tab: None, path });
            }
        }

        #[test]
        fn parsing_never_panics(text in "\\PC*") {
            let _ = Route::parse(&text);
            let _ = WorkflowPath::parse(&text);
        }
    }
}
