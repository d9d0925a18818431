// The commands that change nodes and links. Each is one undo step and is verified on the graph after it is made.
import { asNodeId, asSlot, mayFlag, mayOneOf, mayPair, mayText, needText, type Args } from './args'
import type { Frontend, Graph, GraphNode, Slot } from './comfy'
import { edit, findNode, needNode, shownId, slotError, type Context } from './context'
import { describeInputs, describeOutputs, feeding, MODE_NUMBERS, modeName, pair, Wiring } from './describe'
import { listed, suggestion } from './names'
import { CommandError, type JsonObject, type JsonValue } from './types'
import { asJson, checkedValue, needWidget, widgetValues } from './widgets'

function notApplied(what: string): CommandError {
  return new CommandError('not_applied', `${what}; look at the node with graph_query before trying again`)
}

function overlaps(graph: Graph, [x, y]: [number, number], [width, height]: [number, number]): boolean {
  const gap = 20
  const title = 40
  return graph.nodes.some(
    (node) =>
      x < node.pos[0] + node.size[0] + gap &&
      x + width + gap > node.pos[0] &&
      y < node.pos[1] + node.size[1] + gap + title &&
      y + height + gap + title > node.pos[1],
  )
}

/** The free place nearest to the middle of what the person sees. */
function freePlace(frontend: Frontend, graph: Graph, size: [number, number]): [number, number] {
  const { ds, canvas } = frontend.liteCanvas()
  const centre: [number, number] = [
    (canvas.clientWidth || 1200) / 2 / ds.scale - ds.offset[0] - size[0] / 2,
    (canvas.clientHeight || 800) / 2 / ds.scale - ds.offset[1] - size[1] / 2,
  ]
  const step = 60
  for (let ring = 0; ring < 100; ring += 1) {
    for (let i = -ring; i <= ring; i += 1) {
      for (let j = -ring; j <= ring; j += 1) {
        if (Math.max(Math.abs(i), Math.abs(j)) !== ring) continue
        const place: [number, number] = [Math.round(centre[0] + i * step), Math.round(centre[1] + j * step)]
        if (!overlaps(graph, place, size)) return place
      }
    }
  }
  return [Math.round(centre[0]), Math.round(centre[1])]
}

/** `graph_add_node` */
export function addNode(context: Context, args: Args): JsonValue {
  const { frontend } = context
  const type = needText(args, 'class_type')
  const pos = mayPair(args, 'pos')
  const title = mayText(args, 'title')
  if (!frontend.hasNodeType(type)) {
    const types = frontend.nodeTypes().map((entry) => entry.type)
    throw new CommandError('unknown_class', `no node type is called ${type}.${suggestion(type, types)} Find types with nodes_search`)
  }
  return edit(context, (graph) => {
    const node = frontend.createNode(type)
    if (!node) throw new CommandError('failed', `the frontend could not make a ${type}`)
    if (title !== undefined) node.title = title
    const place = pos ?? freePlace(frontend, graph, [node.size[0], node.size[1]])
    node.pos = place
    graph.add(node)
    const added = findNode(graph, String(node.id))
    if (!added) throw notApplied(`${type} was not added`)
    const wiring = new Wiring(graph)
    return {
      node_id: shownId(added.id),
      class_type: added.type,
      title: added.title,
      pos: pair(added.pos),
      inputs: describeInputs(wiring, added),
      outputs: describeOutputs(wiring, added),
      widgets: widgetValues(added),
    }
  })
}

/** `graph_remove_node` */
export function removeNode(context: Context, args: Args): JsonValue {
  const id = asNodeId(args['node_id'], 'node_id')
  return edit(context, (graph) => {
    const node = needNode(graph, id)
    const wiring = new Wiring(graph)
    const links = wiring.into(node).length + wiring.outOf(node).length
    graph.remove(node)
    if (findNode(graph, id)) throw notApplied(`node ${id} was not removed`)
    return { removed: { node_id: shownId(node.id), class_type: node.type, links } }
  })
}

