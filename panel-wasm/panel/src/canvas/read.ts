// The commands that read the graph in front. They change nothing.
import { asNodeId, mayCount, mayNodeIds, mayOneOf, mayText, mayTexts, type Args } from './args'
import type { Graph, GraphNode } from './comfy'
import { needNode, shownId, type Context } from './context'
import { compact, detailed, modeName, viewing, Wiring } from './describe'
import { CommandError, type JsonObject, type JsonValue } from './types'
import { choices, valueWidgets, widgetValues } from './widgets'

const LONGEST_VALUE = 80

function shortened(value: JsonValue): string {
  const text = JSON.stringify(value)
  return text.length > LONGEST_VALUE ? `${text.slice(0, LONGEST_VALUE)}…"` : text
}

/** Nodes so that what feeds comes before what is fed, as far as there are no circles. */
function inFlowOrder(graph: Graph, wiring: Wiring): GraphNode[] {
  const done = new Set<GraphNode>()
  const order: GraphNode[] = []
  const visit = (start: GraphNode): void => {
    const feeders = (node: GraphNode): GraphNode[] => wiring.into(node).map((link) => link.from)
    const stack = [{ node: start, left: feeders(start) }]
    done.add(start)
    while (stack.length > 0) {
      const top = stack[stack.length - 1]
      if (!top) break
      const next = top.left.shift()
      if (next === undefined) {
        order.push(top.node)
        stack.pop()
      } else if (!done.has(next)) {
        done.add(next)
        stack.push({ node: next, left: feeders(next) })
      }
    }
  }
  for (const node of graph.nodes) if (!done.has(node)) visit(node)
  return order
}

function outlineLine(wiring: Wiring, node: GraphNode): string {
  const parts = [`#${node.id} ${node.type}`]
  if (node.title !== node.type) parts.push(JSON.stringify(node.title))
  if (node.mode !== 0) parts.push(`[${modeName(node.mode)}]`)
  if (node.subgraph) parts.push('[subgraph]')
  const values = Object.entries(widgetValues(node)).map(([name, value]) => `${name}=${shortened(value)}`)
  if (values.length > 0) parts.push(values.join(' '))
  const inputs = (node.inputs ?? []).flatMap((slot, input) => {
    const fed = wiring.feeding(node, input)
    if (!fed) return slot.widget ? [] : [`${slot.name}<-nothing`]
    if (!('edge' in fed)) return [`${slot.name}<-subgraph input`]
    return [`${slot.name}<-#${fed.edge.from.id}.${fed.edge.from.outputs?.[fed.edge.output]?.name ?? fed.edge.output}`]
  })
  return inputs.length > 0 ? `${parts.join(' ')} | ${inputs.join(' ')}` : parts.join(' ')
}

/** `graph_outline` */
export function outline(context: Context, args: Args): JsonValue {
  const most = mayCount(args, 'max_chars', 200, 60_000) ?? 24_000
  const { frontend, identities } = context
  const graph = frontend.shownGraph()
  const wiring = new Wiring(graph)
  const nodes = inFlowOrder(graph, wiring)
  const lines: string[] = []
  let length = 0
  for (const node of nodes) {
    const line = outlineLine(wiring, node)
    if (length + line.length + 1 > most) break
    lines.push(line)
    length += line.length + 1
  }
  const left = nodes.length - lines.length
  if (left > 0) lines.push(`… ${left} more nodes; read them with graph_query`)
  return {
    title: identities.workflow()?.filename ?? '',
    node_count: nodes.length,
    truncated: left > 0,
    outline: nodes.length === 0 ? '(an empty graph)' : lines.join('\n'),
    ...viewing(frontend),
  }
}

type Condition = (node: GraphNode) => boolean

function condition(text: string): Condition {
  const match = /^\s*([^=!<>~]+?)\s*(<=|>=|!=|=|<|>|~)\s*(.*?)\s*$/.exec(text)
  const [, name, operator, wanted] = match ?? []
  if (name === undefined || operator === undefined || wanted === undefined) {
    throw new CommandError('bad_value', `“${text}” is no condition; write widget, operator (= != < > <= >= ~) and value, such as steps>20 or text~cat`)
  }
  return (node) => {
    const value = widgetValues(node)[name]
    if (value === undefined) return false
    const [left, right] = [Number(value), Number(wanted)]
    switch (operator) {
      case '=':
        return String(value) === wanted
      case '!=':
        return String(value) !== wanted
      case '~':
        return String(value).toLowerCase().includes(wanted.toLowerCase())
      case '<':
        return left < right
      case '>':
        return left > right
      case '<=':
        return left <= right
      default:
        return left >= right
    }
  }
}

