// Every event script in the browser, on the very rules that the panel runs: the same verdict as natively, to the last
// frame.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { join } from 'node:path'
import { expect, test, type Page } from '@playwright/test'
import { root } from './support/comfy'

const FOLDER = join(root, 'web-fixtures/scripts')
const MODULE = join(root, 'target/wasm-scripts')
const VERDICTS = join(process.env['COMFY_TEST_PROGRAMS'] ?? join(root, 'target/debug'), 'examples/script-verdicts')

interface Verdict {
  passed: boolean
  failures: unknown[]
  calls: Record<string, string>
  canvases: Record<string, unknown>
  digest: string
}

const names = readdirSync(FOLDER).filter((file) => file.endsWith('.json')).map((file) => file.slice(0, -'.json'.length)).sort()

let server: Server
let page: Page
let native: Map<string, Verdict>

test.beforeAll(async ({ browser }) => {
  for (const needed of [join(MODULE, 'panel_wasm.js'), VERDICTS]) {
    if (!existsSync(needed)) throw new Error(`${needed} is missing: cargo xtask test builds it`)
  }
  const lines = execFileSync(VERDICTS, [FOLDER], { encoding: 'utf8', maxBuffer: 64 << 20 }).trim().split('\n')
  native = new Map(lines.map((line) => { const { name, verdict } = JSON.parse(line) as { name: string; verdict: Verdict }; return [name, verdict] }))
  server = createServer((request, response) => {
    const name = (request.url ?? '/').slice(1)
    const served = { 'panel_wasm.js': 'text/javascript', 'panel_wasm_bg.wasm': 'application/wasm' }[name]
    if (served) response.writeHead(200, { 'content-type': served }).end(readFileSync(join(MODULE, name)))
    else response.writeHead(200, { 'content-type': 'text/html' }).end('<!doctype html><title>scripts</title>')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  page = await browser.newPage()
  await page.goto(`http://127.0.0.1:${address.port}/`)
  await page.evaluate(async () => {
    const url = '/panel_wasm.js'
    const core = (await import(url)) as { default(from: { module_or_path: string }): Promise<unknown>; run_script(text: string): string }
    await core.default({ module_or_path: '/panel_wasm_bg.wasm' })
    ;(window as unknown as { runScript(text: string): string }).runScript = core.run_script
  })
})

test.afterAll(async () => {
  await page.close()
  await new Promise((resolve) => server.close(resolve))
})

test('there are scripts, and each has a native verdict', () => {
  expect(names.length).toBeGreaterThan(30)
  expect([...native.keys()].sort()).toEqual(names)
})

for (const name of names) {
  test(`${name} has one verdict`, async () => {
    const text = readFileSync(join(FOLDER, `${name}.json`), 'utf8')
    const said = await page.evaluate((script) => (window as unknown as { runScript(text: string): string }).runScript(script), text)
    const verdict = JSON.parse(said) as Verdict
    expect(verdict.failures).toEqual([])
    expect(verdict.passed).toBe(true)
    expect(verdict).toEqual(native.get(name))
  })
}
