// Every touch of ComfyUI's frontend, public or not, with the types we rely on. Decides nothing about commands.
// What is not in the frontend's documented interface is marked "internal": it is checked before use where versions differ.
import { CommandError } from './types'

/** A link, as `LLink`. Ids are numbers in older frontends and strings in newer ones. */
export interface Link {
  id: number | string
  origin_id: number | string
  origin_slot: number
  target_id: number | string
  target_slot: number
}

/** An input or output slot of a node. */
export interface Slot {
  name: string
  label?: string
  type: string | number
  link?: number | string | null
  widget?: { name: string }
}

/** Limits and choices of a widget. */
export interface WidgetOptions {
  values?: unknown
  min?: number
  max?: number
  precision?: number
}

/** A widget of a node. */
export interface Widget {
  name: string
  type: string
  value: unknown
  y?: number
  computedHeight?: number
  hidden?: boolean
  element?: unknown
  options?: WidgetOptions
  callback?: (value: unknown, canvas: LiteCanvas, node: GraphNode, position: number[], event?: Event) => void
  setValue?: (value: unknown, options: { e: Event; node: GraphNode; canvas: LiteCanvas }) => void
}

/** A node of the graph, as `LGraphNode`. */
export interface GraphNode {
  id: number | string
  type: string
  title: string
  pos: ArrayLike<number> & { 0: number; 1: number }
  size: ArrayLike<number> & { 0: number; 1: number }
  mode: number
  flags?: { collapsed?: boolean }
  color?: string
  bgcolor?: string
  inputs?: Slot[]
  outputs?: Slot[]
  widgets?: Widget[]
  has_errors?: boolean
  subgraph?: Graph
  constructor: { nodeData?: NodeDefinition }
  boundingRect?: ArrayLike<number>
  setSize(size: [number, number]): void
  collapse(force?: boolean): void
  connect(output: number, target: GraphNode, input: number): Link | null | undefined
  disconnectInput(input: number): boolean
  getInputLink(input: number): Link | null
  onWidgetChanged?: (name: string, value: unknown, before: unknown, widget: Widget) => void
}

/** A graph or subgraph, as `LGraph`. */
export interface Graph {
  id: string
  nodes: GraphNode[]
  subgraphs?: Map<string, Graph>
  add(node: GraphNode): unknown
  remove(node: GraphNode): void
  setDirtyCanvas(front: boolean, back?: boolean): void
  incrementVersion?: () => void
}

/** Position and zoom of the view. */
interface DragAndScale {
  scale: number
  offset: [number, number]
  element: HTMLElement
  /** Internal, newer frontends. */
  setViewportSize?: (width: number, height: number) => void
  /** Internal, newer frontends. */
  invalidateViewportSize?: () => void
}

/** The canvas that draws, as `LGraphCanvas`. */
export interface LiteCanvas {
  graph: Graph | null
  canvas: HTMLCanvasElement
  bgcanvas: HTMLCanvasElement
  ctx: CanvasRenderingContext2D
  bgctx?: CanvasRenderingContext2D | null
  ds: DragAndScale
  show_info?: boolean
  graph_mouse: number[]
  draw(front: boolean, back: boolean): void
  setDirty(front: boolean, back?: boolean): void
}

/** The part of `/object_info` that we read. */
export interface NodeDefinition {
  name: string
  display_name?: string
  category?: string
  description?: string
  deprecated?: boolean
  output_node?: boolean
  input?: { required?: Record<string, InputSpec>; optional?: Record<string, InputSpec> }
  output?: (string | unknown[])[]
  output_name?: string[]
}

/** An input of a node type: a type name or a list of choices, and options. */
export type InputSpec = [string | unknown[], Record<string, unknown>?] | [string | unknown[]]

interface LiteGraphGlobal {
  createNode(type: string): GraphNode | null
  registered_node_types: Record<string, { nodeData?: NodeDefinition; title?: string; category?: string } | undefined>
  isValidConnection(output: string | number, input: string | number): boolean
  LGraphNode: { prototype: { getInputLink(this: GraphNode, input: number): Link | null } }
  /** Internal: whether nodes are drawn as page elements and not on the canvas. */
  vueNodesMode?: boolean
}

