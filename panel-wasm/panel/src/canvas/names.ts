// Compares names: the nearest known ones to a wrong one, and the one form of a workflow's path. Knows no frontend.
import { CommandError } from './types'

/** How many single edits lie between two texts, up to a bound. */
function distance(left: string, right: string): number {
  let row = Array.from({ length: right.length + 1 }, (_, index) => index)
  for (let i = 1; i <= left.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= right.length; j += 1) {
      const kept = (row[j - 1] ?? 0) + (left[i - 1] === right[j - 1] ? 0 : 1)
      next.push(Math.min(kept, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[right.length] ?? 0
}

/** The known names nearest to a wrong one, best first. */
export function nearest(wrong: string, known: Iterable<string>, count = 5): string[] {
  const wanted = wrong.toLowerCase()
  const scored = [...new Set(known)].map((name) => {
    const other = name.toLowerCase()
    const contained = other.includes(wanted) || (other.length > 2 && wanted.includes(other))
    return { name, score: distance(wanted, other) - (contained ? 1000 : 0) }
  })
  return scored
    .filter(({ name, score }) => score <= Math.max(3, Math.ceil(name.length / 2)))
    .sort((a, b) => a.score - b.score || a.name.localeCompare(b.name))
    .slice(0, count)
    .map(({ name }) => name)
}

/** A list for a message, cut when long. */
export function listed(names: string[], most = 40): string {
  if (names.length === 0) return 'none'
  const shown = names.slice(0, most).join(', ')
  return names.length > most ? `${shown}, … (${names.length} in all)` : shown
}

/** " Did you mean …?" or nothing. */
export function suggestion(wrong: string, known: Iterable<string>): string {
  const found = nearest(wrong, known)
  return found.length > 0 ? ` Did you mean ${found.join(', ')}?` : ''
}

/**
 * `workflows/<folders>/<name>.json` of any accepted spelling, by the same rules as the daemon's.
 * @throws CommandError `bad_value` for a text that names no file inside the workflow folder
 */
export function workflowPath(text: string): string {
  const bare = text.trim().replace(/^wf:/, '').replaceAll('\\', '/')
  const parts = bare.split('/').filter((part) => part !== '' && part !== '.')
  if (parts.length === 0 || parts.includes('..') || (parts.length === 1 && parts[0] === 'workflows')) {
    throw new CommandError('bad_value', `“${text}” names no workflow file: give a path inside the workflows folder, such as portraits/first`)
  }
  const path = parts[0] === 'workflows' ? parts.join('/') : ['workflows', ...parts].join('/')
  return path.toLowerCase().endsWith('.json') ? path : `${path}.json`
}

/** Where a new name puts a workflow: beside its present file, unless the name has folders of its own. */
export function renamedPath(current: string, name: string): string {
  const trimmed = name.trim().replaceAll('\\', '/')
  if (trimmed.includes('/')) return workflowPath(trimmed)
  const folder = current.slice(0, current.lastIndexOf('/') + 1)
  return workflowPath(`${folder}${trimmed}`)
}
