// What the panel leaves in the page's shared storage, and how it fares when that is full.
import type { Page } from '@playwright/test'
import { scriptedAcp } from './support/daemon'
import { expect, test } from './support/fixtures'
import { startScene, type Scene } from './support/scene'

let scene: Scene

test.describe.configure({ mode: 'serial', timeout: 90_000 })

test.beforeAll(async ({ browser, frontend }) => {
  test.setTimeout(120_000)
  const configuration = (scratch: string): string => `default_agent = "one"\n${scriptedAcp('one', scratch)}\n`
  scene = await startScene(browser, frontend, configuration)
})

test.afterAll(() => scene.stop())

test('report_010 a long talk leaves no key in localStorage and at most two small ones in sessionStorage', async () => {
  const { panel, page } = scene
  const before = Object.keys(await kept(page, 'localStorage'))
  for (let turn = 0; turn < 5; turn += 1) {
    await panel.send(`@@tool panel_add_node {"class_type": "VAEDecode"}@@ @@say ${'a long answer '.repeat(400)}number ${turn}@@`)
    await panel.said(`number ${turn}`)
    await panel.idle()
  }
  const after = await kept(page, 'localStorage')
  const drafts = Object.entries(after).filter(([key, value]) => !before.includes(key) && value.includes('a long answer'))
  expect(drafts).toEqual([])
  expect(Object.keys(after).filter((key) => /orchestrator|comfyui-mcp/i.test(key))).toEqual([])
  const ours = Object.entries(await kept(page, 'sessionStorage')).filter(([key]) => /orchestrator/i.test(key))
  expect(ours.map(([key]) => key).sort()).toEqual(['comfy-orchestrator.begun', 'comfy-orchestrator.tab'])
  expect(ours.reduce((bytes, [key, value]) => bytes + key.length + value.length, 0)).toBeLessThan(8_192)
})

test('report_010 with both stores filled to the last byte the panel starts, talks and writes, and takes no room', async () => {
  const { panel, page } = scene
  await page.addInitScript(() => {
    for (const store of [localStorage, sessionStorage]) {
      for (let size = 1 << 20; size >= 1; size = Math.floor(size / 2)) {
        try {
          for (let at = 0; at < 64; at += 1) store.setItem(`filler.${size}.${at}`, 'x'.repeat(size))
        } catch {
          // As full as it gets with pieces of this size.
        }
      }
    }
  })
  await page.evaluate(() => sessionStorage.clear())
  await page.reload({ waitUntil: 'commit' })
  await panel.open()
  await expect(panel.rows('say').filter({ hasText: 'number 4' })).toHaveCount(1)
  await panel.send('@@tool panel_add_node {"class_type": "PreviewImage"}@@ @@say Room or no room.@@')
  await panel.said('Room or no room.')
  await panel.idle()
  await expect(panel.rows('action').filter({ hasText: 'panel_add_node' }).last()).not.toContainText(/refused|failed/i)
  expect(scene.seen.errors.filter((error) => /comfy-orchestrator|co-/.test(error))).toEqual([])
})

function kept(page: Page, store: 'localStorage' | 'sessionStorage'): Promise<Record<string, string>> {
  return page.evaluate((name) => ({ ...window[name] }), store)
}
