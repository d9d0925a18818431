// Which workflow instance is in front, through everything a person does; and what happens when that cannot be told.
import type { Page } from '@playwright/test'
import { done, identity, record, recorded, run, type Identity, type Json } from './support/canvas'
import { CANVAS_PACK, expect, test } from './support/fixtures'
import { command, switchWorkflow } from './support/page'

test.use({ packs: [CANVAS_PACK] })
test.describe.configure({ mode: 'serial' })

interface Listed {
  handle: string
  title: string
  active: boolean
  modified: boolean
  uuid: string
}

interface FrontendWindow {
  app: {
    rootGraph: { id: string; serialize(): unknown; configure(...args: unknown[]): unknown }
    loadGraphData(data: unknown, clean?: boolean, restore?: boolean, workflow?: unknown): Promise<unknown>
    graphToPrompt(...args: unknown[]): Promise<unknown>
    extensionManager: {
      command: { execute(id: string): Promise<void> }
      workflow: {
        activeWorkflow: { filename: string } | null
        openWorkflows: { filename: string }[]
        openWorkflow(workflow: unknown): Promise<unknown>
        renameWorkflow(workflow: unknown, path: string): Promise<void>
      }
    }
  }
}

async function now(page: Page): Promise<Identity> {
  const current = await identity(page)
  if (!current) throw new Error('no identity')
  return current
}

async function list(page: Page): Promise<Listed[]> {
  return (await done<{ workflows: Listed[] }>(page, 'workflow_list')).workflows
}

/** Titles of the workflows with unsaved changes. */
async function modified(page: Page): Promise<string[]> {
  return (await list(page)).filter((workflow) => workflow.modified).map((workflow) => workflow.title)
}

/** Starts a frontend command that asks for a name, and answers it as a person does. */
async function commandWithName(page: Page, id: string, name: string): Promise<void> {
  await page.evaluate((which) => {
    void (window as unknown as FrontendWindow).app.extensionManager.command.execute(which)
  }, id)
  const input = page.locator('[role="dialog"] input:visible').first()
  await input.fill(name)
  await input.press('Enter')
  await expect(page.locator('[role="dialog"] input:visible')).toHaveCount(0)
}

let boot: Identity
let second: Identity

test('switching away and back keeps each instance, and tells each change once, without gaps', async ({ stage: { page } }) => {
  boot = await now(page)
  await record(page)
  await command(page, 'Comfy.NewBlankWorkflow')
  second = await now(page)
  expect(second.uuid).not.toBe(boot.uuid)
  await switchWorkflow(page, 'Unsaved Workflow')
  await expect.poll(async () => (await identity(page))?.uuid).toBe(boot.uuid)
  await switchWorkflow(page, 'Unsaved Workflow (2)')
  await expect.poll(async () => (await identity(page))?.uuid).toBe(second.uuid)
  const { changes } = await recorded(page)
  expect(changes.map((change) => change?.uuid)).toEqual([second.uuid, boot.uuid, second.uuid])
  expect(await modified(page)).toEqual([])
})

test('while a load runs nothing is in front, and no change is told for it', async ({ stage: { page } }) => {
  await record(page)
  const during = await page.evaluate(async () => {
    const w = window as unknown as FrontendWindow & { orchestratorCanvas: { identity(): unknown } }
    const store = w.app.extensionManager.workflow
    const target = store.openWorkflows[0] as { filename: string; activeState: unknown } | undefined
    const loading = w.app.loadGraphData(JSON.parse(JSON.stringify(target?.activeState)), true, true, target)
    const seen = [w.orchestratorCanvas.identity()]
    await Promise.resolve()
    seen.push(w.orchestratorCanvas.identity())
    await loading
    return seen
  })
  expect(during).toEqual([null, null])
  expect((await now(page)).uuid).toBe(boot.uuid)
  expect((await recorded(page)).changes.map((change) => change?.uuid)).toEqual([boot.uuid])
})

test('a duplicate is another instance and the original stays itself', async ({ stage: { page } }) => {
  await record(page)
  await command(page, 'Comfy.DuplicateWorkflow')
  const copy = await now(page)
  expect([boot.uuid, second.uuid]).not.toContain(copy.uuid)
  expect(copy.canvas).not.toBe(boot.canvas)
  await switchWorkflow(page, 'Unsaved Workflow')
  await expect.poll(async () => (await identity(page))?.uuid).toBe(boot.uuid)
  expect((await recorded(page)).changes.map((change) => change?.uuid)).toEqual([copy.uuid, boot.uuid])
  await switchWorkflow(page, copy.title)
  await expect.poll(async () => (await identity(page))?.uuid).toBe(copy.uuid)
  await done(page, 'workflow_close', { force: true })
})