/** Internal: undo history of a workflow. */
interface Tracker {
  captureCanvasState?: () => void
  checkState?: () => void
  /** Open transactions; while there are any, nothing is captured. */
  changeCount?: number
  constructor: { isLoadingGraph?: boolean }
}

/** A serialised graph; only what is read here. */
interface GraphState {
  id?: string
  nodes?: unknown[]
}

/** Internal: a workflow, open or only known as a file. Keep the frontend's proxy for calls, `raw()` for comparing. */
export interface Workflow {
  path: string
  filename: string
  isPersisted: boolean
  isModified: boolean
  isLoaded: boolean
  activeState: GraphState | null
  changeTracker: Tracker | null
  load(): Promise<unknown>
}

interface StoreAction {
  name: string
  args: unknown[]
  after(callback: () => void): void
}

/** Internal: the Pinia store of workflows. */
interface WorkflowStore {
  activeWorkflow: Workflow | null
  openWorkflows: Workflow[]
  workflows: Workflow[]
  getWorkflowByPath(path: string): Workflow | null
  getMostRecentWorkflow?: () => Workflow | null
  openedWorkflowIndexShift(shift: number): Workflow | null
  closeWorkflow(workflow: Workflow): Promise<void>
  renameWorkflow(workflow: Workflow, path: string): Promise<void>
  saveWorkflow(workflow: Workflow): Promise<void>
  saveAs(workflow: Workflow, path: string): Workflow
  syncWorkflows(): Promise<void>
  $onAction(callback: (action: StoreAction) => void, detached?: boolean): () => void
}

/** What a `POST /prompt` was answered with. */
export interface PromptAnswer {
  prompt_id?: string
  node_errors?: Record<string, PromptNodeErrors>
  error?: string | { type?: string; message?: string; details?: string }
}

/** Errors of one node, as the server reports them. */
export interface PromptNodeErrors {
  class_type?: string
  errors?: { type?: string; message?: string; details?: string; extra_info?: { input_name?: string } }[]
}

/** What the frontend hands to `POST /prompt`. */
interface PromptData {
  workflow?: { id?: string }
}

type QueueCall = (number: number, data: PromptData, options?: unknown) => Promise<PromptAnswer>
type Load = (this: unknown, ...args: unknown[]) => Promise<unknown>

/** The frontend's API object: an event target of server frames. */
export interface Api extends EventTarget {
  fetchApi(path: string): Promise<Response>
  queuePrompt: QueueCall
}

interface App {
  canvas: LiteCanvas
  rootGraph?: Graph
  graph: Graph
  extensionManager: {
    workflow: WorkflowStore
    command: { execute(id: string): Promise<void> }
    lastNodeErrors?: Record<string, PromptNodeErrors> | null
    lastExecutionError?: ExecutionError | null
  }
  /** Deprecated in favour of the extension manager's; read when that has none. */
  lastNodeErrors?: Record<string, PromptNodeErrors> | null
  lastExecutionError?: ExecutionError | null
  loadGraphData: Load
  loadApiJson?: Load
  queuePrompt(number: number, batchCount: number): Promise<boolean>
  /** Internal: the queue that `queuePrompt` works off, last in first out. */
  queueItems?: { requestId?: number }[]
  /** Internal. */
  processingQueue?: boolean
}

/** The last error of a run. */
export interface ExecutionError {
  node_id?: string | number
  node_type?: string
  exception_message?: string
  exception_type?: string
}

interface ComfyWindow {
  comfyAPI?: { app?: { app: App }; api?: { api: Api } }
  LiteGraph?: LiteGraphGlobal
  LGraphCanvas?: { node_colors?: Record<string, { color: string; bgcolor: string }> }
}

/** What happens to loads: one begins, or one has ended. `opened` tells whether the store then opened a workflow. */
export interface LoadObserver {
  began(): void
  ended(opened: boolean): void
}

