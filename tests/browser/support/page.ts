// What a person does on ComfyUI's page: boot it, click tabs, press keys. Knows the frontend's markup, nothing of ours.
import { expect, type Locator, type Page } from '@playwright/test'

const LOOPBACK = new Set(['127.0.0.1', 'localhost', '[::1]'])

/** Watches a page; `strangers` are answered requests that left this machine, `errors` uncaught errors of scripts. */
export function watch(page: Page): { strangers: string[]; errors: string[] } {
  const seen = { strangers: [] as string[], errors: [] as string[] }
  page.on('requestfinished', (request) => {
    const url = new URL(request.url())
    if (url.protocol.startsWith('http') && !LOOPBACK.has(url.hostname)) seen.strangers.push(request.url())
  })
  page.on('pageerror', (error) => seen.errors.push(String(error)))
  return seen
}

/** Opens ComfyUI and waits until its app, its canvas and its first workflow stand. */
export async function boot(page: Page, url: string): Promise<void> {
  await page.goto(url, { waitUntil: 'commit' })
  await ready(page)
}

/** Waits until the app that is loading on the page can be used. */
export async function ready(page: Page): Promise<void> {
  await page.waitForFunction(
    () => {
      const { app } = window as unknown as {
        app?: { extensionManager?: { workflow?: { activeWorkflow?: { isLoaded?: boolean } | null } }; canvas?: { graph?: unknown } }
      }
      return Boolean(app?.canvas?.graph && app.extensionManager?.workflow?.activeWorkflow?.isLoaded)
    },
    undefined,
    { timeout: 60_000, polling: 50 },
  )
}

/** The tab of an open workflow, by the name it shows. */
export function workflowTab(page: Page, name: string): Locator {
  const escaped = name.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
  return page.locator('.workflow-tabs .workflow-label:visible').filter({ hasText: new RegExp(`^\\s*${escaped}\\s*$`) })
}

/** Switches to an open workflow by clicking its tab, and waits until the frontend says it is active. */
export async function switchWorkflow(page: Page, name: string): Promise<void> {
  await workflowTab(page, name).first().click()
  await expect.poll(() => activeWorkflowName(page)).toBe(name)
}

/** The file name, without ending, of the workflow the frontend calls active. */
export async function activeWorkflowName(page: Page): Promise<string | undefined> {
  return page.evaluate(() => {
    const { app } = window as unknown as { app: { extensionManager: { workflow: { activeWorkflow: { filename: string } | null } } } }
    return app.extensionManager.workflow.activeWorkflow?.filename
  })
}

/** Runs one of the frontend's own commands, as its menu does. Never give it one that opens a dialog: it would not return. */
export async function command(page: Page, id: string): Promise<void> {
  await page.evaluate(async (name) => {
    const { app } = window as unknown as { app: { extensionManager: { command: { execute(name: string): Promise<void> } } } }
    await app.extensionManager.command.execute(name)
  }, id)
}

/** Opens a sidebar tab by its button. */
export async function openSidebarTab(page: Page, id: string): Promise<void> {
  await page.locator(`[class~="${id}-tab-button"], [data-testid="${id}-tab-button"]`).first().click()
}

/** Presses the frontend's undo key over the canvas. */
export async function pressUndo(page: Page): Promise<void> {
  await page.evaluate(() => (document.activeElement as HTMLElement | null)?.blur())
  await page.keyboard.press('Control+z')
}
