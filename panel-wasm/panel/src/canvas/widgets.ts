// Which values a widget may take, and what it has. Decides nothing about nodes or links.
import type { GraphNode, Widget } from './comfy'
import { listed, suggestion } from './names'
import { CommandError, type JsonValue } from './types'

/** Widget types that hold no value. */
const VALUELESS = new Set(['button', 'image', 'canvas'])

/** A value as JSON; what JSON cannot hold becomes null. */
export function asJson(value: unknown): JsonValue {
  const text = JSON.stringify(value)
  return text === undefined ? null : (JSON.parse(text) as JsonValue)
}

/** The widgets of a node that hold values. */
export function valueWidgets(node: GraphNode): Widget[] {
  return (node.widgets ?? []).filter((widget) => !VALUELESS.has(widget.type) && widget.name !== '')
}

/** Name and value of each widget. */
export function widgetValues(node: GraphNode): { [name: string]: JsonValue } {
  return Object.fromEntries(valueWidgets(node).map((widget) => [widget.name, asJson(widget.value)]))
}

/**
 * A widget by name.
 * @throws CommandError `unknown_widget`
 */
export function needWidget(node: GraphNode, name: string): Widget {
  const widgets = valueWidgets(node)
  const found = widgets.find((widget) => widget.name === name)
  if (found) return found
  const names = widgets.map((widget) => widget.name)
  throw new CommandError('unknown_widget', `#${node.id} ${node.type} has no widget ${name}; its widgets are ${listed(names)}.${suggestion(name, names)}`)
}

/** The choices of a combo, or null for any other widget. */
export function choices(node: GraphNode, widget: Widget): JsonValue[] | null {
  if (widget.type !== 'combo') return null
  let values: unknown = widget.options?.values
  if (typeof values === 'function') values = (values as (widget: Widget, node: GraphNode) => unknown)(widget, node)
  if (Array.isArray(values)) return values.map(asJson)
  return typeof values === 'object' && values !== null ? Object.keys(values) : []
}

function refuse(node: GraphNode, widget: Widget, value: JsonValue, expected: string): CommandError {
  return new CommandError('bad_value', `${JSON.stringify(value)} does not fit ${widget.name} of #${node.id} ${node.type}: ${expected}`)
}

function checkedNumber(node: GraphNode, widget: Widget, value: JsonValue): number {
  const { min, max, precision } = widget.options ?? {}
  const whole = precision === 0
  const range = `${min ?? 'any'} to ${max ?? 'any'}`
  if (typeof value !== 'number') throw refuse(node, widget, value, `give a ${whole ? 'whole ' : ''}number from ${range}`)
  if (whole && !Number.isInteger(value)) throw refuse(node, widget, value, `give a whole number from ${range}`)
  if ((min !== undefined && value < min) || (max !== undefined && value > max)) throw refuse(node, widget, value, `give a number from ${range}`)
  return value
}

/**
 * The value to set, checked against what the widget takes.
 * @throws CommandError `bad_value`, naming the valid choices, the limits or the type
 */
export function checkedValue(node: GraphNode, widget: Widget, value: JsonValue): JsonValue {
  const options = choices(node, widget)
  if (options) {
    const found = options.find((option) => option === value) ?? options.find((option) => String(option) === String(value))
    if (found !== undefined) return found
    const names = options.map(String)
    throw refuse(node, widget, value, `its choices are ${listed(names)}.${suggestion(String(value), names)}`)
  }
  switch (widget.type) {
    case 'number':
    case 'slider':
    case 'knob':
    case 'gradientslider':
      return checkedNumber(node, widget, value)
    case 'toggle':
      if (typeof value !== 'boolean') throw refuse(node, widget, value, 'give true or false')
      return value
    case 'text':
    case 'string':
    case 'customtext':
    case 'textarea':
    case 'markdown':
      if (typeof value !== 'string') throw refuse(node, widget, value, 'give a text')
      return value
    default: {
      // A widget of a custom kind: the kind of value it has now is the best that is known of it.
      const current = asJson(widget.value)
      if (current !== null && typeof current !== typeof value) throw refuse(node, widget, value, `it holds a ${typeof current}`)
      return value
    }
  }
}
