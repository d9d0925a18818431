// `graph_run`, and what became of runs. Which conversation a run belongs to is not known here.
import { mayCount, type Args } from './args'
import { refusedAnswer, type Frontend, type PromptAnswer } from './comfy'
import { shownId, type Context } from './context'
import { CommandError, type FinishedRun, type JsonObject, type JsonValue } from './types'

const IDLE_WAIT_MS = 10_000
const MOST_REMEMBERED = 200

/** One `graph_run` on its way to the server. */
interface Submission {
  requestId: number | undefined
  graphId: string
  left: number
  recheck: () => void
  answers: PromptAnswer[]
  failure: unknown
}

function rejection(answer: PromptAnswer): CommandError {
  const { error } = answer
  const what = typeof error === 'string' ? error : [error?.message, error?.details].filter(Boolean).join(': ')
  const nodes = Object.entries(answer.node_errors ?? {}).map(([id, node]): JsonObject => ({
    node_id: shownId(id),
    class_type: node.class_type ?? '',
    errors: (node.errors ?? []).map((entry) => ({
      type: entry.type ?? '',
      message: [entry.message, entry.details].filter(Boolean).join(': '),
      ...(entry.extra_info?.input_name ? { input: entry.extra_info.input_name } : {}),
    })),
  }))
  const first = nodes.map((node) => `#${String(node['node_id'])} ${String(node['class_type'])}: ${(node['errors'] as JsonObject[]).map((entry) => String(entry['message'])).join('; ')}`)
  const text = ['ComfyUI refused to run this', what, ...first].filter(Boolean).join('\n')
  return new CommandError('rejected', text, { error: what, node_errors: nodes })
}

function pause(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 20))
}

/** Runs of this page: hands them over, and tells when they end. */
export class Runs {
  private readonly frontend: Frontend
  private readonly listeners = new Set<(run: FinishedRun) => void>()
  private readonly files = new Map<string, FinishedRun['images']>()
  private readonly unfinished = new Set<string>()
  private submission: Submission | null = null
  private lane: Promise<unknown> = Promise.resolve()

  constructor(frontend: Frontend) {
    this.frontend = frontend
    frontend.interceptPrompts((graphId, send) => this.pass(graphId, send))
    const on = (kind: string, handle: (detail: Record<string, unknown>) => void): void => {
      frontend.api.addEventListener(kind, (event) => {
        const detail: unknown = (event as CustomEvent<unknown>).detail
        if (typeof detail === 'object' && detail !== null) handle(detail as Record<string, unknown>)
      })
    }
    on('executed', (detail) => this.collect(detail))
    on('execution_success', (detail) => this.finish(detail, 'success'))
    on('execution_error', (detail) => this.finish(detail, 'error'))
    on('execution_interrupted', (detail) => this.finish(detail, 'interrupted'))
    frontend.api.addEventListener('reconnected', () => void this.catchUp())
    on('promptQueueing', ({ requestId }) => {
      if (this.submission && this.submission.requestId === undefined && typeof requestId === 'number') this.submission.requestId = requestId
    })
  }

  /** Calls back once for each run that ended. */
  onFinished(callback: (run: FinishedRun) => void): () => void {
    this.listeners.add(callback)
    return () => this.listeners.delete(callback)
  }

  /** `graph_run` */
  run(context: Context, args: Args): Promise<JsonValue> {
    const batch = mayCount(args, 'batch_count', 1, 100) ?? 1
    const mine = this.lane.then(() => this.submit(context, batch))
    this.lane = mine.catch(() => undefined)
    return mine
  }

  private async submit(context: Context, batch: number): Promise<JsonValue> {
    const { frontend } = this
    const { identities, recheck } = context
    const deadline = performance.now() + IDLE_WAIT_MS
    while (frontend.isQueueing()) {
      if (performance.now() > deadline) throw new CommandError('busy', 'the frontend is still handing over an earlier run; try again shortly')
      await pause()
    }
    recheck()
    const workflow = identities.workflow()
    if (!workflow) throw new CommandError('unreadable', 'which workflow is in front cannot be told just now; try again once it has loaded')
    const submission: Submission = { requestId: undefined, graphId: frontend.rootGraph().id, left: batch, recheck, answers: [], failure: undefined }
    this.submission = submission
    try {
      await frontend.queue(batch)
    } catch (error) {
      submission.failure ??= error
    } finally {
      this.submission = null
      frontend.capture(workflow)
    }
    return this.outcome(submission)
  }

  private outcome({ answers, failure }: Submission): JsonValue {
    const ids = answers.flatMap((answer) => (answer.prompt_id ? [answer.prompt_id] : []))
    const [first] = ids
    if (first === undefined) {
      const refused = refusedAnswer(failure) ?? answers.find((answer) => answer.error !== undefined)
      if (refused) throw rejection(refused)
      if (failure !== undefined) throw failure
      throw new CommandError('not_applied', 'nothing was queued; see graph_get_errors')
    }
    const complaints = answers.find((answer) => Object.keys(answer.node_errors ?? {}).length > 0)
    return {
      queued: true,
      prompt_id: first,
      ...(ids.length > 1 ? { prompt_ids: ids } : {}),
      ...(complaints ? { not_run: rejection(complaints).detail ?? null } : {}),
      ...(failure !== undefined ? { stopped_early: true } : {}),
    }
  }

