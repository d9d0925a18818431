//! How a script is written down. Data only: what a step means is decided in [`super::stage`] and its neighbours.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// A whole script: who is there, what happens, what must be seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// What goes wrong when the rules are broken, in a sentence or two.
    pub about: String,
    /// Rules that it shows, such as `T4`.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Why it cannot run against a daemon and an agent in processes of their own. Absent: it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub native_only: Option<String>,
    /// Configured agents, the default first.
    #[serde(default = "one_agent")]
    pub agents: Vec<String>,
    /// Bounds that differ from [`Bounds::default`].
    #[serde(default)]
    pub limits: Bounds,
    /// Browser tabs by name.
    pub panels: BTreeMap<String, PanelSpec>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

fn one_agent() -> Vec<String> {
    vec!["claude".to_owned()]
}

/// Deadlines in milliseconds, short so that a real clock can run them too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Bounds {
    /// From a socket's opening to its hello.
    pub hello: u64,
    /// How long a call waits for its tab.
    pub reconnect: u64,
    /// How long a command may take.
    pub command: u64,
    /// How long a question holds its call.
    pub ask: u64,
    /// Messages that may wait.
    pub backlog: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { hello: 5_000, reconnect: 20_000, command: 20_000, ask: 60_000, backlog: 100 }
    }
}

/// What stands behind a tab's socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dialect {
    /// The panel's machine, as it ships.
    #[default]
    Panel,
    /// A client of the older dialect: its `tab_id` is the route and changes with the workflow.
    Legacy,
    /// Says hello in dialect 1 and then only what the script says. `$NAME.rid` is the command that came last.
    Raw,
}

/// One browser tab.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PanelSpec {
    /// What stands behind its socket.
    pub dialect: Dialect,
    /// What the browser tab says of itself. Default: its name in the script.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The conversation that its hello asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Open workflows; the first is in front.
    pub open: Vec<WorkflowSpec>,
    /// Saved workflows that are not open.
    pub files: Vec<WorkflowSpec>,
    /// Instances that the canvas makes next, in this order.
    pub spare: Vec<String>,
    /// Legacy: an old build that does not check the stamp at the write.
    pub unfenced: bool,
    /// A client without a canvas.
    pub headless: bool,
}

/// One workflow.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct WorkflowSpec {
    /// Its instance.
    pub uuid: String,
    /// Where it is saved. Absent: it never was, and its handle is `tmp:` with its instance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What the person sees. Default: from the path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Nodes by id.
    pub nodes: BTreeMap<String, NodeSpec>,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct NodeSpec {
    /// Its type.
    pub class_type: String,
    /// Its title.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Its widgets.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub widgets: Map<String, Value>,
    /// What feeds its inputs: `[node, output]`.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub inputs: Map<String, Value>,
}

/// Where a panel holds back what it does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hold {
    /// Commands that come: the network has them, the panel does not.
    Arrival,
    /// Writes that were admitted, before the last check.
    Write,
    /// Replies: the canvas is changed, the daemon does not know.
    Reply,
}

/// How a call must have ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Ended {
    /// With a result that has at least this.
    Ok(Value),
    /// With this refusal code.
    Refused(String),
    /// With a refusal that has at least this.
    RefusedWith(Value),
    /// Not yet.
    Pending,
}

/// One thing that happens or must be seen. Texts that begin with `$` name what was seen before: `$T1.tab` (the daemon's
/// name of a tab), `$T1.rid`, `$T1.ask`, `$T1.prompt` (the last command, question or queued run there), and `$c1.token`
/// (a field of how call `c1` ended; dots go deeper).
///
/// Patterns match in part: an object by the fields that it has, a list by elements that come in this order, a text that
/// begins with `~` by what it contains, `null` by what is absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
pub enum Step {
    /// Words for the reader.
    Note(String),

    /// The tab connects, or comes back.
    Connect {
        /// Which.
        panel: String,
    },
    /// The page is loaded anew, with another identity if one is given, on the same canvas; then it connects.
    Reload {
        /// Which.
        panel: String,
        /// What it says of itself from now on.
        #[serde(default)]
        identity: Option<String>,
        /// The conversation that its hello asks for from now on.
        #[serde(default)]
        backend: Option<String>,
    },
    /// The connection is cut.
    Drop {
        /// Whose.
        panel: String,
    },
    /// The person sends a message.
    Say {
        /// Where.
        panel: String,
        /// Its id.
        mid: String,
        /// The text.
        text: String,
        /// The instance that it was composed for, where that is not the one in front.
        #[serde(default)]
        composed_for: Option<String>,
    },
    /// The person presses Send now: the turn is interrupted, what it had goes back to the queue.
    SendNow {
        /// Where.
        panel: String,
    },
    /// The person presses Stop.
    Stop {
        /// Where.
        panel: String,
    },
    /// The person takes a message back.
    Cancel {
        /// Where.
        panel: String,
        /// Which.
        mid: String,
    },
    /// The person starts a new chat.
    NewChat {
        /// Where.
        panel: String,
    },
    /// The person chooses another agent.
    SetBackend {
        /// Where.
        panel: String,
        /// Which.
        backend: String,
    },
    /// The person uses the target picker. Without a path: the workflow in front.
    PickTarget {
        /// Where.
        panel: String,
        /// What to pin.
        #[serde(default)]
        path: Option<String>,
    },
    /// The person answers the newest open question.
    Answer {
        /// Where.
        panel: String,
        /// The answer.
        result: Value,
    },
    /// A frame as it stands.
    Frame {
        /// From where.
        panel: String,
        /// The frame: an object, or a text that is sent as it is.
        frame: Value,
    },

