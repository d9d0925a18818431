// Reads the arguments of commands. A wrong type is refused here, so that executors hold values they can use.
import { CommandError, type JsonValue } from './types'

/** Arguments as they came. */
export type Args = Record<string, JsonValue>

function wrong(name: string, expected: string): CommandError {
  return new CommandError('bad_value', `${name} must be ${expected}`)
}

/** A text that must be there and not be empty. */
export function needText(args: Args, name: string): string {
  const value = args[name]
  if (typeof value !== 'string' || value.trim() === '') throw wrong(name, 'a text')
  return value
}

/** A text, if given. */
export function mayText(args: Args, name: string): string | undefined {
  const value = args[name]
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'string') throw wrong(name, 'a text')
  return value
}

/** A list of texts, if given; one text stands for a list of one. */
export function mayTexts(args: Args, name: string): string[] | undefined {
  const value = args[name]
  if (value === undefined || value === null) return undefined
  const list = Array.isArray(value) ? value : [value]
  return list.map((entry) => {
    if (typeof entry !== 'string') throw wrong(name, 'a list of texts')
    return entry
  })
}

/** Yes or no, if given. */
export function mayFlag(args: Args, name: string): boolean | undefined {
  const value = args[name]
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'boolean') throw wrong(name, 'true or false')
  return value
}

/** A whole number within bounds, if given. */
export function mayCount(args: Args, name: string, least: number, most: number): number | undefined {
  const value = args[name]
  if (value === undefined || value === null) return undefined
  if (typeof value !== 'number' || !Number.isInteger(value) || value < least || value > most) {
    throw wrong(name, `a whole number from ${least} to ${most}`)
  }
  return value
}

/** Two finite numbers, if given. */
export function mayPair(args: Args, name: string): [number, number] | undefined {
  const value = args[name]
  if (value === undefined || value === null) return undefined
  if (Array.isArray(value) && value.length === 2) {
    const [first, second] = value
    if (typeof first === 'number' && typeof second === 'number' && Number.isFinite(first) && Number.isFinite(second)) return [first, second]
  }
  throw wrong(name, 'two numbers, such as [100, 200]')
}

/** A node's id as text, from a number or a text. */
export function asNodeId(value: JsonValue | undefined, name: string): string {
  if (typeof value === 'number' && Number.isInteger(value)) return String(value)
  if (typeof value === 'string' && value.trim() !== '') return value.trim().replace(/^#/, '')
  throw wrong(name, 'a node id, such as 3')
}

/** Node ids, if given. */
export function mayNodeIds(args: Args, name: string): string[] | undefined {
  const value = args[name]
  if (value === undefined || value === null) return undefined
  return (Array.isArray(value) ? value : [value]).map((entry) => asNodeId(entry, name))
}

/** The name or index of a slot. */
export function asSlot(value: JsonValue | undefined, name: string): string | number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0) return value
  if (typeof value === 'string' && value !== '') return value
  throw wrong(name, 'the name or the index of a slot')
}

/** One of a few words, if given. */
export function mayOneOf<const W extends string>(args: Args, name: string, words: readonly W[]): W | undefined {
  const value = args[name]
  if (value === undefined || value === null) return undefined
  const found = words.find((word) => word === value)
  if (found === undefined) throw wrong(name, `one of ${words.join(', ')}`)
  return found
}