test('a first save by the person keeps the instance and changes its labels', async ({ stage: { page } }) => {
  await done(page, 'workflow_open', { path: second.handle })
  await done(page, 'graph_add_node', { class_type: 'KSampler' })
  await record(page)
  await commandWithName(page, 'Comfy.SaveWorkflow', 'by hand')
  await expect.poll(async () => (await identity(page))?.handle).toBe('wf:workflows/by hand.json')
  const { changes } = await recorded(page)
  expect(new Set(changes.map((change) => change?.uuid))).toEqual(new Set([second.uuid]))
  expect(changes.at(-1)).toMatchObject({ path: 'workflows/by hand.json', title: 'by hand', canvas: (await now(page)).canvas })
  expect(await modified(page)).toEqual([])
})

test('a save of a saved workflow tells nothing new; save as by the person forks', async ({ stage: { page } }) => {
  await done(page, 'graph_add_node', { class_type: 'VAEDecode' })
  await record(page)
  await command(page, 'Comfy.SaveWorkflow')
  await expect.poll(() => modified(page)).toEqual([])
  expect((await recorded(page)).changes).toEqual([])
  await commandWithName(page, 'Comfy.SaveWorkflowAs', 'by hand too')
  await expect.poll(async () => (await identity(page))?.handle).toBe('wf:workflows/by hand too.json')
  const copy = await now(page)
  expect(copy.uuid).not.toBe(second.uuid)
  await switchWorkflow(page, 'by hand')
  await expect.poll(async () => (await identity(page))?.uuid).toBe(second.uuid)
  expect((await recorded(page)).changes.at(-1)?.uuid).toBe(second.uuid)
})

test('a rename by the frontend keeps the instance and is told at once', async ({ stage: { page } }) => {
  await record(page)
  await page.evaluate(async () => {
    const { workflow } = (window as unknown as FrontendWindow).app.extensionManager
    await workflow.renameWorkflow(workflow.activeWorkflow, 'workflows/folder/renamed.json')
  })
  expect((await recorded(page)).changes).toMatchObject([{ uuid: second.uuid, handle: 'wf:workflows/folder/renamed.json', title: 'renamed' }])
})

test('the same file imported twice gives two instances on two canvases', async ({ stage: { page } }) => {
  const load = (): Promise<string> =>
    page.evaluate(async () => {
      const { app } = window as unknown as FrontendWindow
      const w = window as unknown as { imported?: unknown }
      w.imported ??= JSON.parse(JSON.stringify(app.rootGraph.serialize()))
      await app.loadGraphData(w.imported, true, true, null)
      return app.rootGraph.id
    })
  const graphs = [await load()]
  const first = await now(page)
  graphs.push(await load())
  const again = await now(page)
  expect(new Set(graphs).size).toBe(1)
  expect(again.uuid).not.toBe(first.uuid)
  expect(again.canvas).not.toBe(first.canvas)
  await done(page, 'workflow_close', { force: true })
  await done(page, 'workflow_close', { force: true })
})

test('a pointer that moves without its graph leaves nothing in front, and opening heals it without marking anything', async ({ stage: { page } }) => {
  await done(page, 'workflow_open', { path: boot.handle })
  const before = await done<{ outline: string }>(page, 'graph_outline')
  await record(page)
  await page.evaluate(async () => {
    const { workflow } = (window as unknown as FrontendWindow).app.extensionManager
    await workflow.openWorkflow(workflow.openWorkflows.find((open) => open.filename === 'renamed'))
  })
  expect(await identity(page)).toBeNull()
  expect((await recorded(page)).changes).toEqual([null])
  expect(await run(page, 'graph_add_node', { class_type: 'KSampler' })).toMatchObject({ code: 'unreadable' })
  expect(await run(page, 'graph_run')).toMatchObject({ code: 'unreadable' })
  expect(await run(page, 'workflow_save')).toMatchObject({ code: 'unreadable' })
  expect(await done(page, 'workflow_open', { path: boot.handle })).toMatchObject({ uuid: boot.uuid })
  expect(await done(page, 'graph_outline')).toMatchObject({ outline: before.outline })
  expect(await done(page, 'workflow_open', { path: 'folder/renamed' })).toMatchObject({ uuid: second.uuid })
  expect((await done<{ node_count: number }>(page, 'graph_outline')).node_count).toBe(2)
})

