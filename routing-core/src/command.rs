//! The one table of commands: what each does to a canvas, whether the pin and the fence apply, how long it may take and
//! what it takes. Tools for agents, validation, the daemon's dispatch and the panel's admission all read it.

mod args;
mod table;

pub use args::{check_arguments, input_schema};
pub use table::TABLE;

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Asks who and what is there; touches no canvas.
    Query,
    /// Reads a canvas.
    View,
    /// Changes a canvas or the file of its workflow.
    Write,
    /// Changes which workflow is in front.
    Navigate,
    /// Acts on the server, not on a canvas.
    Server,
    /// Shows the person something or asks.
    Ask,
}

/// When something applies to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// Never.
    Never,
    /// Always.
    Always,
    /// Only when the command has no `path` of its own, so that it means the workflow in front.
    WithoutPath,
}

/// How long a reply may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Deadline {
    /// The configured `limits.command`.
    Usual,
    /// So many times as long: the command loads, saves or draws.
    Times(u64),
    /// As long as a person may think: `limits.ask`.
    Person,
}

/// What may be done when the reply is lost (rule G11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Retry {
    /// It changes nothing: send it again to the same proven tab.
    Resend,
    /// Only with a token that the panel's ledger answers.
    Token,
}

/// Who carries a command out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Site {
    /// The panel of one tab.
    Panel,
    /// The panels of all tabs of the conversation, gathered (rule G12).
    EveryPanel,
    /// The daemon itself.
    Daemon,
}

/// What an argument may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Text that is not empty.
    Text,
    /// A node id: a whole number, or a text such as `12` or `4:7` (inside a subgraph).
    NodeId,
    /// A slot: its name, or its index from 0.
    Slot,
    /// Any JSON value.
    Any,
    /// `true` or `false`.
    Flag,
    /// A whole number within bounds.
    Count(u64, u64),
    /// Two numbers: x and y, or width and height, in canvas units.
    Pair,
    /// A list of texts.
    Texts,
    /// A list of node ids.
    NodeIds,
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// Choices of a question: texts, or objects with `label` and `description`.
    Choices,
    /// Items of a to-do list: objects with `text` and `status` (`pending`, `active`, `done`).
    Items,
}

/// One argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Param {
    /// Its name on the wire and in the tool.
    pub name: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// Must be given.
    pub required: bool,
    /// What it means, for the agent.
    pub doc: &'static str,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Spec {
    /// Name on the wire.
    pub cmd: &'static str,
    /// Name of the tool that issues it; `None` where only the daemon does.
    pub tool: Option<&'static str>,
    /// What it does.
    pub effect: Effect,
    /// Whether `workflow_path` is added when a workflow is pinned (rule G3).
    pub pinned: When,
    /// Whether the stamp is compared (rules G5, G6).
    pub fenced: When,
    /// The reply must carry the resulting workflow identity (rule G8).
    pub reports_identity: bool,
    /// A success moves the turn's pin and stamp (rule T12).
    pub moves_target: bool,
    /// How long the reply may take.
    pub deadline: Deadline,
    /// After a lost reply.
    pub retry: Retry,
    /// Who carries it out.
    pub site: Site,
    /// Its arguments.
    pub params: &'static [Param],
    /// What it does, for the agent.
    pub doc: &'static str,
}

impl Spec {
    /// Changes nothing that a person or a server would notice: annotated so in the tool list.
    pub fn read_only(&self) -> bool {
        matches!(self.effect, Effect::Query | Effect::View)
    }

    /// Whether the fence applies to a command with these arguments.
    pub fn is_fenced(&self, has_path: bool) -> bool {
        self.fenced.applies(has_path)
    }

    /// Whether the pinned path is added to a command with these arguments.
    pub fn is_pinned(&self, has_path: bool) -> bool {
        self.pinned.applies(has_path)
    }
}

impl When {
    fn applies(self, has_path: bool) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::WithoutPath => !has_path,
        }
    }
}

/// The row of a command. `None`: not in the table; see [`is_fenced`] for what holds then.
pub fn by_cmd(cmd: &str) -> Option<&'static Spec> {
    TABLE.iter().find(|spec| spec.cmd == cmd)
}

/// The row of a tool.
pub fn by_tool(tool: &str) -> Option<&'static Spec> {
    TABLE.iter().find(|spec| spec.tool == Some(tool))
}

/// Whether the fence applies to a command, known or not. A `graph_*` command that is not in the table is taken for a
/// write: it may come from a newer peer, and failing closed is the safe reading.
pub fn is_fenced(cmd: &str, has_path: bool) -> bool {
    match by_cmd(cmd) {
        Some(spec) => spec.is_fenced(has_path),
        None => cmd.starts_with("graph_"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_stands_once() {
        let cmds: BTreeSet<_> = TABLE.iter().map(|spec| spec.cmd).collect();
        assert_eq!(cmds.len(), TABLE.len());
        let tools: Vec<_> = TABLE.iter().filter_map(|spec| spec.tool).collect();
        assert_eq!(tools.iter().collect::<BTreeSet<_>>().len(), tools.len());
    }

    #[test]
    fn g6_the_fence_follows_the_effect() {
        for spec in TABLE {
            let touches_canvas = matches!(spec.effect, Effect::View | Effect::Write);
            assert_eq!(spec.is_fenced(false), touches_canvas, "{}", spec.cmd);
        }
        assert!(is_fenced("graph_from_the_future", false));
        assert!(!is_fenced("nodes_search", false));
        assert!(!is_fenced("workflow_list", false));
    }

    #[test]
    fn g3_the_pin_goes_where_the_rule_says() {
        for spec in TABLE {
            let expected = match spec.cmd {
                "workflow_save" | "workflow_save_as" | "workflow_rename" | "workflow_close" => When::WithoutPath,
                cmd if cmd.starts_with("graph_") => When::Always,
                _ => When::Never,
            };
            assert_eq!(spec.pinned, expected, "{}", spec.cmd);
        }
    }

    #[test]
    fn g8_what_changes_the_instance_reports_it() {
        for cmd in ["workflow_open", "workflow_new", "workflow_save", "workflow_save_as", "workflow_rename"] {
            assert!(by_cmd(cmd).is_some_and(|spec| spec.reports_identity), "{cmd}");
        }
    }

    #[test]
    fn g11_only_what_changes_nothing_is_sent_again() {
        for spec in TABLE {
            assert_eq!(spec.retry == Retry::Resend, spec.read_only(), "{}", spec.cmd);
        }
    }
}
