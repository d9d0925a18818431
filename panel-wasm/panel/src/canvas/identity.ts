// Decides which workflow instance is mounted and active, or that this cannot be told. Knows no command.
import { raw, type Frontend, type Workflow } from './comfy'
import { CommandError, type CanvasIdentity } from './types'

const LONGEST_LOAD_MS = 10_000

/**
 * Follows the workflow instance in front.
 *
 * Two facts must agree before an identity is given: the frontend's pointer to its active workflow, and the workflow
 * whose graph was mounted last. They part company during every load, after a failed one, and when someone moves the
 * pointer without painting.
 */
export class Identities {
  private readonly frontend: Frontend
  private uuids = new WeakMap<Workflow, string>()
  private readonly page = crypto.randomUUID()
  private readonly listeners = new Set<(identity: CanvasIdentity | null) => void>()
  private readonly waiting = new Set<() => void>()
  private loads = 0
  private openedDuringLoads = false
  private mounted: Workflow | null = null
  private mounts = 0
  private told: string

  constructor(frontend: Frontend) {
    this.frontend = frontend
    frontend.observeLoads({
      began: () => {
        this.loads += 1
      },
      ended: (opened) => this.loadEnded(opened),
    })
    frontend.onWorkflowAction((name, workflow) => this.actionDone(name, workflow))
    this.adoptIfGraphIsIts()
    this.told = JSON.stringify(this.current())
  }

  /** The instance's id; minted on first sight of the object. */
  uuidOf(workflow: Workflow): string {
    const object = raw(workflow)
    const known = this.uuids.get(object)
    if (known) return known
    const minted = crypto.randomUUID()
    this.uuids.set(object, minted)
    return minted
  }

  /** `wf:<path>` when saved, `tmp:<uuid>` when not. */
  handleOf(workflow: Workflow): string {
    return workflow.isPersisted ? `wf:${workflow.path}` : `tmp:${this.uuidOf(workflow)}`
  }

  /** The workflow in front, in the frontend's own form, or null when it cannot be told. */
  workflow(): Workflow | null {
    const active = this.frontend.active()
    if (!active || this.loads > 0 || this.frontend.isLoadingGraph()) return null
    const object = raw(active)
    if (object !== this.mounted) return null
    if (!this.frontend.openWorkflows().some((open) => raw(open) === object)) return null
    return this.graphIsOf(active) ? active : null
  }

  /** The identity of the workflow in front, or null when it cannot be told. */
  current(): CanvasIdentity | null {
    const workflow = this.workflow()
    if (!workflow) return null
    return {
      uuid: this.uuidOf(workflow),
      handle: this.handleOf(workflow),
      ...(workflow.isPersisted ? { path: workflow.path } : {}),
      title: workflow.filename,
      canvas: `${this.page}:${this.frontend.rootGraph().id}:${this.mounts}`,
    }
  }

  /** Calls back with every settled change. */
  onChange(callback: (identity: CanvasIdentity | null) => void): () => void {
    this.listeners.add(callback)
    return () => this.listeners.delete(callback)
  }

  /**
   * Waits until no load is under way.
   * @throws CommandError `busy` when one takes too long
   */
  async settled(): Promise<void> {
    if (this.loads === 0) return
    await new Promise<void>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.waiting.delete(done)
        reject(new CommandError('busy', 'ComfyUI is still loading a workflow; try again shortly'))
      }, LONGEST_LOAD_MS)
      const done = (): void => {
        clearTimeout(timer)
        this.waiting.delete(done)
        resolve()
      }
      this.waiting.add(done)
    })
  }

  private graphIsOf(workflow: Workflow): boolean {
    const expected = workflow.activeState?.id
    const shown = this.frontend.rootGraph().id
    return !expected || !shown || expected === shown
  }

  private loadEnded(opened: boolean): void {
    this.loads -= 1
    this.openedDuringLoads ||= opened
    if (this.loads > 0) return
    // A load that opened nothing has failed half-way: the graph is then neither the old workflow's nor a new one's.
    const active = this.openedDuringLoads ? this.frontend.active() : null
    this.openedDuringLoads = false
    this.setMounted(active)
    this.tell()
    for (const done of [...this.waiting]) done()
  }

  private actionDone(name: string, workflow: Workflow | null): void {
    // What is closed without saving and opened again has other content, so it is another instance.
    if (name === 'closeWorkflow' && workflow) this.uuids.delete(raw(workflow))
    if (this.loads > 0) return
    if (name === 'openWorkflow') this.adoptIfGraphIsIts()
    this.tell()
  }

  /** Takes the active workflow as mounted when the graph has its very id: after imports that load without `loadGraphData`. */
  private adoptIfGraphIsIts(): void {
    const active = this.frontend.active()
    if (active?.activeState?.id && active.activeState.id === this.frontend.rootGraph().id) this.setMounted(active)
  }

  private setMounted(workflow: Workflow | null): void {
    const object = workflow ? raw(workflow) : null
    if (object !== this.mounted) this.mounts += 1
    this.mounted = object
  }

  private tell(): void {
    const identity = this.current()
    const text = JSON.stringify(identity)
    if (text === this.told) return
    this.told = text
    for (const listener of [...this.listeners]) listener(identity)
  }
}