const comfyWindow = window as unknown as ComfyWindow

/** The object behind a reactive proxy: the only thing that identity may be compared on. */
export function raw<T extends object>(value: T): T {
  return (value as T & { __v_raw?: T }).__v_raw ?? value
}

/** The link into an input. By the base class: nodes that stand for subgraphs answer the same question with an inner link. */
export function inputLink(node: GraphNode, input: number): Link | null {
  const base = comfyWindow.LiteGraph?.LGraphNode.prototype.getInputLink
  return base ? base.call(node, input) : node.getInputLink(input)
}

/** This page's frontend. */
export class Frontend {
  private readonly app: App
  /** The frontend's API object. */
  readonly api: Api

  private constructor(app: App, api: Api) {
    this.app = app
    this.api = api
  }

  /**
   * The frontend of this page. Call from an extension's `setup` or later.
   * @throws CommandError `unreadable` when the page is not ComfyUI's or not ready
   */
  static find(): Frontend {
    const app = comfyWindow.comfyAPI?.app?.app
    const api = comfyWindow.comfyAPI?.api?.api
    if (!app?.extensionManager?.workflow || !api) {
      throw new CommandError('unreadable', 'ComfyUI has not finished loading; call this from an extension’s setup')
    }
    return new Frontend(app, api)
  }

  private get store(): WorkflowStore {
    return this.app.extensionManager.workflow
  }

  // Workflows

  /** The workflow that the frontend calls active. */
  active(): Workflow | null {
    return this.store.activeWorkflow
  }

  /** Whether the frontend calls this workflow active. */
  isActive(workflow: Workflow): boolean {
    const active = this.active()
    return active !== null && raw(active) === raw(workflow)
  }

  /** The workflows that have a tab, in the tabs' order. */
  openWorkflows(): Workflow[] {
    return [...this.store.openWorkflows]
  }

  /** Every known workflow: open ones, and saved files as of the last listing. */
  knownWorkflows(): Workflow[] {
    return [...this.store.workflows]
  }

  /** Asks the server for its saved workflows anew. */
  async listFiles(): Promise<void> {
    await this.store.syncWorkflows()
  }

  /** The workflow at a path, whether open or not. */
  workflowAt(path: string): Workflow | null {
    return this.store.getWorkflowByPath(path)
  }

  /** Whether the frontend is replacing the graph right now. Complements the observation of loads, which may have begun earlier. */
  isLoadingGraph(): boolean {
    return this.active()?.changeTracker?.constructor.isLoadingGraph === true
  }

  /**
   * Mounts a workflow: the graph first, by which the frontend then moves its pointer. The other order would leave
   * the old graph under the new name, and mark one of them modified. With `foreignGraph` the canvas does not hold the
   * active workflow's graph, and the capture that the frontend makes of what it leaves is kept from overwriting it.
   */
  async mount(workflow: Workflow, foreignGraph: boolean, beforeLoad: () => void): Promise<void> {
    const fromFile = !workflow.isLoaded
    if (fromFile) await workflow.load()
    beforeLoad()
    const state: unknown = JSON.parse(JSON.stringify(workflow.activeState))
    await this.withoutCapture(foreignGraph ? this.active()?.changeTracker : null, () =>
      this.app.loadGraphData(state, true, true, workflow, {
        checkForRerouteMigration: false,
        deferWarnings: true,
        skipAssetScans: !fromFile,
      }),
    )
  }

  private async withoutCapture(tracker: Tracker | null | undefined, action: () => Promise<unknown>): Promise<void> {
    if (tracker) tracker.changeCount = (tracker.changeCount ?? 0) + 1
    try {
      await action()
    } finally {
      if (tracker) tracker.changeCount = Math.max(0, (tracker.changeCount ?? 1) - 1)
    }
  }

  /** Opens an empty workflow in a tab of its own. `foreignGraph` as for `mount`. */
  async newBlank(foreignGraph: boolean): Promise<void> {
    await this.withoutCapture(foreignGraph ? this.active()?.changeTracker : null, () =>
      this.app.extensionManager.command.execute('Comfy.NewBlankWorkflow'),
    )
  }

