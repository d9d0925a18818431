// The test object every browser spec imports: one server and one page for each frontend version, shared by its tests.
import { test as base, type Page } from '@playwright/test'
import { startComfy, type ComfyServer, type FrontendVersion } from './comfy'
import { buildCanvasPack } from './canvas'
import { boot, watch } from './page'

/** Set by a project: which frontend its tests run on. */
export interface FrontendOptions {
  frontend: FrontendVersion
}

/** A booted page with its server. */
export interface Stage {
  server: ComfyServer
  page: Page
  seen: ReturnType<typeof watch>
}

/** The name under which `packs` asks for the canvas executors alone. */
export const CANVAS_PACK = 'canvas-test'

/** Playwright's test with a shared `stage`; `packs` are folders of custom node packs, or `CANVAS_PACK`. */
export const test = base.extend<object, FrontendOptions & { packs: string[]; stage: Stage }>({
  frontend: ['1.58.1', { option: true, scope: 'worker' }],
  packs: [[], { option: true, scope: 'worker' }],
  stage: [
    async ({ browser, frontend, packs }, use) => {
      const server = await startComfy({ frontend, packs: packs.map((pack) => (pack === CANVAS_PACK ? buildCanvasPack() : pack)) })
      const page = await browser.newPage({ viewport: { width: 1280, height: 800 } })
      const seen = watch(page)
      try {
        await boot(page, server.url)
        await use({ server, page, seen })
      } finally {
        await page.close()
        await server.stop()
      }
    },
    { scope: 'worker', timeout: 120_000 },
  ],
})

export { expect } from '@playwright/test'
