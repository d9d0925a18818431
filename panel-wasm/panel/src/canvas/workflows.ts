// The commands that open, make, save, move and close workflows. Identity itself is decided elsewhere.
import { mayFlag, mayText, needText, type Args } from './args'
import { raw, type Workflow } from './comfy'
import { identityFields, type Context } from './context'
import { listed, renamedPath, suggestion, workflowPath } from './names'
import { CommandError, type CanvasIdentity, type JsonValue } from './types'

function needActive({ identities }: Context): Workflow {
  const workflow = identities.workflow()
  if (!workflow) throw new CommandError('unreadable', 'which workflow is in front cannot be told just now; open one with workflow_open, or try again once it has loaded')
  return workflow
}

/** The identity after a command that changed what is in front. */
function proven({ identities }: Context, what: string, workflow?: Workflow): CanvasIdentity {
  const identity = identities.current()
  const front = identities.workflow()
  if (!identity || !front || (workflow && raw(front) !== raw(workflow))) {
    throw new CommandError('not_applied', `${what}, but another workflow or none is in front now; see workflow_list`)
  }
  return identity
}

/** Whether the canvas holds another graph than the active workflow's: it must not be captured into that one. */
function isGraphForeign({ identities }: Context): boolean {
  return identities.workflow() === null
}

/** `workflow_list` */
export function list(context: Context): JsonValue {
  const { frontend, identities } = context
  const front = identities.workflow()
  return {
    workflows: frontend.openWorkflows().map((workflow) => ({
      handle: identities.handleOf(workflow),
      ...(workflow.isPersisted ? { path: workflow.path } : {}),
      title: workflow.filename,
      active: front !== null && raw(front) === raw(workflow),
      modified: workflow.isModified,
      persisted: workflow.isPersisted,
      uuid: identities.uuidOf(workflow),
    })),
  }
}

function pathOrNone(name: string): string | null {
  try {
    return workflowPath(name)
  } catch {
    return null
  }
}

/** Every workflow that a name may mean: a handle, any spelling of a path, or else a title. An unsaved one has no path. */
function meant({ identities }: Context, name: string, among: Workflow[]): Workflow[] {
  const byHandle = among.filter((workflow) => identities.handleOf(workflow) === name)
  if (byHandle.length > 0) return byHandle
  const path = pathOrNone(name)
  const byPath = among.filter((workflow) => workflow.isPersisted && workflow.path === path)
  if (byPath.length > 0) return byPath
  const title = name.trim().replace(/\.json$/i, '')
  return among.filter((workflow) => workflow.filename === title)
}

function one(context: Context, name: string, found: Workflow[]): Workflow | null {
  if (found.length <= 1) return found[0] ?? null
  const names = found.map((workflow) => context.identities.handleOf(workflow))
  throw new CommandError('ambiguous_workflow', `${name} may mean ${listed(names)}; give one of these`)
}

