// What the person sees, as plain data: the changes that the core tells, applied in order. Decides nothing.
import type {
  BackendInfo, ConnectionState, Download, Hit, MessageState, Model, PastSession, Question, Row, TodoItem, UiChange,
} from './generated/frames'
import { strings, told } from './strings'

/** How long an installation that ended stays in view, in milliseconds. */
const ENDED_SHOWN_MS = 8_000

/** A block that is still being written. */
export interface Block {
  id: string
  thought: boolean
  text: string
}

/** A message of this panel that is not done. */
export interface Waiting {
  mid: string
  text: string
  state: MessageState
  actsOn: string | undefined
  problem: string | undefined
}

/** What a message that is sent now will act on. */
export interface ActsOn {
  label: string | undefined
  pinned: boolean
  inFront: boolean
  pin: string | undefined
}

/** A run of the agent. */
export interface Run {
  promptId: string
  status: string
}

/** Which part of the view changed, so that only its component is drawn again. */
export type Part = 'head' | 'rows' | 'blocks' | 'queue' | 'cards' | 'history'

/** The view, and who wants to know when it changes. */
export class View {
  connection: ConnectionState = 'idle'
  reason: string | undefined
  backend = ''
  backends: BackendInfo[] = []
  blind = false
  models: Model[] = []
  model: string | undefined
  actsOn: ActsOn = { label: undefined, pinned: false, inFront: true, pin: undefined }
  working = false
  activity = ''
  /** What is being written; kept here so that closing the sidebar does not lose it. */
  draft = ''
  agentProblem: string | undefined
  /** Rows that say something to a person. */
  rows: Row[] = []
  blocks = new Map<string, Block>()
  queue = new Map<string, Waiting>()
  questions = new Map<string, Question>()
  todo: TodoItem[] = []
  runs = new Map<string, Run>()
  downloads: Download[] = []
  /** What is past is looked at. */
  pastOpen = false
  /** Undefined: not known yet, which is not none. */
  sessions: PastSession[] | undefined
  hits: Hit[] | undefined
  moreHits = false
  pastProblem: string | undefined
  /** A document that was asked for and has come. */
  document: { name: string; text: string } | undefined

  private readonly watchers = new Set<(part: Part) => void>()

  /** The agent works, as far as can be told: without a connection it cannot. */
  get busy(): boolean {
    return this.working && this.connection === 'connected'
  }

  /** Calls back at every change. Returns the way to stop. */
  watch(callback: (part: Part) => void): () => void {
    this.watchers.add(callback)
    return () => this.watchers.delete(callback)
  }

  /** Looks at what is past, from anew. */
  openPast(): void {
    this.pastOpen = true
    this.sessions = undefined
    this.changed('history')
    this.changed('head')
  }

  /** Looks away. */
  closePast(): void {
    this.pastOpen = false
    this.hits = undefined
    this.pastProblem = undefined
    this.changed('history')
    this.changed('head')
  }

  private changed(part: Part): void {
    for (const callback of this.watchers) callback(part)
  }

