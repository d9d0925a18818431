// The whole product for one spec: a daemon in a home of its own, a ComfyUI with our custom node, and pages with the panel open.
import { join } from 'node:path'
import type { Browser, BrowserContext, Page } from '@playwright/test'
import { root, startComfy, type ComfyServer, type FrontendVersion } from './comfy'
import { makeHome, startDaemon, type Daemon, type DaemonHome } from './daemon'
import { boot, command, watch } from './page'
import { Panel } from './panel'

/** What a scene is made of; `daemon` may be replaced by a later one in the same home. */
export interface Scene {
  home: DaemonHome
  daemon: Daemon
  comfy: ComfyServer
  context: BrowserContext
  /** The first tab, and its panel. */
  page: Page
  panel: Panel
  panels: Panel[]
  seen: ReturnType<typeof watch>
  stop(): Promise<void>
}

/** Starts it with this configuration and so many tabs, each on a blank workflow, `prepare`d before they load. */
export async function startScene(
  browser: Browser,
  frontend: FrontendVersion,
  configuration: (scratch: string) => string,
  { tabs = 1, prepare }: { tabs?: number; prepare?: (page: Page) => Promise<void> } = {},
): Promise<Scene> {
  const home = await makeHome(configuration)
  const daemon = await startDaemon(home)
  const comfy = await startComfy({ frontend, packs: [join(root, 'panel-wasm/comfyui')], environment: home.environment })
  const context = await browser.newContext({ viewport: { width: 1400, height: 850 } })
  const first = await context.newPage()
  const seen = watch(first)
  const pages = [first]
  while (pages.length < tabs) pages.push(await context.newPage())
  for (const page of pages) {
    page.on('dialog', (dialog) => void dialog.accept())
    await prepare?.(page)
    await boot(page, comfy.url)
    await command(page, 'Comfy.NewBlankWorkflow')
  }
  const panels = pages.map((page) => new Panel(page))
  for (const panel of panels) await panel.open()
  const scene: Scene = {
    home, daemon, comfy, context, panels, seen,
    page: first,
    panel: panelOf(panels, 0),
    stop: async () => {
      await context.close()
      await comfy.stop()
      await scene.daemon.stop()
      home.remove()
    },
  }
  return scene
}

/** The panel of a tab, counted from 0. */
export function panelOf(panels: Panel[], tab: number): Panel {
  const panel = panels[tab]
  if (!panel) throw new Error(`there is no tab ${tab}`)
  return panel
}
