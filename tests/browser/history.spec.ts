// What is past, as a person uses it: back to a message, on with an earlier session, search, and saving the conversation.
import { readFile } from 'node:fs/promises'
import { scriptedAcp } from './support/daemon'
import { expect, test } from './support/fixtures'
import { boot } from './support/page'
import { startScene, type Scene } from './support/scene'

let scene: Scene

test.describe.configure({ mode: 'serial', timeout: 90_000 })

test.beforeAll(async ({ browser, frontend }) => {
  test.setTimeout(120_000)
  scene = await startScene(browser, frontend, (scratch) => `default_agent = "one"\n${scriptedAcp('one', scratch)}\n`)
})

test.afterAll(() => scene.stop())

test('b1 back to a message shows what was before it and gives its text back', async () => {
  const { panel } = scene
  await panel.send('@@say the heron is first@@')
  await panel.said('the heron is first')
  await panel.idle()
  await panel.send('@@say the stork is second@@')
  await panel.said('the stork is second')
  await panel.idle()
  await panel.part('rewind').nth(1).click({ force: true })
  await expect(panel.rows('boundary')).toHaveCount(1)
  await expect(panel.rows('say')).toHaveText(['the heron is first'])
  await expect(panel.rows('user')).toHaveCount(1)
  await expect(panel.part('composer')).toHaveValue('@@say the stork is second@@')
  await panel.part('composer').fill('')
})

test('b1 it is the same after a reload, and nothing is kept in the storage that the page shares', async () => {
  const { page, panel } = scene
  await page.reload()
  await boot(page, scene.comfy.url)
  await panel.open()
  await expect(panel.rows('say')).toHaveText(['the heron is first'])
  const kept = await page.evaluate(() => Object.entries(localStorage).filter(([name, value]) => `${name}${value}`.includes('heron')))
  expect(kept, 'report 10').toEqual([])
})

test('what was gone back from is found, and goes on', async () => {
  const { panel } = scene
  await panel.part('past').click()
  await expect(panel.part('session')).toHaveCount(1)
  await panel.part('search').fill('STORK second')
  await panel.part('search').press('Enter')
  await expect(panel.part('hit').first()).toContainText('the stork is second')
  await panel.part('session').first().click()
  await expect(panel.rows('say')).toHaveText(['the heron is first', 'the stork is second'])
  await expect(panel.part('history')).toHaveCount(0)
})

test('the conversation is saved as a document', async () => {
  const { page, panel } = scene
  await panel.part('past').click()
  const coming = page.waitForEvent('download')
  await panel.part('export-md').click()
  const download = await coming
  expect(download.suggestedFilename()).toBe('conversation-one.md')
  const text = await readFile(await download.path(), 'utf8')
  expect(text).toContain('the stork is second')
})
