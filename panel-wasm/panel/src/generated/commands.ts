// Generated from routing-core by `cargo xtask types`. Not to be edited.

/** What a command does. */
export type Effect = 'query' | 'view' | 'write' | 'navigate' | 'server' | 'ask'

/** A node id: a number, or a text such as `4:7` inside a subgraph. */
export type NodeId = number | string

/** Arguments of each command that a panel carries out, beside the stamp and the pin. */
export interface CommandArgs {
  /** Lists the open workflows of every ComfyUI tab of this conversation: handle, path, title, which is in front, which has unsaved changes, and which one this turn acts on. Works always. */
  workflow_list: {
  }
  /** Brings a workflow to the front, opening it from its file if need be. This turn then acts on it. */
  workflow_open: {
    /** Path, file name, title or handle of the workflow. */
    path: string
  }
  /** Makes a new, empty workflow in a tab of its own and brings it to the front. This turn then acts on it. */
  workflow_new: {
  }
  /** Saves the workflow. With a name: saves it under that name (a first save, or save as). */
  workflow_save: {
    /** A name for a first save, or to save a copy under. */
    name?: string
  }
  /** Saves the workflow as another file. */
  workflow_save_as: {
    /** The new name or path. */
    name: string
  }
  /** Renames a workflow and its file. */
  workflow_rename: {
    /** The new name. */
    name: string
    /** Which open workflow. Default: the one in front. */
    path?: string
  }
  /** Closes a workflow. One with unsaved changes is refused unless forced. */
  workflow_close: {
    /** Which open workflow. Default: the one in front. */
    path?: string
    /** Close it although it has unsaved changes. Ask the person first. */
    force?: boolean
  }
  /** Shows the graph in front as compact text: nodes with ids, types, widget values and links. */
  graph_outline: {
    /** Most characters to return. Default 24000. */
    max_chars?: number
  }
  /** Finds nodes of the graph in front. */
  graph_query: {
    /** Only these node types. */
    types?: string[]
    /** Only these nodes. */
    ids?: NodeId[]
    /** Only nodes whose title contains this. */
    title?: string
    /** Conditions on widgets, such as `steps>20` or `sampler_name=euler`. */
    where?: string[]
    /** Only what feeds this node. */
    upstream_of?: NodeId
    /** Only what this node feeds. */
    downstream_of?: NodeId
    /** How many links to follow. */
    depth?: number
    /** How much of each node. Default compact. */
    fields?: 'ids' | 'compact' | 'detail'
    /** Most nodes to return. Default 50. */
    limit?: number
  }
  /** Lists what is wrong with the graph in front: missing node types, unconnected required inputs, errors of the last run. */
  graph_get_errors: {
  }
  /** Takes a picture of the graph in front. */
  graph_screenshot: {
    /** Space around the nodes, in canvas units. */
    padding?: number
  }
  /** Adds a node and returns its id, inputs, outputs and widgets. */
  graph_add_node: {
    /** Node type, such as KSampler. See panel_search_nodes. */
    class_type: string
    /** Where its upper left corner goes, [x, y]. Default: a free place. */
    pos?: [number, number]
    /** A title for it. */
    title?: string
  }
  /** Removes a node and its links. */
  graph_remove_node: {
    /** Id of the node. */
    node_id: NodeId
  }
  /** Links an output to an input, replacing what fed that input. */
  graph_connect: {
    /** Node whose output is used. */
    from_node_id: NodeId
    /** Output name, or index from 0. */
    from_output: number | string
    /** Node whose input is fed. */
    to_node_id: NodeId
    /** Input name, or index from 0. */
    to_input: number | string
  }
  /** Removes links into a node. */
  graph_disconnect: {
    /** Id of the node. */
    node_id: NodeId
    /** Which input. Default: all of the node's inputs. */
    input?: number | string
  }
  /** Sets a widget of a node and returns the value before. */
  graph_set_widget: {
    /** Id of the node. */
    node_id: NodeId
    /** Name of the widget, such as steps. */
    widget: string
    /** The new value. */
    value: unknown
  }
  /** Changes a node's title, place, size, mode or looks. */
  graph_edit_node: {
    /** Id of the node. */
    node_id: NodeId
    /** New title. */
    title?: string
    /** New place, [x, y]. */
    pos?: [number, number]
    /** New size, [width, height]. */
    size?: [number, number]
    /** Run it, mute it, or bypass it. */
    mode?: 'always' | 'never' | 'bypass'
    /** Fold it. */
    collapsed?: boolean
    /** Title colour, such as #223. */
    color?: string
    /** Body colour. */
    bgcolor?: string
  }
  /** Queues the workflow in front and returns the prompt id at once. You are told when it has finished; do not wait for it. */
  graph_run: {
    /** How many times. Default 1. */
    batch_count?: number
  }
  /** Finds installed node types with their inputs and outputs. */
  nodes_search: {
    /** Words to look for in names, titles and categories. */
    query: string
    /** Most results. Default 20. */
    limit?: number
  }
  /** Shows the person a question with choices and waits for the answer. If none comes in time, it arrives later as a message. */
  ask_user: {
    /** The question. */
    question: string
    /** Two or more choices. */
    options: (string | { label: string; description?: string })[]
    /** A short heading. */
    header?: string
    /** Several may be chosen. */
    multi_select?: boolean
  }
  /** Shows the person your plan as a list with states. Give the whole list each time. */
  set_todo: {
    /** The whole list, in order. */
    items: { text: string; status: 'pending' | 'active' | 'done' }[]
  }
}

/** A command that a panel carries out. */
export type CommandName = keyof CommandArgs

/** What each command does. */
export const EFFECTS: Record<CommandName, Effect> = {
  workflow_list: 'query',
  workflow_open: 'navigate',
  workflow_new: 'navigate',
  workflow_save: 'write',
  workflow_save_as: 'write',
  workflow_rename: 'write',
  workflow_close: 'write',
  graph_outline: 'view',
  graph_query: 'view',
  graph_get_errors: 'view',
  graph_screenshot: 'view',
  graph_add_node: 'write',
  graph_remove_node: 'write',
  graph_connect: 'write',
  graph_disconnect: 'write',
  graph_set_widget: 'write',
  graph_edit_node: 'write',
  graph_run: 'write',
  nodes_search: 'query',
  ask_user: 'ask',
  set_todo: 'ask',
}