test('a load that fails half-way leaves nothing in front until a workflow is opened', async ({ stage: { page } }) => {
  await page.evaluate(async () => {
    const { app } = window as unknown as FrontendWindow
    const { rootGraph } = app
    const target = app.extensionManager.workflow.openWorkflows.find((open) => open.filename === 'by hand too') as { activeState: unknown } | undefined
    const configure = rootGraph.configure
    rootGraph.configure = (...args) => {
      rootGraph.configure = configure
      configure.apply(rootGraph, args)
      throw new Error('a custom node broke the load')
    }
    await app.loadGraphData(JSON.parse(JSON.stringify(target?.activeState)), true, true, target)
  })
  expect(await identity(page)).toBeNull()
  await page.keyboard.press('Escape')
  await done(page, 'workflow_open', { path: 'folder/renamed' })
  expect((await now(page)).uuid).toBe(second.uuid)
  expect((await done<{ node_count: number }>(page, 'graph_outline')).node_count).toBe(2)
})

test('a workflow that is opened while another loads waits for it', async ({ stage: { page } }) => {
  const [, opened] = await Promise.all([
    page.evaluate(async () => {
      const { app } = window as unknown as FrontendWindow
      const target = app.extensionManager.workflow.openWorkflows[0] as { activeState: unknown } | undefined
      await app.loadGraphData(JSON.parse(JSON.stringify(target?.activeState)), true, true, target)
    }),
    done<Identity>(page, 'workflow_open', { path: 'by hand too' }),
  ])
  expect(opened.title).toBe('by hand too')
  expect(await now(page)).toMatchObject({ uuid: opened.uuid })
  expect((await done<{ node_count: number }>(page, 'graph_outline')).node_count).toBe(2)
})

test('unsaved edits stay with their workflow across opens', async ({ stage: { page } }) => {
  await done(page, 'workflow_open', { path: 'by hand too' })
  await done(page, 'workflow_open', { path: 'folder/renamed' })
  await done(page, 'graph_add_node', { class_type: 'EmptyLatentImage' })
  const edited = await modified(page)
  expect(edited).toContain('renamed')
  expect(edited).not.toContain('by hand too')
  await done(page, 'workflow_open', { path: 'by hand too' })
  expect((await done<{ node_count: number }>(page, 'graph_outline')).node_count).toBe(2)
  await done(page, 'workflow_open', { path: 'folder/renamed' })
  expect((await done<{ node_count: number }>(page, 'graph_outline')).node_count).toBe(3)
  expect(await modified(page)).toEqual(edited)
})

test('a close by the person tells the one that comes to the front', async ({ stage: { page } }) => {
  await done(page, 'workflow_save')
  await record(page)
  await command(page, 'Workspace.CloseWorkflow')
  const front = await now(page)
  expect(front.uuid).not.toBe(second.uuid)
  expect((await recorded(page)).changes).toEqual([front])
  const again = await done<Identity>(page, 'workflow_open', { path: 'folder/renamed' })
  expect(again.uuid).not.toBe(second.uuid)
})

test('a switch in the middle of queueing refuses the run and queues neither workflow', async ({ stage: { page, server } }) => {
  const front = await done<Identity>(page, 'workflow_open', { path: boot.handle })
  const before = (await server.state()).history.length
  await page.evaluate(() => {
    const w = window as unknown as FrontendWindow & { building?: () => void; buildingNow?: Promise<void> }
    const original = w.app.graphToPrompt.bind(w.app)
    w.buildingNow = new Promise((resolve) => { w.building = resolve })
    w.app.graphToPrompt = async (...args) => {
      w.building?.()
      await new Promise((resolve) => setTimeout(resolve, 500))
      w.app.graphToPrompt = original
      return original(...args)
    }
  })
  const running = run(page, 'graph_run', {}, front.uuid)
  await page.evaluate(() => (window as unknown as { buildingNow: Promise<void> }).buildingNow)
  await switchWorkflow(page, 'renamed')
  expect(await running).toMatchObject({ ok: false, code: 'fence' })
  const state = await server.state()
  expect([state.history.length, state.pending, state.running] satisfies Json[]).toEqual([before, [], null])
  await page.keyboard.press('Escape')
})

test('nothing went wrong behind the scenes', ({ stage: { seen } }) => {
  expect(seen.strangers).toEqual([])
})
