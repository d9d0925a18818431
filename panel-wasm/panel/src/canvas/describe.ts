// Describes nodes and links as compact JSON. Changes nothing.
import { inputLink, type Frontend, type Graph, type GraphNode } from './comfy'
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
export type Feed = { edge: Edge } | { outside: true } | null

function feed(node: GraphNode, input: number, find: (id: string) => GraphNode | undefined): Feed {
  const link = inputLink(node, input)
  if (!link) return null
  const from = find(String(link.origin_id))
  return from ? { edge: { from, output: link.origin_slot, to: node, input } } : { outside: true }
}

/** What feeds one input now. For many inputs, take a `Wiring`. */
export function feeding(graph: Graph, node: GraphNode, input: number): Feed {
  return feed(node, input, (id) => findNode(graph, id))
}

/** The links of a graph at one moment, indexed so that reading a large graph stays linear. */
export class Wiring {
  /** Every link between nodes. */
  readonly edges: Edge[] = []
  private readonly feeds = new Map<GraphNode, Feed[]>()
  private readonly outgoing = new Map<GraphNode, Edge[]>()

  constructor(graph: Graph) {
    const byId = new Map(graph.nodes.map((node) => [String(node.id), node]))
    for (const node of graph.nodes) {
      const feeds = (node.inputs ?? []).map((_, input) => feed(node, input, (id) => byId.get(id)))
      this.feeds.set(node, feeds)
      for (const fed of feeds) {
        if (!fed || !('edge' in fed)) continue
        this.edges.push(fed.edge)
        const list = this.outgoing.get(fed.edge.from)
        if (list) list.push(fed.edge)
        else this.outgoing.set(fed.edge.from, [fed.edge])
      }
    }
  }

  /** What feeds an input. */
  feeding(node: GraphNode, input: number): Feed {
    return this.feeds.get(node)?.[input] ?? null
  }

  /** The links into a node. */
  into(node: GraphNode): Edge[] {
    return (this.feeds.get(node) ?? []).flatMap((fed) => (fed && 'edge' in fed ? [fed.edge] : []))
  }

  /** The links out of a node. */
  outOf(node: GraphNode): Edge[] {
    return this.outgoing.get(node) ?? []
  }
}

function outputName(node: GraphNode, output: number): string {
  return node.outputs?.[output]?.name ?? String(output)
}

/** The inputs of a node; sockets of widgets only when linked. */
export function describeInputs(wiring: Wiring, node: GraphNode): JsonValue[] {
  return (node.inputs ?? []).flatMap((slot, input) => {
    const fed = wiring.feeding(node, input)
    if (slot.widget && !fed) return []
    const from: JsonObject = !fed ? {} : 'edge' in fed ? { from_node_id: shownId(fed.edge.from.id), from_output: outputName(fed.edge.from, fed.edge.output) } : { from_subgraph_input: true }
    return [{ name: slot.name, index: input, type: String(slot.type), ...from }]
  })
}

/** The outputs of a node, with what they feed. */
export function describeOutputs(wiring: Wiring, node: GraphNode): JsonValue[] {
  return (node.outputs ?? []).map((slot, output) => {
    const to = wiring.outOf(node).filter((link) => link.output === output)
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
export function detailed(frontend: Frontend, wiring: Wiring, node: GraphNode): JsonObject {
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
    inputs: describeInputs(wiring, node),
    outputs: describeOutputs(wiring, node),
    widgets,
  }
}

/** Which graph the person sees, when it is not the root. */
export function viewing(frontend: Frontend): JsonObject {
  return frontend.inSubgraph() ? { viewing: { scope: 'subgraph', graph_id: frontend.shownGraph().id } } : {}
}
