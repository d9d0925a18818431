//! The rows of the table.

use super::{Deadline, Effect, Kind, Param, Retry, Site, Spec, When};

/// Words for agents. The panel in the browser says none of them, and need not load them.
const fn told(doc: &'static str) -> &'static str {
    if cfg!(target_arch = "wasm32") { "" } else { doc }
}

const fn need(name: &'static str, kind: Kind, doc: &'static str) -> Param {
    Param { name, kind, required: true, doc: told(doc) }
}

const fn may(name: &'static str, kind: Kind, doc: &'static str) -> Param {
    Param { name, kind, required: false, doc: told(doc) }
}

const fn row(
    cmd: &'static str,
    tool: Option<&'static str>,
    effect: Effect,
    params: &'static [Param],
    doc: &'static str,
) -> Spec {
    let canvas = matches!(effect, Effect::View | Effect::Write);
    let changes_nothing = matches!(effect, Effect::Query | Effect::View);
    Spec {
        cmd,
        tool,
        effect,
        pinned: if canvas { When::Always } else { When::Never },
        fenced: if canvas { When::Always } else { When::Never },
        reports_identity: false,
        moves_target: false,
        deadline: Deadline::Usual,
        retry: if changes_nothing { Retry::Resend } else { Retry::Token },
        site: Site::Panel,
        params,
        doc: told(doc),
    }
}

/// Opens, makes or re-files a workflow: the reply says which instance is then in front.
const fn filing(spec: Spec, pinned: When, fenced: When, moves_target: bool) -> Spec {
    Spec { pinned, fenced, reports_identity: true, moves_target, deadline: Deadline::Times(2), ..spec }
}

const fn slow(spec: Spec, times: u64) -> Spec {
    Spec { deadline: Deadline::Times(times), ..spec }
}

const fn at(spec: Spec, site: Site) -> Spec {
    Spec { site, ..spec }
}

const NODE: Param = need("node_id", Kind::NodeId, "Id of the node.");
const POS: Param = may("pos", Kind::Pair, "Where its upper left corner goes, [x, y]. Default: a free place.");
const TAB: Param = may("tab", Kind::Text, "Which browser tab, as panel_list_workflows names it. Default: this turn's.");
const RETRY_OF: Param =
    may("retry_of", Kind::Text, "Token of an earlier call with unknown outcome: it is answered, never applied twice.");

/// Every command there is.
pub const TABLE: &[Spec] = &[
    at(
        row(
            "workflow_list",
            Some("panel_list_workflows"),
            Effect::Query,
            &[TAB],
            "Lists the open workflows of every ComfyUI tab of this conversation: handle, path, title, which is in front, \
             which has unsaved changes, and which one this turn acts on. Works always.",
        ),
        Site::EveryPanel,
    ),
    filing(
        row(
            "workflow_open",
            Some("panel_open_workflow"),
            Effect::Navigate,
            &[need("path", Kind::Text, "Path, file name, title or handle of the workflow."), TAB],
            "Brings a workflow to the front, opening it from its file if need be. This turn then acts on it.",
        ),
        When::Never,
        When::Never,
        true,
    ),
    filing(
        row(
            "workflow_new",
            Some("panel_new_workflow"),
            Effect::Navigate,
            &[TAB],
            "Makes a new, empty workflow in a tab of its own and brings it to the front. This turn then acts on it.",
        ),
        When::Never,
        When::Never,
        true,
    ),
    filing(
        row(
            "workflow_save",
            Some("panel_save_workflow"),
            Effect::Write,
            &[may("name", Kind::Text, "A name for a first save, or to save a copy under."), RETRY_OF],
            "Saves the workflow. With a name: saves it under that name (a first save, or save as).",
        ),
        When::WithoutPath,
        When::Always,
        true,
    ),
    filing(
        row(
            "workflow_save_as",
            None,
            Effect::Write,
            &[need("name", Kind::Text, "The new name or path."), RETRY_OF],
            "Saves the workflow as another file.",
        ),
        When::WithoutPath,
        When::Always,
        true,
    ),
    filing(
        row(
            "workflow_rename",
            Some("panel_rename_workflow"),
            Effect::Write,
            &[
                need("name", Kind::Text, "The new name."),
                may("path", Kind::Text, "Which open workflow. Default: the one in front."),
                RETRY_OF,
            ],
            "Renames a workflow and its file.",
        ),
        When::WithoutPath,
        When::WithoutPath,
        false,
    ),
    filing(
        row(
            "workflow_close",
            Some("panel_close_workflow"),
            Effect::Write,
            &[
                may("path", Kind::Text, "Which open workflow. Default: the one in front."),
                may("force", Kind::Flag, "Close it although it has unsaved changes. Ask the person first."),
                RETRY_OF,
            ],
            "Closes a workflow. One with unsaved changes is refused unless forced.",
        ),
        When::WithoutPath,
        When::WithoutPath,
        false,
    ),
    at(
        row(
            "workflow_target_get",
            Some("panel_get_workflow_target"),
            Effect::Query,
            &[],
            "Tells which tab and workflow this turn acts on, and whether a workflow is pinned.",
        ),
        Site::Daemon,
    ),
    at(
        row(
            "conversation_search",
            Some("panel_search_conversation"),
            Effect::Query,
            &[need("words", Kind::Text, "Rows that have every one of these words are told, the newest first.")],
            "Looks for words in all that was said in this conversation, also before your session and before new chats.",
        ),
        Site::Daemon,
    ),
    Spec {
        retry: Retry::Token,
        ..at(
            row(
                "workflow_target_set",
                Some("panel_set_workflow_target"),
                Effect::Navigate,
                &[
                    need(
                        "mode",
                        Kind::OneOf(&["current", "pinned"]),
                        "current: act on the workflow that is in front now. pinned: act on one workflow only, and refuse \
                         calls while another is in front.",
                    ),
                    may("path", Kind::Text, "With pinned: path, file name, title or handle. It must be in front."),
                    TAB,
                ],
                "Sets which workflow this turn and the next ones act on. Repairs a workflow mismatch.",
            ),
            Site::Daemon,
        )
    },
    row(
        "graph_outline",
        Some("panel_graph_outline"),
        Effect::View,
        &[may("max_chars", Kind::Count(200, 60_000), "Most characters to return. Default 24000.")],
        "Shows the graph in front as compact text: nodes with ids, types, widget values and links.",
    ),
    row(
        "graph_query",
        Some("panel_query_graph"),
        Effect::View,
        &[
            may("types", Kind::Texts, "Only these node types."),
            may("ids", Kind::NodeIds, "Only these nodes."),
            may("title", Kind::Text, "Only nodes whose title contains this."),
            may("where", Kind::Texts, "Conditions on widgets, such as `steps>20` or `sampler_name=euler`."),
            may("upstream_of", Kind::NodeId, "Only what feeds this node."),
            may("downstream_of", Kind::NodeId, "Only what this node feeds."),
            may("depth", Kind::Count(1, 100), "How many links to follow."),
            may("fields", Kind::OneOf(&["ids", "compact", "detail"]), "How much of each node. Default compact."),
            may("limit", Kind::Count(1, 500), "Most nodes to return. Default 50."),
        ],
        "Finds nodes of the graph in front.",
    ),
    row(
        "graph_get_errors",
        Some("panel_get_errors"),
        Effect::View,
        &[],
        "Lists what is wrong with the graph in front: missing node types, unconnected required inputs, errors of the \
         last run.",
    ),
    slow(
        row(
            "graph_screenshot",
            Some("panel_screenshot"),
            Effect::View,
            &[may("padding", Kind::Count(0, 500), "Space around the nodes, in canvas units.")],
            "Takes a picture of the graph in front.",
        ),
        3,
    ),
    row(
        "graph_add_node",
        Some("panel_add_node"),
        Effect::Write,
        &[
            need("class_type", Kind::Text, "Node type, such as KSampler. See panel_search_nodes."),
            POS,
            may("title", Kind::Text, "A title for it."),
            RETRY_OF,
        ],
        "Adds a node and returns its id, inputs, outputs and widgets.",
    ),
    row(
        "graph_remove_node",
        Some("panel_remove_node"),
        Effect::Write,
        &[NODE, RETRY_OF],
        "Removes a node and its links.",
    ),
    row(
        "graph_connect",
        Some("panel_connect"),
        Effect::Write,
        &[
            need("from_node_id", Kind::NodeId, "Node whose output is used."),
            need("from_output", Kind::Slot, "Output name, or index from 0."),
            need("to_node_id", Kind::NodeId, "Node whose input is fed."),
            need("to_input", Kind::Slot, "Input name, or index from 0."),
            RETRY_OF,
        ],
        "Links an output to an input, replacing what fed that input.",
    ),
    row(
        "graph_disconnect",
        Some("panel_disconnect"),
        Effect::Write,
        &[NODE, may("input", Kind::Slot, "Which input. Default: all of the node's inputs."), RETRY_OF],
        "Removes links into a node.",
    ),
    row(
        "graph_set_widget",
        Some("panel_set_widget"),
        Effect::Write,
        &[
            NODE,
            need("widget", Kind::Text, "Name of the widget, such as steps."),
            need("value", Kind::Any, "The new value."),
            RETRY_OF,
        ],
        "Sets a widget of a node and returns the value before.",
    ),
    row(
        "graph_edit_node",
        Some("panel_edit_node"),
        Effect::Write,
        &[
            NODE,
            may("title", Kind::Text, "New title."),
            may("pos", Kind::Pair, "New place, [x, y]."),
            may("size", Kind::Pair, "New size, [width, height]."),
            may("mode", Kind::OneOf(&["always", "never", "bypass"]), "Run it, mute it, or bypass it."),
            may("collapsed", Kind::Flag, "Fold it."),
            may("color", Kind::Text, "Title colour, such as #223."),
            may("bgcolor", Kind::Text, "Body colour."),
            RETRY_OF,
        ],
        "Changes a node's title, place, size, mode or looks.",
    ),
    slow(
        row(
            "graph_run",
            Some("panel_run"),
            Effect::Write,
            &[may("batch_count", Kind::Count(1, 100), "How many times. Default 1."), RETRY_OF],
            "Queues the workflow in front and returns the prompt id at once. You are told when it has finished; do not wait \
             for it.",
        ),
        2,
    ),
    at(
        row(
            "run_status",
            Some("panel_run_status"),
            Effect::Query,
            &[may(
                "prompt_id",
                Kind::Text,
                "Which run. Default: every run of this conversation that has not ended, and the last ones that have.",
            )],
            "Tells how runs stand: queued, running, done with their outputs, failed, interrupted, or unknown. You are told \
             by yourself when a run ends; do not ask over and over.",
        ),
        Site::Daemon,
    ),
    at(
        row(
            "nodes_install",
            Some("panel_install_node"),
            Effect::Query,
            &[
                need("id", Kind::Text, "Name in the node registry, or author/repository."),
                may("version", Kind::Text, "A version, `latest` or `nightly`. Default: latest."),
                may("repository", Kind::Text, "Address of its repository; needed for `nightly`."),
            ],
            "Has ComfyUI-Manager install a node pack. You get a job id at once and are told when it has ended.",
        ),
        Site::Daemon,
    ),
    at(
        row(
            "model_install",
            Some("panel_install_model"),
            Effect::Query,
            &[
                need(
                    "url",
                    Kind::Text,
                    "Where to download it from. The Manager takes only what its list or settings allow.",
                ),
                need("filename", Kind::Text, "How the file is called then."),
                need("type", Kind::Text, "What it is, such as checkpoint, lora, vae, controlnet, upscale."),
                may("name", Kind::Text, "For people. Default: the file's name."),
                may("folder", Kind::Text, "Folder below models. Default: that of its type."),
                may("base", Kind::Text, "What it goes with, such as SDXL or FLUX.1."),
            ],
            "Has ComfyUI-Manager download a model. You get a job id at once and are told when it has ended.",
        ),
        Site::Daemon,
    ),
    at(
        row(
            "job_status",
            Some("panel_job_status"),
            Effect::Query,
            &[may(
                "job_id",
                Kind::Text,
                "Which job. Default: every one of this conversation that has not ended, and the last \
                 ones that have.",
            )],
            "Tells how installations stand: queued, running, done, failed, or unknown. You are told by yourself when one ends.",
        ),
        Site::Daemon,
    ),
    row(
        "nodes_search",
        Some("panel_search_nodes"),
        Effect::Query,
        &[
            need("query", Kind::Text, "Words to look for in names, titles and categories."),
            may("limit", Kind::Count(1, 100), "Most results. Default 20."),
        ],
        "Finds installed node types with their inputs and outputs.",
    ),
    Spec {
        deadline: Deadline::Person,
        ..row(
            "ask_user",
            Some("panel_ask"),
            Effect::Ask,
            &[
                need("question", Kind::Text, "The question."),
                need("options", Kind::Choices, "Two or more choices."),
                may("header", Kind::Text, "A short heading."),
                may("multi_select", Kind::Flag, "Several may be chosen."),
            ],
            "Shows the person a question with choices and waits for the answer. If none comes in time, it arrives later as \
             a message.",
        )
    },
    row(
        "set_todo",
        Some("panel_set_todo"),
        Effect::Ask,
        &[need("items", Kind::Items, "The whole list, in order.")],
        "Shows the person your plan as a list with states. Give the whole list each time.",
    ),
];
