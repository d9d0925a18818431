// Which browser tab this is: an id that a reload keeps and a duplicated tab does not. Knows nothing of workflows.

const KEY = 'comfy-orchestrator.tab'
const LOCK = 'comfy-orchestrator.tab.'

/** This browser tab's own id, made exclusive by a lock for the life of the page. */
export async function tabIdentity(): Promise<string> {
  const locks = (navigator as Partial<Navigator>).locks
  // Without locks (a page that is not secure) a copied id could not be told from ours: then it is one for each page.
  if (!locks) return crypto.randomUUID?.() ?? pageIdentity()
  let candidate = sessionStorage.getItem(KEY) ?? crypto.randomUUID()
  for (;;) {
    if (await hold(locks, candidate)) {
      keep(KEY, candidate)
      return candidate
    }
    candidate = crypto.randomUUID()
  }
}

/** False when the storage, which the whole page shares, has no room left. */
function keep(key: string, value: string): boolean {
  try {
    sessionStorage.setItem(key, value)
    return true
  } catch {
    return false
  }
}

/** Takes the lock of an id until the page goes; false when another page has it. */
function hold(locks: LockManager, id: string): Promise<boolean> {
  return new Promise((resolve) => {
    void locks.request(LOCK + id, { ifAvailable: true }, (lock) => {
      resolve(lock !== null)
      return lock === null ? undefined : new Promise<never>(() => {})
    })
  })
}

function pageIdentity(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16))
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')
}

const BEGUN = 'comfy-orchestrator.begun'

/** What an earlier page in this browser tab remembered of commands with an effect. */
export function remembered(): string[] {
  try {
    const list: unknown = JSON.parse(sessionStorage.getItem(BEGUN) ?? '[]')
    return Array.isArray(list) ? list.filter((one): one is string => typeof one === 'string') : []
  } catch {
    return []
  }
}

/**
 * Keeps it over a reload: at most 64 short ids. Where there is no room, a reloaded page would take a command that was begun for
 * one that never came; so that page gets an id of its own, and nothing is repeated in it (rule G11).
 */
export function remember(begun: string[]): void {
  if (!keep(BEGUN, JSON.stringify(begun))) sessionStorage.removeItem(KEY)
}