  /** Every prompt of the page passes here. Ours are checked against the fence at the last moment before they are sent. */
  private async pass(graphId: string | undefined, send: () => Promise<PromptAnswer>): Promise<PromptAnswer> {
    const submission = this.submission
    if (!submission || submission.left <= 0 || this.frontend.isWaiting(submission.requestId)) return this.remembered(await send())
    submission.left -= 1
    try {
      submission.recheck()
      if (graphId !== undefined && graphId !== submission.graphId) {
        throw new CommandError('not_applied', 'another workflow came to the front while this one was being queued; nothing was queued')
      }
      const answer = this.remembered(await send())
      submission.answers.push(answer)
      return answer
    } catch (error) {
      submission.failure = error
      throw error
    }
  }

  private remembered(answer: PromptAnswer): PromptAnswer {
    if (answer.prompt_id) this.unfinished.add(answer.prompt_id)
    for (const old of this.unfinished) {
      if (this.unfinished.size <= MOST_REMEMBERED) break
      this.unfinished.delete(old)
    }
    return answer
  }

  private collect({ prompt_id: id, output }: Record<string, unknown>): void {
    if (typeof id !== 'string' || typeof output !== 'object' || output === null) return
    this.files.set(id, [...(this.files.get(id) ?? []), ...filesOf(output)])
    for (const old of this.files.keys()) {
      if (this.files.size <= MOST_REMEMBERED) break
      this.files.delete(old)
    }
  }

  private finish(detail: Record<string, unknown>, status: FinishedRun['status']): void {
    const id = detail['prompt_id']
    if (typeof id !== 'string') return
    this.tell({ prompt_id: id, status, images: this.files.get(id) ?? [], ...(status === 'error' ? { error: faultOf(detail) } : {}) })
  }

  private tell(run: FinishedRun): void {
    this.files.delete(run.prompt_id)
    this.unfinished.delete(run.prompt_id)
    for (const listener of [...this.listeners]) listener({ ...run, images: once(run.images) })
  }

  /** Frames that were sent while the socket was down are gone; the history still tells how those runs ended. */
  private async catchUp(): Promise<void> {
    for (const id of [...this.unfinished]) {
      const answer = await this.frontend.api.fetchApi(`/history/${encodeURIComponent(id)}`)
      const entry = answer.ok ? ((await answer.json()) as Record<string, HistoryEntry | undefined>)[id] : undefined
      if (!entry || !this.unfinished.has(id)) continue
      const messages = entry.status?.messages ?? []
      const interrupted = messages.some(([kind]) => kind === 'execution_interrupted')
      const status = interrupted ? 'interrupted' : entry.status?.status_str === 'error' ? 'error' : 'success'
      const fault = messages.find(([kind]) => kind === 'execution_error')?.[1]
      this.tell({ prompt_id: id, status, images: Object.values(entry.outputs ?? {}).flatMap(filesOf), ...(status === 'error' ? { error: faultOf(fault ?? {}) } : {}) })
    }
  }
}

interface HistoryEntry {
  outputs?: Record<string, object | null>
  // Old servers keep no status: what is in their history was carried out.
  status?: { status_str?: string; messages?: [string, Record<string, unknown>][] } | null
}

function faultOf(detail: Record<string, unknown>): NonNullable<FinishedRun['error']> {
  const message = detail['exception_message']
  return {
    message: typeof message === 'string' ? message : 'the run failed',
    ...(detail['node_id'] !== undefined ? { node_id: String(detail['node_id']) } : {}),
    ...(typeof detail['node_type'] === 'string' ? { node_type: detail['node_type'] } : {}),
  }
}

/** Files of one node: pictures, videos, sounds and whatever else stands in a list with a `filename`. */
function filesOf(output: object | null): FinishedRun['images'] {
  return Object.values(output ?? {}).flatMap((list: unknown) => {
    if (!Array.isArray(list)) return []
    return list.flatMap((file: unknown) => {
      const { filename, subfolder, type } = (file ?? {}) as { filename?: unknown; subfolder?: unknown; type?: unknown }
      return typeof filename === 'string' ? [{ filename, subfolder: typeof subfolder === 'string' ? subfolder : '', type: typeof type === 'string' ? type : 'output' }] : []
    })
  })
}

/** A node that runs twice, or is told by cache and history, makes its files once. */
function once(files: FinishedRun['images']): FinishedRun['images'] {
  return [...new Map(files.map((file) => [JSON.stringify([file.type, file.subfolder, file.filename]), file])).values()]
}
