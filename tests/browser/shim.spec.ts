// The custom node's relay: its own unit tests, then as a real browser meets it through the stand-in server.
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from '@playwright/test'
import { python, pythonEnvironment, root, startComfy, type ComfyServer } from './support/comfy'

test('the relay refuses strangers and pipes for its own page (Python tests)', () => {
  const result = spawnSync(python(), ['-X', 'dev', join(root, 'tests/browser/shim/test_relay.py')], { env: pythonEnvironment(), encoding: 'utf8', timeout: 50_000 })
  expect(result.status, result.stderr).toBe(0)
  expect(result.stderr).toMatch(/Ran \d\d tests/)
})

test.describe('in a browser', () => {
  let comfy: ComfyServer
  let stranger: ComfyServer
  let home: string

  test.beforeAll(async () => {
    home = mkdtempSync(join(tmpdir(), 'orchestrator-home-'))
    const environment = { COMFY_ORCHESTRATOR_HOME: home, COMFYUI_MCP_BRIDGE_PORT: '1', COMFY_ORCHESTRATOR_ORIGINS: '' }
    comfy = await startComfy({ frontend: '1.58.1', packs: [join(root, 'panel-wasm/comfyui')], environment })
    stranger = await startComfy({ frontend: '1.58.1' })
  })
  test.afterAll(async () => {
    await comfy.stop()
    await stranger.stop()
    rmSync(home, { recursive: true, force: true })
  })

  const dial = (url: string): Promise<{ code: number; reason: string; opened: boolean }> =>
    new Promise((resolve) => {
      const socket = new WebSocket(url)
      let opened = false
      socket.onopen = () => { opened = true }
      socket.onclose = ({ code, reason }) => resolve({ code, reason, opened })
    })

  test('its own page is told what to start', async ({ page }) => {
    await page.goto(`${comfy.url}/user.css`)
    const ended = await page.evaluate(dial, `ws://127.0.0.1:${comfy.port}/comfy_orchestrator/ws`)
    expect(ended).toMatchObject({ opened: true, code: 1013, reason: expect.stringContaining('start comfy-orchestrator') })
    const status = await page.evaluate(async () => (await (await fetch('/api/comfy_orchestrator/status')).json()) as Record<string, unknown>)
    expect(status).toMatchObject({ daemon: false, token: false, port: 1 })
  })

  test('a page of another port is refused', async ({ page }) => {
    await page.goto(`${stranger.url}/user.css`)
    const ended = await page.evaluate(dial, `ws://127.0.0.1:${comfy.port}/comfy_orchestrator/ws`)
    expect(ended).toMatchObject({ opened: false, code: 1006 })
  })

  test('a page under another name of this machine is refused', async ({ page }) => {
    await page.goto(`http://localhost:${comfy.port}/user.css`)
    const ended = await page.evaluate(dial, `ws://127.0.0.1:${comfy.port}/comfy_orchestrator/ws`)
    expect(ended).toMatchObject({ opened: false })
    const own = await page.evaluate(dial, `ws://localhost:${comfy.port}/comfy_orchestrator/ws`)
    expect(own).toMatchObject({ opened: true, code: 1013 })
  })
})