    /// The person brings an open workflow to the front.
    Show {
        /// Where.
        panel: String,
        /// Its instance.
        workflow: String,
    },
    /// The person opens or makes a workflow, which is then in front.
    Create {
        /// Where.
        panel: String,
        /// What.
        workflow: WorkflowSpec,
    },
    /// The person renames a workflow, or saves it for the first time.
    Rename {
        /// Where.
        panel: String,
        /// Its instance.
        workflow: String,
        /// Its new path.
        path: String,
    },
    /// The person puts another graph into a workflow: its content changes, it stays the same instance.
    Load {
        /// Where.
        panel: String,
        /// Its instance.
        workflow: String,
        /// The graph.
        nodes: BTreeMap<String, NodeSpec>,
    },
    /// What is in front cannot be told for now.
    Unreadable {
        /// Where.
        panel: String,
    },
    /// A run ends at ComfyUI.
    RunEnds {
        /// Where it is heard.
        panel: String,
        /// Which.
        prompt: String,
        /// `success`, `error` or `interrupted`.
        status: String,
    },

    /// The panel holds back from now on.
    Hold {
        /// Which.
        panel: String,
        /// What.
        at: Hold,
    },
    /// What was held back goes on.
    Release {
        /// Where.
        panel: String,
    },
    /// What was held back is lost.
    Lose {
        /// Where.
        panel: String,
    },

    /// The agent calls a tool.
    Call {
        /// Whose agent.
        agent: String,
        /// A name for it.
        id: String,
        /// The tool.
        tool: String,
        /// Its arguments.
        #[serde(default)]
        with: Map<String, Value>,
    },
    /// The agent says something. It is certain to be in the log once the turn has ended.
    Speak {
        /// Whose agent.
        agent: String,
        /// The text.
        text: String,
    },
    /// The agent ends its turn.
    End {
        /// Whose agent.
        agent: String,
    },
    /// The agent's turn fails.
    Fail {
        /// Whose agent.
        agent: String,
        /// Why.
        message: String,
    },
    /// The agent takes messages that wait into its running turn.
    Merge {
        /// Whose agent.
        agent: String,
        /// Which.
        mids: Vec<String>,
    },
    /// The agent's next starts wait for [`Step::Ready`] or [`Step::StartFails`].
    SlowStart {
        /// Whose agent.
        agent: String,
    },
    /// A start that waits succeeds.
    Ready {
        /// Whose agent.
        agent: String,
    },
    /// A start that waits fails.
    StartFails {
        /// Whose agent.
        agent: String,
    },

    /// Time passes.
    Wait {
        /// Milliseconds.
        ms: u64,
    },
    /// The daemon is killed and starts again. Every socket is gone.
    Restart,

    /// What a panel has seen so far counts no longer.
    Forget {
        /// Which.
        panel: String,
    },
    /// A frame comes to a panel.
    Sees {
        /// Which.
        panel: String,
        /// The pattern.
        frame: Value,
        /// Exactly so often, once all is quiet. Absent: at least once.
        #[serde(default)]
        times: Option<usize>,
    },
    /// No such frame has come to a panel, once all is quiet.
    Never {
        /// Which.
        panel: String,
        /// The pattern.
        frame: Value,
    },
    /// A call has ended so.
    Outcome {
        /// Its name.
        call: String,
        /// How.
        is: Ended,
    },
    /// A workflow on a canvas has at least this.
    Canvas {
        /// Where.
        panel: String,
        /// Its instance.
        workflow: String,
        /// The pattern for its nodes by id; `null`: no such node.
        #[serde(default)]
        nodes: Map<String, Value>,
        /// How many nodes it has.
        #[serde(default)]
        count: Option<usize>,
        /// Where it is saved.
        #[serde(default)]
        path: Option<String>,
        /// Whether it is in front.
        #[serde(default)]
        front: Option<bool>,
    },
    /// The agent was prompted with a text that contains all of these, and nothing of those.
    Prompted {
        /// Whose agent.
        agent: String,
        /// Which prompt, from 1; absent: the last one.
        #[serde(default)]
        nth: Option<usize>,
        /// What it contains.
        has: Vec<String>,
        /// What it does not contain.
        #[serde(default)]
        lacks: Vec<String>,
    },
    /// What happened to an agent since the script began, once all is quiet. Absent: not asked.
    Counts {
        /// Whose agent.
        agent: String,
        /// Processes that were started.
        #[serde(default)]
        starts: Option<usize>,
        /// Processes that were stopped.
        #[serde(default)]
        stops: Option<usize>,
        /// Prompts that it was given.
        #[serde(default)]
        prompts: Option<usize>,
        /// Turns that were interrupted.
        #[serde(default)]
        interrupts: Option<usize>,
    },
    /// Whether a tab is connected.
    Connected {
        /// Which.
        panel: String,
        /// It is.
        is: bool,
    },
}