function slotIndex(node: GraphNode, code: 'unknown_input' | 'unknown_output', asked: string | number): number {
  const slots: Slot[] = (code === 'unknown_input' ? node.inputs : node.outputs) ?? []
  const byName = slots.findIndex((slot) => slot.name === asked)
  if (byName >= 0) return byName
  const byLabel = slots.findIndex((slot) => slot.label !== undefined && slot.label === asked)
  if (byLabel >= 0) return byLabel
  const index = typeof asked === 'number' ? asked : /^\d+$/.test(asked) ? Number(asked) : -1
  if (index < 0 || index >= slots.length) throw slotError(code, node, asked)
  return index
}

/** `graph_connect` */
export function connect(context: Context, args: Args): JsonValue {
  const { frontend } = context
  const fromId = asNodeId(args['from_node_id'], 'from_node_id')
  const toId = asNodeId(args['to_node_id'], 'to_node_id')
  const fromSlot = asSlot(args['from_output'], 'from_output')
  const toSlot = asSlot(args['to_input'], 'to_input')
  return edit(context, (graph) => {
    const from = needNode(graph, fromId)
    const to = needNode(graph, toId)
    const output = slotIndex(from, 'unknown_output', fromSlot)
    const input = slotIndex(to, 'unknown_input', toSlot)
    const outputSlot = from.outputs?.[output]
    const inputSlot = to.inputs?.[input]
    if (!outputSlot || !inputSlot) throw notApplied('the slots have changed')
    if (from === to) throw new CommandError('bad_value', 'a node cannot feed itself')
    if (!frontend.fits(outputSlot, inputSlot)) {
      const fitting = (to.inputs ?? []).filter((slot) => frontend.fits(outputSlot, slot)).map((slot) => slot.name)
      throw new CommandError(
        'bad_value',
        `${outputSlot.name} of #${from.id} is ${outputSlot.type}, ${inputSlot.name} of #${to.id} takes ${inputSlot.type}; inputs of #${to.id} that take ${outputSlot.type}: ${listed(fitting)}`,
      )
    }
    const before = feeding(graph, to, input)
    from.connect(output, to, input)
    const now = feeding(graph, to, input)
    if (!now || !('edge' in now) || now.edge.from !== from || now.edge.output !== output) throw notApplied(`#${from.id} was not connected to #${to.id}`)
    const replaced: JsonObject = before && 'edge' in before && before.edge.from !== from ? { replaced: { from_node_id: shownId(before.edge.from.id), from_output: before.edge.output } } : {}
    return {
      connected: { from_node_id: shownId(from.id), from_output: outputSlot.name, to_node_id: shownId(to.id), to_input: inputSlot.name, type: String(outputSlot.type) },
      ...replaced,
    }
  })
}

/** `graph_disconnect` */
export function disconnect(context: Context, args: Args): JsonValue {
  const id = asNodeId(args['node_id'], 'node_id')
  const asked = args['input'] === undefined || args['input'] === null ? undefined : asSlot(args['input'], 'input')
  return edit(context, (graph) => {
    const node = needNode(graph, id)
    const count = node.inputs?.length ?? 0
    const wanted = asked === undefined ? Array.from({ length: count }, (_, index) => index) : [slotIndex(node, 'unknown_input', asked)]
    const linked = wanted.filter((input) => feeding(graph, node, input) !== null)
    const removed = linked.map((input): JsonValue => {
      const fed = feeding(graph, node, input)
      const name = node.inputs?.[input]?.name ?? input
      return { input: name, ...(fed && 'edge' in fed ? { from_node_id: shownId(fed.edge.from.id) } : {}) }
    })
    for (const input of [...linked].reverse()) {
      node.disconnectInput(input)
      if (input < (node.inputs?.length ?? 0) && feeding(graph, node, input)) throw notApplied(`input ${input} of #${id} is still connected`)
    }
    return { node_id: shownId(node.id), disconnected: removed }
  })
}

function sameValue(left: JsonValue, right: JsonValue): boolean {
  return JSON.stringify(left) === JSON.stringify(right)
}