async function anyWorkflow(context: Context, name: string): Promise<Workflow> {
  const { frontend } = context
  const isListed = (workflow: Workflow): boolean => workflow.path.startsWith('workflows/')
  const open = one(context, name, meant(context, name, frontend.openWorkflows()))
  if (open) return open
  await frontend.listFiles()
  const known = frontend.knownWorkflows().filter(isListed)
  const saved = one(context, name, meant(context, name, known.filter((workflow) => workflow.isPersisted)))
  if (saved) return saved
  const names = known.map((workflow) => (workflow.isPersisted ? workflow.path.replace(/^workflows\//, '') : workflow.filename))
  throw new CommandError('unknown_workflow', `no open or saved workflow is called ${name}; there are ${listed(names)}.${suggestion(name, names)}`)
}

function openWorkflow(context: Context, name: string): Workflow {
  const found = one(context, name, meant(context, name, context.frontend.openWorkflows()))
  if (found) return found
  const handles = context.frontend.openWorkflows().map((workflow) => context.identities.handleOf(workflow))
  throw new CommandError('unknown_workflow', `no open workflow is called ${name}; open are ${listed(handles)}`)
}

/** `workflow_open` */
export async function open(context: Context, args: Args): Promise<JsonValue> {
  const { frontend, identities, recheck } = context
  const workflow = await anyWorkflow(context, needText(args, 'path'))
  await identities.settled()
  recheck()
  const front = identities.workflow()
  if (!front || raw(front) !== raw(workflow)) await frontend.mount(workflow, isGraphForeign(context), recheck)
  return { opened: true, ...identityFields(proven(context, `${workflow.filename} was opened`, workflow)), modified: workflow.isModified }
}

/** `workflow_new` */
export async function create(context: Context): Promise<JsonValue> {
  const { frontend, identities, recheck } = context
  await identities.settled()
  recheck()
  const before = new Set(frontend.openWorkflows().map(raw))
  await frontend.newBlank(isGraphForeign(context))
  const identity = proven(context, 'a workflow was made')
  const front = identities.workflow()
  if (!front || before.has(raw(front))) throw new CommandError('not_applied', 'the frontend made no new workflow; see workflow_list')
  return { created: true, ...identityFields(identity) }
}

async function needFree({ frontend }: Context, path: string): Promise<void> {
  await frontend.listFiles()
  if (frontend.workflowAt(path)) throw new CommandError('name_taken', `there is already a workflow at ${path}; give another name`)
}

async function firstSave(context: Context, workflow: Workflow, path: string): Promise<JsonValue> {
  const { frontend, recheck } = context
  if (workflow.path !== path) {
    await needFree(context, path)
    recheck()
    await frontend.rename(workflow, path)
  }
  recheck()
  await frontend.save(workflow)
  return saved(context, workflow, { first_save: true })
}

function saved(context: Context, workflow: Workflow, more: { first_save?: true; copied_from?: string }): JsonValue {
  if (!workflow.isPersisted || workflow.isModified) throw new CommandError('not_applied', `${workflow.filename} was not written`)
  return { saved: true, ...more, ...identityFields(proven(context, `${workflow.path} was written`, workflow)) }
}

async function saveCopy(context: Context, workflow: Workflow, path: string): Promise<JsonValue> {
  const { frontend, identities, recheck } = context
  const from = identities.handleOf(workflow)
  await needFree(context, path)
  recheck()
  const copy = frontend.copy(workflow, path)
  // The copy becomes the workflow in front, which is another instance: what was fenced ends with the mount.
  try {
    await frontend.mount(copy, false, recheck)
    proven(context, `${path} was opened`, copy)
  } catch (error) {
    if (!frontend.isActive(copy)) await frontend.close(copy)
    throw error
  }
  await frontend.save(copy)
  return saved(context, copy, { copied_from: from })
}

/** `workflow_save` */
export async function save(context: Context, args: Args): Promise<JsonValue> {
  const { frontend, recheck } = context
  const workflow = needActive(context)
  const name = mayText(args, 'name')
  if (name !== undefined) return saveAs(context, args)
  if (!workflow.isPersisted) {
    throw new CommandError('name_needed', `${workflow.filename} was never saved: give it a name`)
  }
  recheck()
  await frontend.save(workflow)
  return saved(context, workflow, {})
}

/** `workflow_save_as` */
export async function saveAs(context: Context, args: Args): Promise<JsonValue> {
  const workflow = needActive(context)
  const path = renamedPath(workflow.path, needText(args, 'name'))
  if (!workflow.isPersisted) return firstSave(context, workflow, path)
  if (workflow.path === path) throw new CommandError('name_taken', `${path} is this workflow itself; use workflow_save`)
  return saveCopy(context, workflow, path)
}

/** `workflow_rename` */
export async function rename(context: Context, args: Args): Promise<JsonValue> {
  const { frontend, identities, recheck } = context
  const which = mayText(args, 'path')
  const workflow = which === undefined ? needActive(context) : openWorkflow(context, which)
  const path = renamedPath(workflow.path, needText(args, 'name'))
  const from = workflow.path
  if (path !== from) {
    await needFree(context, path)
    recheck()
    await frontend.rename(workflow, path)
    if (workflow.path !== path) throw new CommandError('not_applied', `${from} was not renamed`)
  }
  return { renamed: { from, to: path, handle: identities.handleOf(workflow), uuid: identities.uuidOf(workflow) }, ...identityFields(identities.current()) }
}

/** `workflow_close` */
export async function close(context: Context, args: Args): Promise<JsonValue> {
  const { frontend, identities, recheck } = context
  const which = mayText(args, 'path')
  const force = mayFlag(args, 'force') ?? false
  await identities.settled()
  const workflow = which === undefined ? needActive(context) : openWorkflow(context, which)
  if (!isGraphForeign(context)) frontend.capture(workflow)
  const neverSaved = !workflow.isPersisted && (workflow.activeState?.nodes?.length ?? 0) > 0
  if (!force && (workflow.isModified || neverSaved)) {
    throw new CommandError('unsaved_changes', `${workflow.filename} has unsaved work: save it, or close it with force after asking the person`)
  }
  recheck()
  const closed = { handle: identities.handleOf(workflow), title: workflow.filename }
  if (frontend.isActive(workflow)) {
    // Something else must be in front first: the store closes without painting another.
    const next = frontend.successor()
    if (next) await frontend.mount(next, isGraphForeign(context), recheck)
    else await frontend.newBlank(isGraphForeign(context))
    proven(context, `${closed.title} was about to be closed`, next ?? undefined)
  }
  await frontend.close(workflow)
  if (frontend.openWorkflows().some((other) => raw(other) === raw(workflow))) throw new CommandError('not_applied', `${closed.title} is still open`)
  return { closed, ...identityFields(identities.current()) }
}
