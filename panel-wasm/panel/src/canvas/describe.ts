// Describes nodes and links as compact JSON. Changes nothing.
import type { Frontend, Graph, GraphNode } from './comfy'
import { findNode, shownId } from './context'
import type { JsonObject, JsonValue } from './types'
import { asJson, choices, valueWidgets, widgetValues } from './widgets'

const MODES: Record<number, string> = { 0: 'always', 1: 'on_event', 2: 'never', 3: 'on_trigger', 4: 'bypass' }

/** The frontend's numbers of the modes a command may set. */
export const MODE_NUMBERS = { always: 0, never: 2, bypass: 4 } as const

/** A mode by name. */
export function modeName(mode: number): string {
  return MODES[mode] ?? String(mode)
}

/** One link, between nodes of one graph. */
export interface Edge {
  from: GraphNode
  output: number
  to: GraphNode
  input: number
}

/** What feeds an input: a node's output, or a slot of the enclosing subgraph. */
export function feeding(graph: Graph, node: GraphNode, input: number): { edge: Edge } | { outside: true } | null {
  const link = node.getInputLink(input)
  if (!link) return null
  const from = findNode(graph, String(link.origin_id))
  return from ? { edge: { from, output: link.origin_slot, to: node, input } } : { outside: true }
}

/** Every link between nodes of a graph. */
export function edges(graph: Graph): Edge[] {
  return graph.nodes.flatMap((node) =>
    (node.inputs ?? []).flatMap((_, input) => {
      const fed = feeding(graph, node, input)
      return fed && 'edge' in fed ? [fed.edge] : []
    }),
  )
}

function outputName(node: GraphNode, output: number): string {
  return node.outputs?.[output]?.name ?? String(output)
}

/** Whether an input is only the socket of a widget and carries no link. */
function isIdleWidgetSocket(graph: Graph, node: GraphNode, input: number): boolean {
  return node.inputs?.[input]?.widget !== undefined && feeding(graph, node, input) === null
}

/** The inputs of a node; sockets of widgets only when linked. */
export function describeInputs(graph: Graph, node: GraphNode): JsonValue[] {
  return (node.inputs ?? []).flatMap((slot, input) => {
    if (isIdleWidgetSocket(graph, node, input)) return []
    const fed = feeding(graph, node, input)
    const from: JsonObject = !fed ? {} : 'edge' in fed ? { from_node_id: shownId(fed.edge.from.id), from_output: outputName(fed.edge.from, fed.edge.output) } : { from_subgraph_input: true }
    return [{ name: slot.name, index: input, type: String(slot.type), ...from }]
  })
}

/** The outputs of a node, with what they feed. */
export function describeOutputs(node: GraphNode, links: Edge[]): JsonValue[] {
  return (node.outputs ?? []).map((slot, output) => {
    const to = links.filter((link) => link.from === node && link.output === output)
    const fed = to.map((link): JsonValue => ({ node_id: shownId(link.to.id), input: link.to.inputs?.[link.input]?.name ?? link.input }))
    return { name: slot.name, index: output, type: String(slot.type), ...(fed.length > 0 ? { to: fed } : {}) }
  })
}

/** Position or size, without the noise of fractions. */
export function pair(value: { 0: number; 1: number }): [number, number] {
  return [Math.round(value[0] * 10) / 10, Math.round(value[1] * 10) / 10]
}

/** A node in a few fields. */
export function compact(node: GraphNode): JsonObject {
  return {
    id: shownId(node.id),
    type: node.type,
    ...(node.title !== node.type ? { title: node.title } : {}),
    ...(node.mode !== 0 ? { mode: modeName(node.mode) } : {}),
    ...(node.flags?.collapsed ? { collapsed: true } : {}),
    widgets: widgetValues(node),
  }
}

/** A node with its place, slots, links and the choices of its combos. */
export function detailed(frontend: Frontend, graph: Graph, node: GraphNode, links: Edge[]): JsonObject {
  const widgets = valueWidgets(node).map((widget): JsonValue => {
    const options = choices(node, widget)
    const { min, max } = widget.options ?? {}
    return {
      name: widget.name,
      type: widget.type,
      value: asJson(widget.value),
      ...(options ? { choices: options.slice(0, 60), ...(options.length > 60 ? { choices_in_all: options.length } : {}) } : {}),
      ...(!options && min !== undefined ? { min } : {}),
      ...(!options && max !== undefined ? { max } : {}),
    }
  })
  return {
    ...compact(node),
    title: node.title,
    mode: modeName(node.mode),
    pos: pair(node.pos),
    size: pair(node.size),
    ...(node.color ? { color: node.color } : {}),
    ...(node.bgcolor ? { bgcolor: node.bgcolor } : {}),
    ...(node.subgraph ? { is_subgraph: true } : {}),
    ...(frontend.hasNodeType(node.type) ? {} : { missing_type: true }),
    inputs: describeInputs(graph, node),
    outputs: describeOutputs(node, links),
    widgets,
  }
}

/** Which graph the person sees, when it is not the root. */
export function viewing(frontend: Frontend): JsonObject {
  return frontend.inSubgraph() ? { viewing: { scope: 'subgraph', graph_id: frontend.shownGraph().id } } : {}
}