/** `graph_set_widget` */
export function setWidget(context: Context, args: Args): JsonValue {
  const { frontend } = context
  const id = asNodeId(args['node_id'], 'node_id')
  const name = needText(args, 'widget')
  const asked = args['value']
  if (asked === undefined) throw new CommandError('bad_value', 'value is missing')
  return edit(context, (graph) => {
    const node = needNode(graph, id)
    const widget = needWidget(node, name)
    const value = checkedValue(node, widget, asked)
    const previous = asJson(widget.value)
    frontend.setWidget(node, widget, value)
    const now = asJson((node.widgets ?? []).find((entry) => entry.name === name)?.value)
    // A widget may round what it is given; one that kept its old value did not take it.
    if (!sameValue(now, value) && sameValue(now, previous)) throw notApplied(`${name} of #${id} is still ${JSON.stringify(now)}`)
    const socket = (node.inputs ?? []).findIndex((slot) => slot.widget?.name === name)
    const linked: JsonObject = socket >= 0 && feeding(graph, node, socket) ? { linked: true, note: `${name} is fed by a link, which wins over its value` } : {}
    return { set: { node_id: shownId(node.id), widget: name, value: now, previous }, ...linked }
  })
}

function checkedColour(frontend: Frontend, name: string, value: string): string {
  if (/^#([0-9a-f]{3}|[0-9a-f]{4}|[0-9a-f]{6}|[0-9a-f]{8})$/i.test(value)) return value
  const preset = frontend.colourPresets()[value]
  if (preset) return name === 'color' ? preset.color : preset.bgcolor
  throw new CommandError('bad_value', `${name} must be a colour such as #335, or one of ${listed(Object.keys(frontend.colourPresets()))}`)
}

/** `graph_edit_node` */
export function editNode(context: Context, args: Args): JsonValue {
  const { frontend } = context
  const id = asNodeId(args['node_id'], 'node_id')
  const title = mayText(args, 'title')
  const pos = mayPair(args, 'pos')
  const size = mayPair(args, 'size')
  const mode = mayOneOf(args, 'mode', ['always', 'never', 'bypass'])
  const collapsed = mayFlag(args, 'collapsed')
  const colours = (['color', 'bgcolor'] as const).flatMap((name) => {
    const value = mayText(args, name)
    return value === undefined ? [] : [{ name, value: checkedColour(frontend, name, value) }]
  })
  if (size && (size[0] < 1 || size[1] < 1)) throw new CommandError('bad_value', 'size must be two positive numbers')
  if (title === undefined && !pos && !size && mode === undefined && collapsed === undefined && colours.length === 0) {
    throw new CommandError('bad_value', 'nothing to change: give title, pos, size, mode, collapsed, color or bgcolor')
  }
  return edit(context, (graph) => {
    const node = needNode(graph, id)
    if (title !== undefined) node.title = title
    if (pos) node.pos = pos
    if (size) node.setSize(size)
    if (mode !== undefined) node.mode = MODE_NUMBERS[mode]
    if (collapsed !== undefined && (node.flags?.collapsed === true) !== collapsed) node.collapse()
    for (const { name, value } of colours) node[name] = value
    const kept =
      (title === undefined || node.title === title) &&
      (!pos || (node.pos[0] === pos[0] && node.pos[1] === pos[1])) &&
      (mode === undefined || node.mode === MODE_NUMBERS[mode]) &&
      (collapsed === undefined || (node.flags?.collapsed === true) === collapsed) &&
      colours.every(({ name, value }) => node[name] === value)
    if (!kept) throw notApplied(`not every change of #${id} was taken`)
    return {
      edited: {
        node_id: shownId(node.id),
        title: node.title,
        pos: pair(node.pos),
        size: pair(node.size),
        mode: modeName(node.mode),
        collapsed: node.flags?.collapsed === true,
        ...(node.color ? { color: node.color } : {}),
        ...(node.bgcolor ? { bgcolor: node.bgcolor } : {}),
      },
    }
  })
}
