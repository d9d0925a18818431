// Every command of the canvas, on the real frontend: what it returns, what it changes, how it is undone.
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { done, identity, record, recorded, run, type CanvasWindow, type Identity, type Json } from './support/canvas'
import { CANVAS_PACK, expect, test } from './support/fixtures'
import { command, pressUndo } from './support/page'

test.use({ packs: [CANVAS_PACK] })

interface Listed {
  handle: string
  path?: string
  title: string
  active: boolean
  modified: boolean
  persisted: boolean
  uuid: string
}

interface Added {
  node_id: number
  class_type: string
  title: string
  pos: [number, number]
  inputs: { name: string; type: string }[]
  outputs: { name: string; type: string }[]
  widgets: Record<string, Json>
}

type NodeRow = { id: number; type: string; title?: string; mode?: string; widgets: Record<string, Json> }

async function nodes(page: Parameters<typeof done>[0]): Promise<NodeRow[]> {
  return (await done<{ nodes: NodeRow[] }>(page, 'graph_query')).nodes
}

async function list(page: Parameters<typeof done>[0]): Promise<Listed[]> {
  return (await done<{ workflows: Listed[] }>(page, 'workflow_list')).workflows
}

test.describe.configure({ mode: 'serial' })

test('the canvas knows the boot workflow', async ({ stage: { page } }) => {
  const first = await identity(page)
  expect(first).toMatchObject({ title: 'Unsaved Workflow' })
  expect(first?.handle).toBe(`tmp:${first?.uuid}`)
  expect(first?.path).toBeUndefined()
  expect(await list(page)).toEqual([{ handle: first?.handle, title: 'Unsaved Workflow', active: true, modified: false, persisted: false, uuid: first?.uuid }])
})

test('an unknown command is refused by code', async ({ stage: { page } }) => {
  expect(await run(page, 'graph_explode')).toMatchObject({ ok: false, code: 'unknown_command' })
  expect(await run(page, 'constructor')).toMatchObject({ ok: false, code: 'unknown_command' })
})