  /** Writes a workflow to its file. What the tracker has is what is written, so the canvas is captured first. */
  async save(workflow: Workflow): Promise<void> {
    this.capture(workflow)
    await this.store.saveWorkflow(workflow)
  }

  /** Moves a workflow, and its file if it has one. */
  async rename(workflow: Workflow, path: string): Promise<void> {
    await this.store.renameWorkflow(workflow, path)
  }

  /** Makes a copy that is neither open nor written yet. */
  copy(workflow: Workflow, path: string): Workflow {
    this.capture(workflow)
    const made = this.store.saveAs(workflow, path)
    return this.store.getWorkflowByPath(path) ?? made
  }

  /** Closes a workflow that is not in front, without asking. Its unsaved changes are gone. */
  async close(workflow: Workflow): Promise<void> {
    // The store drops the changes but keeps the mark, which would show on the file when it is opened again.
    workflow.isModified = false
    await this.store.closeWorkflow(workflow)
  }

  /** The open workflow that comes to the front when the active one is closed. */
  successor(): Workflow | null {
    const candidates = [this.store.getMostRecentWorkflow?.(), this.store.openedWorkflowIndexShift(1), ...this.openWorkflows()]
    return candidates.find((workflow) => workflow && !this.isActive(workflow)) ?? null
  }

  /** Shows the change tracker what the canvas holds, so that it becomes one undo step. Does nothing for a background workflow. */
  capture(workflow: Workflow): void {
    const tracker = workflow.changeTracker
    if (!tracker || !this.isActive(workflow)) return
    if (tracker.captureCanvasState) tracker.captureCanvasState()
    else tracker.checkState?.()
  }

  // Observation

  /** Calls back after the store has opened, closed, renamed or saved a workflow. */
  onWorkflowAction(callback: (name: string, workflow: Workflow | null) => void): void {
    const watched = new Set(['openWorkflow', 'closeWorkflow', 'renameWorkflow', 'saveWorkflow', 'deleteWorkflow'])
    this.store.$onAction(({ name, args, after }) => {
      if (!watched.has(name)) return
      const target = args[0]
      after(() => callback(name, typeof target === 'object' && target !== null ? (target as Workflow) : null))
    }, true)
  }

  /** Observes every replacement of the graph, by whoever causes it. The frontend has no event that marks its end. */
  observeLoads(observer: LoadObserver): void {
    let opened = 0
    this.onWorkflowAction((name) => {
      if (name === 'openWorkflow') opened += 1
    })
    const wrap = (original: Load): Load => {
      const app = this.app
      return async function load(...args) {
        const before = opened
        observer.began()
        try {
          return await original.apply(app, args)
        } finally {
          observer.ended(opened > before)
        }
      }
    }
    this.app.loadGraphData = wrap(this.app.loadGraphData)
    if (this.app.loadApiJson) this.app.loadApiJson = wrap(this.app.loadApiJson)
  }

  // Graph

  /** The root graph; one object that every workflow is configured into, so only its id tells which. */
  rootGraph(): Graph {
    return this.app.rootGraph ?? this.app.graph
  }

  /**
   * The graph that the person sees: the root, or a subgraph of it.
   * @throws CommandError `unreadable` when it belongs to neither
   */
  shownGraph(): Graph {
    const root = this.rootGraph()
    const shown = this.app.canvas.graph ?? root
    const belongs = raw(shown) === raw(root) || [...(root.subgraphs?.values() ?? [])].some((inner) => raw(inner) === raw(shown))
    if (!belongs) throw new CommandError('unreadable', 'the canvas shows a graph that is not part of the active workflow; open the workflow again')
    return shown
  }

  /** Whether the person is inside a subgraph. */
  inSubgraph(): boolean {
    return raw(this.shownGraph()) !== raw(this.rootGraph())
  }

  /** The drawing canvas. */
  liteCanvas(): LiteCanvas {
    return this.app.canvas
  }

