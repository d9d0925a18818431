// `nodes_search`: finds installed node types by words. Touches no graph.
import { mayCount, needText, type Args } from './args'
import type { InputSpec, NodeDefinition } from './comfy'
import type { Context } from './context'
import type { JsonObject, JsonValue } from './types'

interface Entry {
  type: string
  title: string
  category: string
  definition: NodeDefinition | undefined
}

function score(entry: Entry, words: string[]): number {
  const [type, title, category] = [entry.type.toLowerCase(), entry.title.toLowerCase(), entry.category.toLowerCase()]
  const description = entry.definition?.description?.toLowerCase() ?? ''
  const slots = [
    ...Object.values(entry.definition?.input?.required ?? {}).map(([kind]) => (typeof kind === 'string' ? kind : '')),
    ...(entry.definition?.output ?? []).map((kind) => (typeof kind === 'string' ? kind : '')),
  ].map((kind) => kind.toLowerCase())
  let sum = 0
  for (const word of words) {
    let best = 0
    if (type === word || title === word) best = 100
    else if (type.startsWith(word) || title.startsWith(word)) best = 40
    else if (type.includes(word) || title.includes(word)) best = 25
    else if (category.includes(word)) best = 8
    else if (slots.includes(word)) best = 6
    else if (description.includes(word)) best = 4
    if (best === 0) return 0
    sum += best
  }
  return entry.definition?.deprecated ? sum / 4 : sum
}

function describeInput(name: string, spec: InputSpec, optional: boolean): JsonObject {
  const [kind, options] = spec
  const list = Array.isArray(kind) ? kind : undefined
  const limits = Object.fromEntries(['default', 'min', 'max'].flatMap((key) => (options && ['string', 'number', 'boolean'].includes(typeof options[key]) ? [[key, options[key] as JsonValue]] : [])))
  return {
    name,
    type: list ? 'COMBO' : String(kind),
    ...(optional ? { optional: true } : {}),
    ...(list ? { choices: list.slice(0, 12).map(String), ...(list.length > 12 ? { choices_in_all: list.length } : {}) } : {}),
    ...limits,
  }
}

function describe({ type, title, category, definition }: Entry): JsonValue {
  const { required = {}, optional = {} } = definition?.input ?? {}
  return {
    class_type: type,
    title,
    category,
    ...(definition?.output_node ? { output_node: true } : {}),
    ...(definition?.deprecated ? { deprecated: true } : {}),
    inputs: [
      ...Object.entries(required).map(([name, spec]) => describeInput(name, spec, false)),
      ...Object.entries(optional).map(([name, spec]) => describeInput(name, spec, true)),
    ],
    outputs: (definition?.output ?? []).map((kind, index) => ({ name: definition?.output_name?.[index] ?? String(index), type: Array.isArray(kind) ? 'COMBO' : kind })),
  }
}

/** `nodes_search` */
export function searchNodes({ frontend }: Context, args: Args): JsonValue {
  const words = needText(args, 'query').toLowerCase().split(/\s+/).filter(Boolean)
  const limit = mayCount(args, 'limit', 1, 100) ?? 20
  const found = frontend
    .nodeTypes()
    .map((entry) => ({ entry, score: score(entry, words) }))
    .filter((hit) => hit.score > 0)
    .sort((a, b) => b.score - a.score || a.entry.type.length - b.entry.type.length)
  return { matched: found.length, truncated: found.length > limit, nodes: found.slice(0, limit).map((hit) => describe(hit.entry)) }
}