test('outline and query read the default workflow and change nothing', async ({ stage: { page } }) => {
  const outline = await done<{ outline: string; node_count: number; truncated: boolean; title: string }>(page, 'graph_outline')
  expect(outline.title).toBe('Unsaved Workflow')
  expect(outline.outline).toMatch(/#\d+ KSampler .*steps=\d+/)
  expect(outline.outline).toMatch(/positive<-#\d+\.CONDITIONING/)
  expect(outline.truncated).toBe(false)
  const lines = outline.outline.split('\n')
  expect(lines.findIndex((line) => line.includes('VAEDecode'))).toBeGreaterThan(lines.findIndex((line) => line.includes(' KSampler')))
  const short = await done<{ outline: string; truncated: boolean }>(page, 'graph_outline', { max_chars: 200 })
  expect(short.truncated).toBe(true)
  expect(short.outline.length).toBeLessThan(260)

  const sampler = await done<{ nodes: NodeRow[]; matched: number; total: number }>(page, 'graph_query', { types: ['KSampler'] })
  expect(sampler).toMatchObject({ matched: 1, total: outline.node_count })
  const id = sampler.nodes[0]?.id ?? 0
  const upstream = await done<{ nodes: number[] }>(page, 'graph_query', { upstream_of: id, fields: 'ids' })
  const near = await done<{ nodes: number[] }>(page, 'graph_query', { upstream_of: id, depth: 1, fields: 'ids' })
  expect(near.nodes.length).toBeGreaterThan(2)
  expect(upstream.nodes.length).toBeGreaterThan(near.nodes.length)
  const down = await done<{ nodes: NodeRow[] }>(page, 'graph_query', { downstream_of: id })
  expect(down.nodes.map((node) => node.type).sort()).toEqual(['SaveImage', 'VAEDecode'])
  const steps = sampler.nodes[0]?.widgets['steps'] as number
  expect((await done<{ matched: number }>(page, 'graph_query', { where: [`steps>=${steps}`, 'sampler_name~res'] })).matched).toBe(1)
  expect((await done<{ matched: number }>(page, 'graph_query', { where: [`steps>${steps}`] })).matched).toBe(0)
  expect(await run(page, 'graph_query', { where: ['nonsense'] })).toMatchObject({ code: 'bad_value' })
  expect(await run(page, 'graph_query', { ids: [9999] })).toMatchObject({ code: 'unknown_node' })
  expect((await done<{ nodes: Json[]; truncated: boolean }>(page, 'graph_query', { limit: 2 }))).toMatchObject({ truncated: true })
  const detail = await done<{ nodes: { inputs: Json[]; widgets: { name: string; choices?: Json[] }[]; pos: Json }[] }>(page, 'graph_query', { ids: [id], fields: 'detail' })
  expect(detail.nodes[0]?.widgets.find((widget) => widget.name === 'sampler_name')?.choices).toContain('euler')
  expect(detail.nodes[0]?.inputs[0]).toMatchObject({ name: 'model', type: 'MODEL', from_output: 'MODEL' })
  expect((await list(page))[0]?.modified).toBe(false)
})

test('nodes_search finds types by name, title and kind of slot', async ({ stage: { page } }) => {
  const found = await done<{ nodes: { class_type: string; inputs: { name: string }[]; outputs: Json[] }[] }>(page, 'nodes_search', { query: 'ksampler' })
  expect(found.nodes[0]).toMatchObject({ class_type: 'KSampler', outputs: [{ name: 'LATENT', type: 'LATENT' }] })
  expect(found.nodes[0]?.inputs.map((input) => input.name)).toContain('steps')
  expect((await done<{ nodes: { class_type: string }[] }>(page, 'nodes_search', { query: 'load checkpoint', limit: 3 })).nodes[0]?.class_type).toBe('CheckpointLoaderSimple')
  expect(await done(page, 'nodes_search', { query: 'zzzz' })).toMatchObject({ matched: 0, nodes: [] })
})

test.describe('writes on a new workflow', () => {
  let mine: Identity
  let loader: Added
  let text: Added

  test('workflow_new makes an empty one in front', async ({ stage: { page } }) => {
    await record(page)
    const before = await identity(page)
    mine = await done<Identity>(page, 'workflow_new')
    expect(mine.uuid).not.toBe(before?.uuid)
    expect(mine.canvas).not.toBe(before?.canvas)
    expect(mine).toMatchObject({ title: 'Unsaved Workflow (2)', handle: `tmp:${mine.uuid}` })
    expect(await identity(page)).toMatchObject({ uuid: mine.uuid })
    expect((await recorded(page)).changes).toEqual([await identity(page)])
    expect(await done(page, 'graph_outline')).toMatchObject({ node_count: 0 })
    expect(await run(page, 'graph_screenshot')).toMatchObject({ code: 'bad_value' })
  })

  test('graph_add_node adds one, at a free place, and the frontend undoes it in one step', async ({ stage: { page } }) => {
    loader = await done<Added>(page, 'graph_add_node', { class_type: 'CheckpointLoaderSimple', pos: [40, 60], title: 'Loader' })
    expect(loader).toMatchObject({ class_type: 'CheckpointLoaderSimple', title: 'Loader', pos: [40, 60] })
    expect(loader.outputs.map((slot) => slot.name)).toEqual(['MODEL', 'CLIP', 'VAE'])
    expect(loader.widgets).toMatchObject({ ckpt_name: 'v1-5-pruned-emaonly-fp16.safetensors' })
    expect((await list(page)).find((workflow) => workflow.uuid === mine.uuid)?.modified).toBe(true)
    text = await done<Added>(page, 'graph_add_node', { class_type: 'CLIPTextEncode' })
    expect(text.inputs.map((slot) => slot.name)).toEqual(['clip'])
    const third = await done<Added>(page, 'graph_add_node', { class_type: 'KSampler' })
    expect(third.pos).not.toEqual(text.pos)
    await pressUndo(page)
    await expect.poll(async () => (await nodes(page)).map((node) => node.type)).toEqual(['CheckpointLoaderSimple', 'CLIPTextEncode'])
    expect(await identity(page)).toMatchObject({ uuid: mine.uuid })
  })

  test('unknown types are refused with the nearest names', async ({ stage: { page } }) => {
    const refused = await run(page, 'graph_add_node', { class_type: 'KSamplr' })
    expect(refused).toMatchObject({ code: 'unknown_class' })
    expect(refused.message).toContain('KSampler')
    expect(await run(page, 'graph_add_node', { class_type: 'KSampler', pos: [1] })).toMatchObject({ code: 'bad_value' })
    expect(await run(page, 'graph_add_node')).toMatchObject({ code: 'bad_value' })
    expect(await nodes(page)).toHaveLength(2)
  })

  test('graph_connect takes names and indexes, refuses what does not fit, and is one undo step', async ({ stage: { page } }) => {
    const asked = { from_node_id: loader.node_id, to_node_id: text.node_id }
    expect(await done(page, 'graph_connect', { ...asked, from_output: 'CLIP', to_input: 'clip' })).toMatchObject({ connected: { from_output: 'CLIP', to_input: 'clip', type: 'CLIP' } })
    const wrong = await run(page, 'graph_connect', { ...asked, from_output: 'MODEL', to_input: 'clip' })
    expect(wrong).toMatchObject({ code: 'bad_value' })
    expect(wrong.message).toContain('CLIP')
    expect(await run(page, 'graph_connect', { ...asked, from_output: 'CLIP', to_input: 'clup' })).toMatchObject({ code: 'unknown_input', message: expect.stringContaining('clip') })
    expect(await run(page, 'graph_connect', { ...asked, from_output: 'XLIP', to_input: 'clip' })).toMatchObject({ code: 'unknown_output', message: expect.stringContaining('MODEL') })
    expect(await run(page, 'graph_connect', { ...asked, to_node_id: 77, from_output: 0, to_input: 0 })).toMatchObject({ code: 'unknown_node', message: expect.stringContaining('CLIPTextEncode') })
    await pressUndo(page)
    await expect.poll(async () => JSON.stringify(await done(page, 'graph_outline'))).toContain('clip<-nothing')
    await done(page, 'graph_connect', { ...asked, from_output: 1, to_input: '0' })
    expect(JSON.stringify(await done(page, 'graph_outline'))).toContain(`clip<-#${loader.node_id}.CLIP`)
  })

  test('graph_disconnect removes links, named or all', async ({ stage: { page } }) => {
    expect(await done(page, 'graph_disconnect', { node_id: text.node_id, input: 'clip' })).toEqual({ node_id: text.node_id, disconnected: [{ input: 'clip', from_node_id: loader.node_id }] })
    expect(await done(page, 'graph_disconnect', { node_id: text.node_id })).toEqual({ node_id: text.node_id, disconnected: [] })
    await pressUndo(page)
    await expect.poll(async () => JSON.stringify(await done(page, 'graph_outline'))).toContain(`clip<-#${loader.node_id}.CLIP`)
    expect(await done(page, 'graph_disconnect', { node_id: String(text.node_id) })).toMatchObject({ disconnected: [{ input: 'clip' }] })
    expect(await run(page, 'graph_disconnect', { node_id: text.node_id, input: 'nope' })).toMatchObject({ code: 'unknown_input' })
  })

  test('graph_set_widget checks kind, limits and choices, returns what was before, and is one undo step', async ({ stage: { page } }) => {
    const sampler = await done<Added>(page, 'graph_add_node', { class_type: 'KSampler', pos: [700, 60] })
    const set = (widget: string, value: Json): ReturnType<typeof run> => run(page, 'graph_set_widget', { node_id: sampler.node_id, widget, value })
    expect(await set('steps', 33)).toMatchObject({ ok: true, result: { set: { node_id: sampler.node_id, widget: 'steps', value: 33, previous: 20 } } })
    expect(await set('sampler_name', 'heun')).toMatchObject({ ok: true, result: { set: { value: 'heun', previous: 'euler' } } })
    expect(await set('cfg', 7.5)).toMatchObject({ ok: true, result: { set: { value: 7.5 } } })
    for (const [widget, value, hint] of [
      ['steps', 0, '1 to 10000'],
      ['steps', 2.5, 'whole'],
      ['steps', '20', 'number'],
      ['sampler_name', 'eulr', 'euler'],
      ['cfg', true, 'number'],
    ] as const) {
      expect(await set(widget, value), `${widget}=${String(value)}`).toMatchObject({ code: 'bad_value', message: expect.stringContaining(hint) })
    }
    expect(await set('step', 3)).toMatchObject({ code: 'unknown_widget', message: expect.stringContaining('steps') })
    expect(await run(page, 'graph_set_widget', { node_id: 999, widget: 'steps', value: 1 })).toMatchObject({ code: 'unknown_node' })
    expect(await run(page, 'graph_set_widget', { node_id: sampler.node_id, widget: 'steps' })).toMatchObject({ code: 'bad_value' })
    const value = async (name: string): Promise<Json | undefined> => (await nodes(page)).find((node) => node.id === sampler.node_id)?.widgets[name]
    expect(await value('steps')).toBe(33)
    await pressUndo(page)
    await expect.poll(() => value('cfg')).toBe(8)
    expect(await value('sampler_name')).toBe('heun')
    await pressUndo(page)
    await expect.poll(() => value('sampler_name')).toBe('euler')
    expect(await value('steps')).toBe(33)
  })

  test('texts in page elements are set and shown', async ({ stage: { page } }) => {
    await done(page, 'graph_set_widget', { node_id: text.node_id, widget: 'text', value: 'a red cat' })
    expect((await nodes(page)).find((node) => node.id === text.node_id)?.widgets['text']).toBe('a red cat')
    await expect(page.locator('textarea').filter({ visible: true }).first()).toHaveValue('a red cat')
    expect(await run(page, 'graph_set_widget', { node_id: text.node_id, widget: 'text', value: 3 })).toMatchObject({ code: 'bad_value' })
  })

  test('a widget that is fed by a link says so', async ({ stage: { page } }) => {
    const number = await done<Added>(page, 'graph_add_node', { class_type: 'PrimitiveInt', pos: [40, 500] })
    const sampler = (await nodes(page)).find((node) => node.type === 'KSampler')?.id ?? 0
    await done(page, 'graph_connect', { from_node_id: number.node_id, from_output: 0, to_node_id: sampler, to_input: 'steps' })
    expect(await done(page, 'graph_set_widget', { node_id: sampler, widget: 'steps', value: 12 })).toMatchObject({ set: { value: 12 }, linked: true })
  })

  test('graph_edit_node changes title, place, size, mode, fold and colour', async ({ stage: { page } }) => {
    const id = text.node_id
    expect(await done(page, 'graph_edit_node', { node_id: id, title: 'Prompt', pos: [320, 60], size: [420, 240], mode: 'bypass', collapsed: true, color: '#223', bgcolor: 'red' })).toMatchObject({
      edited: { node_id: id, title: 'Prompt', pos: [320, 60], mode: 'bypass', collapsed: true, color: '#223' },
    })
    const detail = async (): Promise<Json | undefined> => (await done<{ nodes: Json[] }>(page, 'graph_query', { ids: [id], fields: 'detail' })).nodes[0]
    expect(await detail()).toMatchObject({ title: 'Prompt', mode: 'bypass', collapsed: true, size: [420, 240] })
    await pressUndo(page)
    await expect.poll(detail).not.toMatchObject({ title: 'Prompt' })
    expect(await detail()).toMatchObject({ mode: 'always' })
    expect(await done(page, 'graph_edit_node', { node_id: id, mode: 'never', collapsed: false })).toMatchObject({ edited: { mode: 'never', collapsed: false } })
    expect(await run(page, 'graph_edit_node', { node_id: id, mode: 'asleep' })).toMatchObject({ code: 'bad_value' })
    expect(await run(page, 'graph_edit_node', { node_id: id, color: 'very red' })).toMatchObject({ code: 'bad_value' })
    expect(await run(page, 'graph_edit_node', { node_id: id })).toMatchObject({ code: 'bad_value' })
  })

  test('graph_screenshot draws every node and leaves the view alone', async ({ stage: { page } }) => {
    const view = (): Promise<string> => page.evaluate(() => {
      const { canvas } = (window as unknown as { app: { canvas: { ds: { scale: number; offset: ArrayLike<number> }; canvas: HTMLCanvasElement } } }).app
      return JSON.stringify([canvas.ds.scale, Array.from(canvas.ds.offset), canvas.canvas.width, canvas.canvas.isConnected])
    })
    const before = await view()
    const shot = await done<{ image: string; mimeType: string; width: number; height: number }>(page, 'graph_screenshot')
    expect(shot.mimeType).toBe('image/png')
    expect(Buffer.from(shot.image, 'base64').subarray(1, 4).toString()).toBe('PNG')
    const colours = await page.evaluate(async (image) => {
      const bitmap = await createImageBitmap(await (await fetch(`data:image/png;base64,${image}`)).blob())
      const surface = new OffscreenCanvas(bitmap.width, bitmap.height).getContext('2d')
      surface?.drawImage(bitmap, 0, 0)
      const pixels = surface?.getImageData(0, 0, bitmap.width, bitmap.height).data ?? []
      const seen = new Set<number>()
      for (let i = 0; i < pixels.length; i += 4 * 7) seen.add(((pixels[i] ?? 0) << 16) | ((pixels[i + 1] ?? 0) << 8) | (pixels[i + 2] ?? 0))
      return seen.size
    }, shot.image)
    expect(colours).toBeGreaterThan(20)
    expect(await view()).toBe(before)
  })

  test('graph_get_errors names unconnected inputs and bad values', async ({ stage: { page } }) => {
    const errors = await done<{ errored_count: number; nodes: { type: string; errors: { code: string; input?: string }[] }[] }>(page, 'graph_get_errors')
    const sampler = errors.nodes.find((node) => node.type === 'KSampler')
    expect(sampler?.errors.map((error) => error.input).sort()).toEqual(['latent_image', 'model', 'negative', 'positive'])
    expect(errors.nodes.some((node) => node.type === 'CLIPTextEncode')).toBe(false)
  })

  test('graph_remove_node removes one with its links, in one undo step', async ({ stage: { page } }) => {
    const before = (await nodes(page)).length
    const sampler = (await nodes(page)).find((node) => node.type === 'KSampler')?.id ?? 0
    expect(await done(page, 'graph_remove_node', { node_id: sampler })).toEqual({ removed: { node_id: sampler, class_type: 'KSampler', links: 1 } })
    expect(await nodes(page)).toHaveLength(before - 1)
    await pressUndo(page)
    await expect.poll(async () => (await nodes(page)).length).toBe(before)
    expect(JSON.stringify(await done(page, 'graph_outline'))).toContain('steps<-#')
    expect(await run(page, 'graph_remove_node', { node_id: 12345 })).toMatchObject({ code: 'unknown_node' })
  })

  test('a failed fence leaves the graph untouched and every write asks it', async ({ stage: { page } }) => {
    const before = JSON.stringify(await nodes(page))
    const writes: [string, Record<string, Json>][] = [
      ['graph_add_node', { class_type: 'KSampler' }],
      ['graph_remove_node', { node_id: text.node_id }],
      ['graph_connect', { from_node_id: loader.node_id, from_output: 'CLIP', to_node_id: text.node_id, to_input: 'clip' }],
      ['graph_disconnect', { node_id: text.node_id }],
      ['graph_set_widget', { node_id: text.node_id, widget: 'text', value: 'x' }],
      ['graph_edit_node', { node_id: text.node_id, title: 'x' }],
      ['graph_run', {}],
      ['workflow_save_as', { name: 'fenced' }],
      ['workflow_rename', { name: 'fenced' }],
      ['workflow_close', { force: true }],
    ]
    for (const [name, args] of writes) {
      expect(await run(page, name, args, 'another-instance'), name).toMatchObject({ ok: false, code: 'fence' })
    }
    expect(JSON.stringify(await nodes(page))).toBe(before)
    expect(await identity(page)).toMatchObject({ uuid: mine.uuid, handle: `tmp:${mine.uuid}` })
  })
})

test.describe('runs', () => {
  test('graph_run queues and the end is told with its images', async ({ stage: { page, server } }) => {
    const first = (await list(page)).find((workflow) => workflow.title === 'Unsaved Workflow')
    await done(page, 'workflow_open', { path: first?.handle ?? '' })
    await record(page)
    const queued = await done<{ queued: boolean; prompt_id: string }>(page, 'graph_run')
    expect(queued.queued).toBe(true)
    await expect.poll(async () => (await recorded(page)).finishedRuns).toEqual([
      { prompt_id: queued.prompt_id, status: 'success', images: [{ filename: expect.stringContaining('fixture_'), subfolder: '', type: 'output' }] },
    ])
    expect((await server.state()).history).toContain(queued.prompt_id)
  })

  test('a batch gives every prompt id', async ({ stage: { page } }) => {
    await record(page)
    const queued = await done<{ prompt_id: string; prompt_ids: string[] }>(page, 'graph_run', { batch_count: 3 })
    expect(new Set(queued.prompt_ids).size).toBe(3)
    await expect.poll(async () => (await recorded(page)).finishedRuns.length).toBe(3)
    expect(await run(page, 'graph_run', { batch_count: 0 })).toMatchObject({ code: 'bad_value' })
  })

  test('an interrupt and an error are told as what they are', async ({ stage: { page, server } }) => {
    await record(page)
    await server.control({ step_ms: 1000 })
    const { prompt_id } = await done<{ prompt_id: string }>(page, 'graph_run')
    await expect.poll(async () => (await server.state()).running).toBe(prompt_id)
    await command(page, 'Comfy.Interrupt')
    await expect.poll(async () => (await recorded(page)).finishedRuns).toEqual([{ prompt_id, status: 'interrupted', images: [] }])
    await server.control({ step_ms: 20, failing_class: 'KSampler' })
    await record(page)
    const failing = await done<{ prompt_id: string }>(page, 'graph_run')
    await expect.poll(async () => (await recorded(page)).finishedRuns).toMatchObject([
      { prompt_id: failing.prompt_id, status: 'error', error: { message: 'fixture failure', node_type: 'KSampler' } },
    ])
    await server.control({ failing_class: null })
    expect(await done(page, 'graph_get_errors')).toMatchObject({ last_run_error: { message: 'fixture failure' } })
    await page.keyboard.press('Escape')
  })

  test('a run that ends while the socket is down is told after reconnecting', async ({ stage: { page, server } }) => {
    await record(page)
    await server.control({ step_ms: 60 })
    const { prompt_id } = await done<{ prompt_id: string }>(page, 'graph_run')
    await server.control({ drop_sockets_ms: 2000 })
    await expect.poll(async () => (await server.state()).history).toContain(prompt_id)
    expect((await recorded(page)).finishedRuns).toEqual([])
    await expect.poll(async () => (await recorded(page)).finishedRuns, { timeout: 20_000 }).toMatchObject([{ prompt_id, status: 'success', images: [{ type: 'output' }] }])
    await server.control({ step_ms: 20 })
  })

  test('a rejected run names the nodes and queues nothing', async ({ stage: { page, server } }) => {
    const before = (await server.state()).history.length
    const fresh = await done<Identity>(page, 'workflow_new')
    expect(await run(page, 'graph_run')).toMatchObject({ code: 'rejected' })
    await page.keyboard.press('Escape')
    const save = await done<Added>(page, 'graph_add_node', { class_type: 'SaveImage' })
    const refused = await run(page, 'graph_run')
    expect(refused).toMatchObject({ code: 'rejected', detail: { node_errors: [{ node_id: save.node_id, class_type: 'SaveImage', errors: [{ input: 'images' }] }] } })
    expect(refused.message).toContain('SaveImage')
    await page.keyboard.press('Escape')
    expect((await server.state()).history).toHaveLength(before)
    expect(await done(page, 'workflow_close', { force: true })).toMatchObject({ closed: { handle: fresh.handle } })
  })
})

test.describe('files', () => {
  test('first save, save, save as, rename and close, with the files they leave', async ({ stage: { page, server } }) => {
    const file = (name: string): string => join(server.userDirectory, 'default/workflows', name)
    const made = await done<Identity>(page, 'workflow_new')
    await done(page, 'graph_add_node', { class_type: 'KSampler' })
    expect(await run(page, 'workflow_save')).toMatchObject({ code: 'name_needed' })
    expect(await run(page, 'workflow_close')).toMatchObject({ code: 'unsaved_changes' })
    expect(await run(page, 'workflow_save_as', { name: '../../out' })).toMatchObject({ code: 'bad_value' })

    const first = await done<Identity>(page, 'workflow_save', { name: 'portraits/one' })
    expect(first).toMatchObject({ uuid: made.uuid, handle: 'wf:workflows/portraits/one.json', path: 'workflows/portraits/one.json', title: 'one', first_save: true })
    expect(JSON.parse(readFileSync(file('portraits/one.json'), 'utf8'))).toMatchObject({ nodes: [{ type: 'KSampler' }] })

    await done(page, 'graph_add_node', { class_type: 'VAEDecode' })
    expect(await done(page, 'workflow_save')).toMatchObject({ saved: true, uuid: made.uuid })
    expect((JSON.parse(readFileSync(file('portraits/one.json'), 'utf8')) as { nodes: Json[] }).nodes).toHaveLength(2)

    const copy = await done<Identity>(page, 'workflow_save_as', { name: 'two' })
    expect(copy).toMatchObject({ path: 'workflows/portraits/two.json', copied_from: first.handle })
    expect(copy.uuid).not.toBe(made.uuid)
    expect(copy.canvas).not.toBe(first.canvas)
    expect(existsSync(file('portraits/two.json'))).toBe(true)
    expect(await run(page, 'workflow_save_as', { name: 'one' })).toMatchObject({ code: 'name_taken' })
    expect(await run(page, 'workflow_rename', { name: 'one' })).toMatchObject({ code: 'name_taken' })

    const renamed = await done<Identity>(page, 'workflow_rename', { name: 'three' })
    expect(renamed).toMatchObject({ uuid: copy.uuid, path: 'workflows/portraits/three.json', renamed: { to: 'workflows/portraits/three.json' } })
    expect(existsSync(file('portraits/two.json'))).toBe(false)
    expect(existsSync(file('portraits/three.json'))).toBe(true)
    await done(page, 'workflow_rename', { path: 'portraits/one', name: 'uno' })
    expect((await list(page)).map((workflow) => workflow.title)).toEqual(expect.arrayContaining(['uno', 'three']))
    expect(await identity(page)).toMatchObject({ uuid: copy.uuid })

    await done(page, 'graph_add_node', { class_type: 'VAEEncode' })
    expect(await run(page, 'workflow_close')).toMatchObject({ code: 'unsaved_changes' })
    const closed = await done<Identity & { closed: Json }>(page, 'workflow_close', { force: true })
    expect(closed.closed).toMatchObject({ handle: 'wf:workflows/portraits/three.json' })
    expect(closed.uuid).toBe((await identity(page))?.uuid)
    expect(closed.uuid).not.toBe(copy.uuid)
    expect((await list(page)).map((workflow) => workflow.title)).not.toContain('three')

    const again = await done<Identity>(page, 'workflow_open', { path: 'three' })
    expect(again).toMatchObject({ path: 'workflows/portraits/three.json', modified: false })
    expect(again.uuid).not.toBe(copy.uuid)
    expect(await done(page, 'graph_outline')).toMatchObject({ node_count: 2 })
    await done(page, 'workflow_close', { path: 'wf:workflows/portraits/uno.json' })
    expect(await identity(page)).toMatchObject({ uuid: again.uuid })
  })

  test('a copy that is refused on its way leaves no trace', async ({ stage: { page, server } }) => {
    const before = await identity(page)
    const code = await page.evaluate(async () => {
      const { orchestratorCanvas } = window as unknown as CanvasWindow
      let calls = 0
      const second = (): void => {
        calls += 1
        if (calls === 2) throw Object.assign(new Error('fenced'), { code: 'fence' })
      }
      return orchestratorCanvas.run('workflow_save_as', { name: 'late' }, second).then(() => 'done', (error: { code: string }) => error.code)
    })
    expect(code).toBe('fence')
    expect(await identity(page)).toEqual(before)
    expect(existsSync(join(server.userDirectory, 'default/workflows/portraits/late.json'))).toBe(false)
    expect(await done(page, 'workflow_save_as', { name: 'late' })).toMatchObject({ path: 'workflows/portraits/late.json' })
    await done(page, 'workflow_open', { path: 'three' })
  })

  test('a server that fails is told as failed', async ({ stage: { page } }) => {
    await page.route('**/api/userdata/**', (route) => route.fulfill({ status: 500, body: 'disk full' }))
    await done(page, 'graph_add_node', { class_type: 'VAEEncode' })
    expect(await run(page, 'workflow_save')).toMatchObject({ code: 'failed', message: expect.stringContaining('workflow_save') })
    await page.unroute('**/api/userdata/**')
    expect((await list(page)).find((workflow) => workflow.active)?.modified).toBe(true)
    expect(await done(page, 'workflow_save')).toMatchObject({ saved: true })
  })

  test('inside a subgraph its own graph is read and changed', async ({ stage: { page } }) => {
    await page.evaluate(() => {
      const { app } = window as unknown as { app: { canvas: { selectItems(items: unknown[]): void; setGraph(graph: unknown): void }; rootGraph: { nodes: { subgraph?: unknown }[]; convertToSubgraph(items: Set<unknown>): unknown } } }
      app.rootGraph.convertToSubgraph(new Set(app.rootGraph.nodes.slice(0, 2)))
      app.canvas.setGraph(app.rootGraph.nodes.find((node) => node.subgraph)?.subgraph)
    })
    const inside = await done<{ node_count: number; viewing: { scope: string } }>(page, 'graph_outline')
    expect(inside).toMatchObject({ node_count: 2, viewing: { scope: 'subgraph' } })
    const added = await done<Added>(page, 'graph_add_node', { class_type: 'KSampler' })
    expect(await nodes(page)).toHaveLength(3)
    expect(await done(page, 'graph_remove_node', { node_id: added.node_id })).toMatchObject({ removed: { class_type: 'KSampler' } })
    await page.evaluate(() => {
      const { app } = window as unknown as { app: { canvas: { setGraph(graph: unknown): void }; rootGraph: unknown } }
      app.canvas.setGraph(app.rootGraph)
    })
    expect(JSON.stringify(await done(page, 'graph_outline'))).toContain('[subgraph]')
    await done(page, 'workflow_close', { force: true })
    await done(page, 'workflow_open', { path: 'three' })
  })

  test('workflow_open takes handle, path and title, and refuses what is ambiguous or unknown', async ({ stage: { page } }) => {
    for (const path of ['wf:workflows/portraits/three.json', 'portraits/three', 'workflows/portraits/three.json', 'portraits\\three.json', 'uno']) {
      expect((await done<Identity>(page, 'workflow_open', { path })).title).toBe(path === 'uno' ? 'uno' : 'three')
    }
    await done(page, 'workflow_new')
    await done(page, 'workflow_save_as', { name: 'other/uno' })
    expect(await run(page, 'workflow_open', { path: 'uno' })).toMatchObject({ code: 'ambiguous_workflow', message: expect.stringContaining('portraits/uno') })
    expect(await run(page, 'workflow_open', { path: 'unknown-name' })).toMatchObject({ code: 'unknown_workflow', message: expect.stringContaining('portraits/three') })
    expect(await run(page, 'workflow_open', {})).toMatchObject({ code: 'bad_value' })
  })

  test('opening the last workflow’s successor: closing the only one leaves a blank one', async ({ stage: { page } }) => {
    for (const workflow of await list(page)) {
      if (!workflow.active) await done(page, 'workflow_close', { path: workflow.handle, force: true })
    }
    const only = await identity(page)
    const after = await done<Identity>(page, 'workflow_close', { force: true })
    expect(after.uuid).not.toBe(only?.uuid)
    expect(await list(page)).toMatchObject([{ uuid: after.uuid, active: true }])
  })
})

test('nothing went wrong behind the scenes', ({ stage: { seen } }) => {
  expect(seen.errors).toEqual([])
  expect(seen.strangers).toEqual([])
})