  private get lite(): LiteGraphGlobal {
    const lite = comfyWindow.LiteGraph
    if (!lite) throw new CommandError('unreadable', 'ComfyUI’s graph library is not loaded')
    return lite
  }

  /** A new node that is in no graph yet, or null when it cannot be made. */
  createNode(type: string): GraphNode | null {
    return this.lite.createNode(type)
  }

  /** Whether a node type can be made. */
  hasNodeType(type: string): boolean {
    return Object.hasOwn(this.lite.registered_node_types, type)
  }

  /** Every node type, with its definition when it came from the server. */
  nodeTypes(): { type: string; title: string; category: string; definition: NodeDefinition | undefined }[] {
    return Object.entries(this.lite.registered_node_types).flatMap(([type, registered]) =>
      registered
        ? [{ type, title: registered.nodeData?.display_name ?? registered.title ?? type, category: registered.nodeData?.category ?? registered.category ?? '', definition: registered.nodeData }]
        : [],
    )
  }

  /** Whether an output may feed an input. */
  fits(output: Slot, input: Slot): boolean {
    return this.lite.isValidConnection(output.type, input.type)
  }

  /** The colour presets by name. */
  colourPresets(): Record<string, { color: string; bgcolor: string }> {
    return comfyWindow.LGraphCanvas?.node_colors ?? {}
  }

  /** Sets a widget as a click would: value, callback, and what listens to changes. */
  setWidget(node: GraphNode, widget: Widget, value: unknown): void {
    const canvas = this.app.canvas
    if (widget.setValue) {
      widget.setValue(value, { e: new PointerEvent('pointerup'), node, canvas })
      return
    }
    const before = widget.value
    widget.value = value
    widget.callback?.(widget.value, canvas, node, canvas.graph_mouse)
    node.onWidgetChanged?.(widget.name, value, before, widget)
    this.shownGraph().incrementVersion?.()
  }

  /** Runs a drawing with nodes on the canvas, also when the person has them as page elements. */
  drawingNodes<T>(draw: () => T): T {
    const before = this.lite.vueNodesMode
    if (before) this.lite.vueNodesMode = false
    try {
      return draw()
    } finally {
      if (before) this.lite.vueNodesMode = before
    }
  }

  // Runs

  /** Errors by node of the last rejected run. */
  lastNodeErrors(): Record<string, PromptNodeErrors> {
    return this.app.extensionManager.lastNodeErrors ?? this.app.lastNodeErrors ?? {}
  }

  /** The error that ended the last run, if one did. */
  lastExecutionError(): ExecutionError | null {
    return this.app.extensionManager.lastExecutionError ?? this.app.lastExecutionError ?? null
  }

  /** Whether the frontend is handing prompts to the server right now. */
  isQueueing(): boolean {
    return this.app.processingQueue === true
  }

  /** Queues the mounted graph as the Run button does; the promise ends when the frontend has handed it over or failed. */
  async queue(batchCount: number): Promise<void> {
    await this.app.queuePrompt(0, batchCount)
  }

  /** Whether a queue request still waits behind another. Requests are told apart by the id in `promptQueueing`. */
  isWaiting(requestId: number | undefined): boolean {
    return requestId !== undefined && (this.app.queueItems ?? []).some((item) => item.requestId === requestId)
  }

  /** Stands between the frontend and `POST /prompt`: `around` sees each call with the id of its graph, and may refuse it by throwing. */
  interceptPrompts(around: (graphId: string | undefined, send: () => Promise<PromptAnswer>) => Promise<PromptAnswer>): void {
    const { api } = this
    const original = api.queuePrompt
    api.queuePrompt = (number, data, options) => around(data.workflow?.id, () => original.call(api, number, data, options))
  }
}

/** The server's answer inside the error that the frontend makes of a refused prompt. */
export function refusedAnswer(error: unknown): PromptAnswer | null {
  const response = (error as { response?: unknown } | null)?.response
  return typeof response === 'object' && response !== null ? response : null
}