function reach(start: GraphNode, wiring: Wiring, upstream: boolean, depth: number): Set<GraphNode> {
  const found = new Set<GraphNode>()
  let front = [start]
  for (let step = 0; step < depth && front.length > 0; step += 1) {
    const next = front.flatMap((node) => (upstream ? wiring.into(node).map((link) => link.from) : wiring.outOf(node).map((link) => link.to)))
    front = [...new Set(next)].filter((node) => node !== start && !found.has(node))
    for (const node of front) found.add(node)
  }
  return found
}

/** `graph_query` */
export function query(context: Context, args: Args): JsonValue {
  const { frontend } = context
  const graph = frontend.shownGraph()
  const wiring = new Wiring(graph)
  const fields = mayOneOf(args, 'fields', ['ids', 'compact', 'detail']) ?? 'compact'
  const limit = mayCount(args, 'limit', 1, 500) ?? 50
  const depth = mayCount(args, 'depth', 1, 100) ?? 100
  const types = mayTexts(args, 'types')
  const title = mayText(args, 'title')?.toLowerCase()
  const ids = mayNodeIds(args, 'ids')
  for (const id of ids ?? []) needNode(graph, id)
  const conditions = (mayTexts(args, 'where') ?? []).map(condition)
  const around = (name: 'upstream_of' | 'downstream_of'): Set<GraphNode> | undefined => {
    if (args[name] === undefined || args[name] === null) return undefined
    return reach(needNode(graph, asNodeId(args[name], name)), wiring, name === 'upstream_of', depth)
  }
  const upstream = around('upstream_of')
  const downstream = around('downstream_of')
  const matched = graph.nodes.filter(
    (node) =>
      (!types || types.includes(node.type)) &&
      (title === undefined || node.title.toLowerCase().includes(title)) &&
      (!ids || ids.includes(String(node.id))) &&
      (!upstream || upstream.has(node)) &&
      (!downstream || downstream.has(node)) &&
      conditions.every((holds) => holds(node)),
  )
  const shown = matched.slice(0, limit)
  const describe = (node: GraphNode): JsonValue => {
    if (fields === 'ids') return shownId(node.id)
    return fields === 'compact' ? compact(node) : detailed(frontend, wiring, node)
  }
  return { total: graph.nodes.length, matched: matched.length, truncated: shown.length < matched.length, nodes: shown.map(describe), ...viewing(frontend) }
}

interface Problem {
  [key: string]: JsonValue
  code: string
  message: string
}

function staticProblems(context: Context, wiring: Wiring, node: GraphNode): Problem[] {
  const { frontend } = context
  if (!frontend.hasNodeType(node.type)) {
    return [{ code: 'missing_type', message: `the node type ${node.type} is not installed` }]
  }
  if (node.mode === 2 || node.mode === 4) return []
  const required = Object.keys(node.constructor.nodeData?.input?.required ?? {})
  const unconnected = (node.inputs ?? []).flatMap((slot, input): Problem[] =>
    required.includes(slot.name) && !slot.widget && wiring.feeding(node, input) === null
      ? [{ code: 'input_unconnected', message: `required input ${slot.name} (${slot.type}) is not connected`, input: slot.name }]
      : [],
  )
  const wrong = valueWidgets(node).flatMap((widget): Problem[] => {
    const options = choices(node, widget)
    const socket = (node.inputs ?? []).findIndex((slot) => slot.widget?.name === widget.name)
    const linked = socket >= 0 && wiring.feeding(node, socket) !== null
    if (!options || linked || options.some((option) => option === widget.value)) return []
    return [{ code: 'value_not_in_list', message: `${widget.name} is ${JSON.stringify(widget.value)}, which is not among its ${options.length} choices`, input: widget.name }]
  })
  return [...unconnected, ...wrong]
}

/** `graph_get_errors` */
export function getErrors(context: Context): JsonValue {
  const { frontend } = context
  const graph = frontend.shownGraph()
  const wiring = new Wiring(graph)
  const refused = frontend.lastNodeErrors()
  const nodes = graph.nodes.flatMap((node): JsonObject[] => {
    const problems = staticProblems(context, wiring, node)
    for (const error of refused[String(node.id)]?.errors ?? []) {
      const input = error.extra_info?.input_name
      if (problems.some((problem) => input !== undefined && problem['input'] === input)) continue
      problems.push({ code: error.type ?? 'rejected', message: [error.message, error.details].filter(Boolean).join(': '), ...(input ? { input } : {}) })
    }
    return problems.length > 0 ? [{ node_id: shownId(node.id), type: node.type, title: node.title, errors: problems }] : []
  })
  const last = frontend.lastExecutionError()
  const lastRun: JsonObject = last
    ? {
        last_run_error: {
          message: last.exception_message ?? 'the run failed',
          ...(last.exception_type ? { type: last.exception_type } : {}),
          ...(last.node_id !== undefined ? { node_id: shownId(last.node_id) } : {}),
          ...(last.node_type ? { node_type: last.node_type } : {}),
        },
      }
    : {}
  return { errored_count: nodes.length, nodes, ...lastRun, ...viewing(frontend) }
}
