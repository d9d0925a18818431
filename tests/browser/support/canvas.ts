// Builds the canvas executors into a pack of their own and calls them in the page. Knows no command.
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Page } from '@playwright/test'
import { root } from './comfy'

/** Any JSON value. */
export type Json = string | number | boolean | null | Json[] | { [key: string]: Json }

/** A workflow instance, as the canvas tells it. */
export interface Identity {
  uuid: string
  handle: string
  path?: string
  title: string
  canvas: string
}

/** What a command gave: its result, or its typed error. */
export interface Outcome {
  ok: boolean
  result?: Json
  code?: string
  message?: string
  detail?: Json
}

/** A pack without routes that puts the canvas on `window`; built anew, in a second. Returns its folder. */
export function buildCanvasPack(): string {
  const panel = join(root, 'panel-wasm/panel')
  const vite = join(panel, 'node_modules/vite/bin/vite.js')
  if (!existsSync(vite)) throw new Error(`the panel's packages are missing: npm ci in ${panel}`)
  const pack = join(root, 'target/browser-packs/comfy_canvas_test')
  mkdirSync(pack, { recursive: true })
  execFileSync(process.execPath, [vite, 'build', '--mode', 'canvas-test', '--logLevel', 'warn', '--outDir', join(pack, 'web'), '--emptyOutDir'], { cwd: panel, stdio: ['ignore', 'pipe', 'pipe'], timeout: 60_000 })
  return pack
}

interface PageCanvas {
  identity(): Identity | null
  onChange(callback: (identity: Identity | null) => void): () => void
  onRunFinished(callback: (run: Json) => void): () => void
  run(command: string, args: Record<string, Json>, recheck: () => void): Promise<Json>
}

/** What the test pack and these helpers keep on the page's window. */
export interface CanvasWindow {
  orchestratorCanvas: PageCanvas
  changes: (Identity | null)[]
  finishedRuns: Json[]
}

/** Records changes and finished runs from now on. */
export async function record(page: Page): Promise<void> {
  await page.evaluate(() => {
    const w = window as unknown as CanvasWindow & { recording?: true }
    w.changes = []
    w.finishedRuns = []
    if (w.recording) return
    w.recording = true
    w.orchestratorCanvas.onChange((identity) => w.changes.push(identity))
    w.orchestratorCanvas.onRunFinished((run) => w.finishedRuns.push(run))
  })
}

/** What was recorded so far. */
export async function recorded(page: Page): Promise<{ changes: (Identity | null)[]; finishedRuns: Json[] }> {
  return page.evaluate(() => {
    const { changes, finishedRuns } = window as unknown as CanvasWindow
    return { changes, finishedRuns }
  })
}

/** The identity now. */
export async function identity(page: Page): Promise<Identity | null> {
  return page.evaluate(() => (window as unknown as CanvasWindow).orchestratorCanvas.identity())
}

/**
 * Runs a command. With `fence`, every recheck compares the instance in front with it, as the panel does, and refuses
 * with the code `fence`; `checks` counts them.
 */
export async function run(page: Page, command: string, args: Record<string, Json> = {}, fence?: string): Promise<Outcome & { checks: number }> {
  const answer: string = await page.evaluate(
    async ([name, values, wanted]) => {
      const { orchestratorCanvas } = window as unknown as CanvasWindow
      let checks = 0
      const recheck = (): void => {
        checks += 1
        if (wanted !== null && orchestratorCanvas.identity()?.uuid !== wanted) throw Object.assign(new Error('fenced'), { code: 'fence' })
      }
      const late = new Promise<never>((_, reject) => setTimeout(() => reject(Object.assign(new Error('no answer in 20 s'), { code: 'late' })), 20_000))
      try {
        const result = await Promise.race([orchestratorCanvas.run(name, JSON.parse(values) as Record<string, Json>, recheck), late])
        return JSON.stringify({ ok: true, result, checks })
      } catch (error) {
        const { code, message, detail } = error as { code?: string; message: string; detail?: Json }
        return JSON.stringify({ ok: false, code, message, detail, checks })
      }
    },
    [command, JSON.stringify(args), fence ?? null] as const,
  )
  return JSON.parse(answer) as Outcome & { checks: number }
}

/** Runs a command that must succeed, and returns its result. */
export async function done<T>(page: Page, command: string, args: Record<string, Json> = {}): Promise<T> {
  const outcome = await run(page, command, args)
  if (!outcome.ok) throw new Error(`${command} was refused: ${outcome.code} ${outcome.message}`)
  return outcome.result as T
}