  /** Takes one change over. */
  apply(change: UiChange): void {
    switch (change.change) {
      case 'connection':
        this.connection = change.state
        this.reason = change.reason
        return this.changed('head')
      case 'conversation':
        this.backend = change.backend
        this.downloads = []
        this.closePast()
        return this.changed('cards')
      case 'cleared':
        this.rows = []
        this.blocks.clear()
        return this.changed('rows')
      case 'recalled':
        if (this.draft.trim() === '') this.draft = change.text
        return this.changed('head')
      case 'sessions':
        if (change.error === undefined) this.sessions = change.sessions
        this.pastProblem = change.error
        return this.changed('history')
      case 'found':
        if (change.error === undefined) this.hits = change.hits
        this.moreHits = change.more
        this.pastProblem = change.error
        return this.changed('history')
      case 'exported':
        this.document = { name: change.name, text: change.text }
        return this.changed('history')
      case 'row':
        if (isShown(change.row)) this.rows.push(change.row)
        if (change.row.block !== undefined) this.blocks.delete(change.row.block)
        return this.changed('rows')
      case 'delta': {
        const block = this.blocks.get(change.id) ?? { id: change.id, thought: change.thought, text: '' }
        block.text += (change.gap ? ' … ' : '') + change.text
        this.blocks.set(change.id, block)
        return this.changed('blocks')
      }
      // It stays as it is until its row comes.
      case 'block_end':
        return
      case 'block_gone':
        this.blocks.delete(change.id)
        return this.changed('blocks')
      case 'working':
        this.working = change.working
        if (!change.working) this.activity = ''
        return this.changed('head')
      case 'activity':
        this.activity = change.detail ? `${change.name} (${change.detail})` : change.name
        return this.changed('head')
      case 'agent':
        this.agentProblem = change.ready ? undefined : change.message ?? this.mend() ?? strings.notReady
        return this.changed('head')
      case 'usage':
      case 'session':
        return
      case 'models':
        this.models = change.models
        this.model = change.current
        return this.changed('head')
      case 'model':
        this.model = change.current
        return this.changed('head')
      case 'blind':
        this.blind = change.on
        return this.changed('head')
      case 'backends':
        this.backends = change.backends
        return this.changed('head')
      // What it means for the next message is told by `acts_on`.
      case 'target':
      case 'comfyui':
        return
      case 'acts_on':
        this.actsOn = { label: change.label, pinned: change.pinned, inFront: change.in_front, pin: change.pin }
        return this.changed('head')
      case 'message':
        this.message(change)
        return this.changed('queue')
      case 'queue': {
        const known = this.queue
        this.queue = new Map(change.order.flatMap((mid) => { const one = known.get(mid); return one ? [[mid, one] as const] : [] }))
        return this.changed('queue')
      }
      case 'question':
        this.questions.set(change.question.ask_id, change.question)
        return this.changed('cards')
      case 'question_closed':
        this.questions.delete(change.ask_id)
        return this.changed('cards')
      case 'todo':
        this.todo = change.items
        return this.changed('cards')
      case 'run':
        this.run(change)
        return this.changed('cards')
      case 'downloads':
        this.downloads = change.downloads
        setTimeout(() => this.forgetEnded(change.downloads), ENDED_SHOWN_MS)
        return this.changed('cards')
      case 'notice':
        this.rows.push({ kind: 'notice', text: told(change.code, change.text), elsewhere: false })
        return this.changed('rows')
    }
  }

  private mend(): string | undefined {
    return this.backends.find((one) => one.backend === this.backend)?.mend
  }

  private message(change: Extract<UiChange, { change: 'message' }>): void {
    if (change.state === 'done' || change.state === 'cancelled' || change.state === 'seen') {
      this.queue.delete(change.mid)
      return
    }
    this.queue.set(change.mid, {
      mid: change.mid,
      text: change.text,
      state: change.state,
      actsOn: change.acts_on,
      problem: change.code === undefined ? undefined : told(change.code, change.message),
    })
  }

  /** What ended is in the transcript, too. */
  private forgetEnded(shown: Download[]): void {
    if (this.downloads !== shown) return
    this.downloads = shown.filter((one) => one.status === 'downloading')
    this.changed('cards')
  }

  private run(change: Extract<UiChange, { change: 'run' }>): void {
    if (change.status === 'queued') {
      this.runs.set(change.prompt_id, { promptId: change.prompt_id, status: change.status })
    } else {
      this.runs.delete(change.prompt_id)
    }
  }
}

/** Starts of turns say nothing to a person; ends only when something went otherwise. */
function isShown(row: Row): boolean {
  if (row.kind === 'turn_start' || row.kind === 'other') return false
  return row.kind !== 'turn_end' || row.outcome !== 'completed'
}
