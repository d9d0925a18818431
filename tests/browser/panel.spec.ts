// The panel as a person uses it, with a scripted agent behind it: queue, stop, pin, questions, plan, runs, New chat.
import { scriptedAcp } from './support/daemon'
import { expect, test } from './support/fixtures'
import { activeWorkflowName, command, switchWorkflow } from './support/page'
import { nodeTypes } from './support/panel'
import { startScene, type Scene } from './support/scene'

let scene: Scene

test.describe.configure({ mode: 'serial', timeout: 90_000 })

test.beforeAll(async ({ browser, frontend }) => {
  test.setTimeout(120_000)
  scene = await startScene(browser, frontend, (scratch) => `default_agent = "one"\n${scriptedAcp('one', scratch)}\n[limits]\nask = 20000\n`)
})

test.afterAll(() => scene.stop())

test('what a message acts on is in view, and typing reaches no shortcut of the canvas', async () => {
  const { panel, page } = scene
  await expect(panel.part('acts-on')).toContainText((await activeWorkflowName(page)) ?? '?')
  await panel.part('composer').click()
  await page.keyboard.type('delete q r')
  await expect(panel.part('composer')).toHaveValue('delete q r')
  await panel.part('composer').fill('')
})

test('Stop ends the turn; a message that waits can be taken back', async () => {
  const { panel } = scene
  await panel.send('@@slow 30 These words would take half a minute to come out of the agent@@')
  await expect(panel.part('stop')).toBeVisible()
  await panel.send('this one waits')
  await expect(panel.part('queued')).toHaveCount(1)
  await panel.part('cancel').click()
  await expect(panel.part('queued')).toHaveCount(0)
  await panel.part('stop').click()
  await panel.idle()
  await expect(panel.rows('turn_end').last()).toBeVisible()
  await panel.send('@@say Ready for more.@@')
  await panel.said('Ready for more.')
  await panel.idle()
  await expect(panel.rows('say').filter({ hasText: 'this one waits' })).toHaveCount(0)
})

test('a pinned workflow refuses calls while another is in front', async () => {
  const { panel, page } = scene
  await panel.part('target').selectOption('pin')
  await expect(panel.part('target')).toHaveValue('pinned')
  const pinned = (await activeWorkflowName(page)) ?? ''
  await command(page, 'Comfy.NewBlankWorkflow')
  await panel.send('@@tool panel_add_node {"class_type": "KSampler"}@@')
  await expect(panel.rows('action').filter({ hasText: 'panel_add_node' })).not.toHaveCount(0)
  await panel.idle()
  expect(await nodeTypes(page)).toEqual([])
  await expect(panel.rows('say').filter({ hasText: 'pinned' })).not.toHaveCount(0)
  await switchWorkflow(page, pinned)
  await panel.send('@@tool panel_add_node {"class_type": "KSampler"}@@ @@say Now it is there.@@')
  await panel.said('Now it is there.')
  await panel.idle()
  expect(await nodeTypes(page)).toEqual(['KSampler'])
  await panel.part('target').selectOption('current')
  await expect(panel.part('target')).toHaveValue('current')
})

test('a question is answered with a click, and the plan is shown', async () => {
  const { panel } = scene
  const script = [
    '@@tool panel_set_todo {"items": [{"text": "Choose", "status": "active"}, {"text": "Build", "status": "pending"}]}@@',
    '@@tool panel_ask {"question": "Which colour?", "options": ["red", "blue"]}@@',
  ]
  await panel.send(script.join(' '))
  await expect(panel.part('todo')).toContainText('Build')
  await expect(panel.part('question')).toContainText('Which colour?')
  await panel.part('choice').filter({ hasText: 'blue' }).click()
  await expect(panel.part('question')).toHaveCount(0)
  await panel.idle()
  await panel.said(/blue/)
})

test('a run is queued, and the agent is told when it has ended', async () => {
  const { panel } = scene
  const script = [
    '@@tool panel_add_node {"class_type": "EmptyImage"}@@',
    '@@tool panel_add_node {"class_type": "PreviewImage"}@@',
    '@@tool panel_connect {"from_node_id": "$last2:/node_id", "from_output": 0, "to_node_id": "$last:/node_id", "to_input": "images"}@@',
    '@@tool panel_remove_node {"node_id": 1}@@',
    '@@tool panel_run {}@@',
    '@@say Queued.@@',
  ]
  await panel.send(script.join(' '))
  await panel.said('Queued.')
  await expect(panel.rows('event').filter({ hasText: 'success' })).not.toHaveCount(0, { timeout: 20_000 })
  await panel.idle()
  expect((await scene.comfy.state()).history).toHaveLength(1)
})

test('f4 an installation is in view while it goes on, and its end is told', async () => {
  const { panel, comfy } = scene
  await comfy.control({ manager: { ms: 1500 } })
  await panel.send('@@tool panel_install_node {"id": "some-pack"}@@ @@say Asked for.@@')
  await expect(panel.part('download')).toContainText('Installing')
  await expect(panel.part('download')).toContainText('some-pack')
  await panel.said('Asked for.')
  await expect(panel.part('download')).toContainText('Installed', { timeout: 15_000 })
  await expect(panel.rows('event').filter({ hasText: 'is done' })).toBeVisible()
  await panel.idle()
  await expect(panel.part('download')).toHaveCount(0, { timeout: 15_000 })
})

test('New chat clears the transcript and keeps the canvas', async () => {
  const { panel, page } = scene
  await panel.part('new-chat').click()
  await expect(panel.rows('user')).toHaveCount(0)
  await panel.send('@@say A new beginning.@@')
  await panel.said('A new beginning.')
  expect((await nodeTypes(page)).length).toBeGreaterThan(0)
})

test('nothing left this machine and no script failed', () => {
  expect(scene.seen.strangers).toEqual([])
  expect(scene.seen.errors).toEqual([])
})
