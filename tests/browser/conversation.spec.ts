// The whole product: the real Claude program on a scripted model, the real daemon, the real ComfyUI frontend.
import { claudeOn, scriptedAcp, sessions, startDaemon, startModel, type ScriptedModel } from './support/daemon'
import { expect, test } from './support/fixtures'
import { activeWorkflowName, command, ready, switchWorkflow } from './support/page'
import { linkCount, nodeTypes, type Panel } from './support/panel'
import { panelOf, startScene, type Scene } from './support/scene'

let model: ScriptedModel
let one: Panel
let two: Panel
let scene: Scene

test.describe.configure({ mode: 'serial', timeout: 180_000 })

test.beforeAll(async ({ browser, frontend }) => {
  test.setTimeout(180_000)
  model = await startModel()
  const configuration = (scratch: string): string => `default_agent = "claude"\n${claudeOn(model, scratch)}\n${scriptedAcp('other', scratch)}`
  scene = await startScene(browser, frontend, configuration, { tabs: 2 })
  one = scene.panel
  two = panelOf(scene.panels, 1)
})

test.afterAll(async () => {
  await scene.stop()
  await model.stop()
})

test('a message in tab 1 is answered in both tabs, and edits land on the workflow it was about', async () => {
  const script = [
    '@@say I add two nodes.@@',
    '@@tool panel_add_node {"class_type": "VAEDecode"}@@',
    '@@tool panel_add_node {"class_type": "PreviewImage"}@@',
    '@@tool panel_connect {"from_node_id": "$last2:/node_id", "from_output": "IMAGE", "to_node_id": "$last:/node_id", "to_input": "images"}@@',
    '@@slow 2 These words come one after the other.@@',
  ]
  await one.send(`Please decode and show. ${script.join(' ')}`)
  await two.said('I add two nodes.')
  await one.said('These words come one after the other.')
  await one.idle()
  expect(await nodeTypes(one.page)).toEqual(['PreviewImage', 'VAEDecode'])
  expect(await linkCount(one.page)).toBe(1)
  expect(await nodeTypes(two.page)).toEqual([])
  await two.said('These words come one after the other.')
  await expect(two.rows('user').filter({ hasText: 'Please decode and show.' })).toBeVisible()
})

test('a new workflow in mid-turn: the next write is refused, nothing changes there, and the agent re-targets and goes on', async () => {
  const { home, daemon } = scene
  const before = { session: sessions(home), agents: daemon.children() }
  const first = await activeWorkflowName(one.page)
  const script = [
    '@@slow 4 Let me think about it for a while before I do anything at all.@@',
    '@@tool panel_add_node {"class_type": "KSampler"}@@',
    '@@tool panel_set_workflow_target {"mode": "current"}@@',
    '@@tool panel_add_node {"class_type": "EmptyLatentImage"}@@',
    '@@say Went on in the new workflow.@@',
  ]
  await one.send(script.join(' '))
  await expect(one.page.getByText('Let me think')).toBeVisible({ timeout: 30_000 })
  await command(one.page, 'Comfy.NewBlankWorkflow')
  await one.said('Went on in the new workflow.', 60_000)
  await one.idle()
  expect(await nodeTypes(one.page)).toEqual(['EmptyLatentImage'])
  await expect(one.rows('action').filter({ hasText: 'panel_set_workflow_target' }).first()).toBeVisible()
  await switchWorkflow(one.page, first ?? '')
  expect(await nodeTypes(one.page)).toEqual(['PreviewImage', 'VAEDecode'])
  expect(sessions(home)).toEqual(before.session)
  expect(daemon.children()).toEqual(before.agents)
})

test('two backends: no frame and no call crosses over', async () => {
  await two.part('backend').selectOption('other')
  await expect(two.rows('user')).toHaveCount(0)
  await two.send('@@say Only for the other one.@@ @@tool panel_add_node {"class_type": "VAEEncode"}@@ @@say Added.@@')
  await one.send('@@say Only for Claude.@@ @@tool panel_add_node {"class_type": "LatentUpscale"}@@ @@say Added too.@@')
  await two.said('Added.')
  await one.said('Added too.')
  await two.idle()
  await one.idle()
  await expect(one.page.getByTestId('co-transcript').getByText('Only for the other one.')).toHaveCount(0)
  await expect(two.page.getByTestId('co-transcript').getByText('Only for Claude.')).toHaveCount(0)
  expect(await nodeTypes(two.page)).toEqual(['VAEEncode'])
  expect(await nodeTypes(one.page)).toEqual(['LatentUpscale', 'PreviewImage', 'VAEDecode'])
})

test('a reload and a restart of the daemon keep the conversation and the session', async () => {
  const { home } = scene
  const before = sessions(home)
  await one.page.reload({ waitUntil: 'commit' })
  await ready(one.page)
  await one.open()
  await one.said('Went on in the new workflow.')
  expect(await scene.daemon.stop()).toBe(0)
  await expect(one.part('status')).not.toHaveAttribute('data-state', 'connected', { timeout: 15_000 })
  scene.daemon = await startDaemon(home)
  await one.connected()
  await one.send('@@say Still here.@@')
  await one.said('Still here.', 60_000)
  await one.idle()
  expect(sessions(home)['orchestrator::claude']).toBe(before['orchestrator::claude'])
  await expect(one.rows('say').filter({ hasText: 'I add two nodes.' })).toHaveCount(1)
})

test('f6 blind mode: the picture is withheld from the real agent, in words that it can act on', async () => {
  await two.part('backend').selectOption('claude')
  await one.part('blind').click()
  await expect(one.part('blind')).toBeChecked()
  await expect(two.part('blind')).toBeChecked()
  // Without words of its own, the model repeats what the tool told it.
  await two.send('@@tool panel_screenshot {}@@')
  await two.said(/blind mode/i)
  await two.idle()
  await one.part('blind').click()
  await expect(two.part('blind')).not.toBeChecked()
})
