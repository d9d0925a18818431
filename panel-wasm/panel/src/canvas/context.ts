// What every executor is given, and the one way to change a graph. Knows the fence only as a function that may throw.
import type { Args } from './args'
import type { Frontend, Graph, GraphNode } from './comfy'
import type { Identities } from './identity'
import { listed, suggestion } from './names'
import { CommandError, type CanvasIdentity, type JsonObject, type JsonValue } from './types'

/** What an executor works with. */
export interface Context {
  frontend: Frontend
  identities: Identities
  /** Throws when the write is no longer allowed. Called after every wait and immediately before each change. */
  recheck: () => void
}

/** One command. */
export type Executor = (context: Context, args: Args) => Promise<JsonValue> | JsonValue

/** An identity as part of a result. */
export function identityFields(identity: CanvasIdentity | null): JsonObject {
  return identity ? { ...identity } : {}
}

/** The node's id as the frontend shows it: a number where it is one. */
export function shownId(id: number | string): number | string {
  return typeof id === 'string' && /^\d{1,15}$/.test(id) ? Number(id) : id
}

/** A node, or undefined. Ids are compared as text, because frontends differ in how they keep them. */
export function findNode(graph: Graph, id: string): GraphNode | undefined {
  return graph.nodes.find((node) => String(node.id) === id)
}

/**
 * A node of the shown graph.
 * @throws CommandError `unknown_node`
 */
export function needNode(graph: Graph, id: string): GraphNode {
  const node = findNode(graph, id)
  if (node) return node
  const known = graph.nodes.map((entry) => `#${entry.id} ${entry.type}`)
  throw new CommandError('unknown_node', `there is no node ${id} in the graph in front; its nodes are ${listed(known)}`)
}

/** Names the valid slots of one side, for a refusal. */
export function slotError(code: 'unknown_input' | 'unknown_output', node: GraphNode, asked: string | number): CommandError {
  const slots = (code === 'unknown_input' ? node.inputs : node.outputs) ?? []
  const names = slots.map((slot, index) => `${index} ${slot.name} (${slot.type})`)
  const side = code === 'unknown_input' ? 'input' : 'output'
  const hint = typeof asked === 'string' ? suggestion(asked, slots.map((slot) => slot.name)) : ''
  return new CommandError(code, `#${node.id} ${node.type} has no ${side} ${asked}; its ${side}s are ${listed(names)}.${hint}`)
}

/**
 * Changes the shown graph as one step of the frontend's undo, without any wait between the last check and the change.
 * Pending edits of the person are captured first, so that they stay a step of their own.
 */
export function edit<T>(context: Context, change: (graph: Graph) => T): T {
  const { frontend, identities, recheck } = context
  recheck()
  const workflow = identities.workflow()
  if (!workflow) throw new CommandError('unreadable', 'which workflow is in front cannot be told just now; try again once it has loaded')
  frontend.capture(workflow)
  const graph = frontend.shownGraph()
  recheck()
  try {
    return change(graph)
  } catch (error) {
    if (error instanceof CommandError) throw error
    throw new CommandError('failed', `the frontend refused the change: ${error instanceof Error ? error.message : String(error)}`)
  } finally {
    graph.setDirtyCanvas(true, true)
    frontend.capture(workflow)
  }
}
