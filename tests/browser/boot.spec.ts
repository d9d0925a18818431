// The stand-in server carries the real frontend: it boots without a dialog, runs a prompt, keeps files, and stays at home.
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { spawnSync } from 'node:child_process'
import { frontendDirectory, python, pythonEnvironment, root } from './support/comfy'
import { expect, test } from './support/fixtures'
import { activeWorkflowName, command, switchWorkflow, workflowTab } from './support/page'

test('boots to a usable canvas without a first-run dialog', async ({ stage }) => {
  await expect(stage.page.locator('.p-dialog-mask:visible, [role="dialog"]:visible')).toHaveCount(0)
  await expect(workflowTab(stage.page, 'Unsaved Workflow')).toBeVisible()
  expect(stage.seen.errors).toEqual([])
})

test('switches workflows by real clicks', async ({ stage }) => {
  await command(stage.page, 'Comfy.NewBlankWorkflow')
  await expect.poll(() => activeWorkflowName(stage.page)).toBe('Unsaved Workflow (2)')
  await switchWorkflow(stage.page, 'Unsaved Workflow')
  await switchWorkflow(stage.page, 'Unsaved Workflow (2)')
})

test('runs the default workflow with the frames of a run, and reports an interrupt', async ({ stage }) => {
  const { page, server } = stage
  await switchWorkflow(page, 'Unsaved Workflow')
  const run = async (): Promise<string[]> =>
    page.evaluate(async () => {
      type Api = { api: EventTarget }
      type App = { app: { queuePrompt(position: number, count: number): Promise<boolean> } }
      const { app, api } = (window as unknown as { comfyAPI: { app: App; api: Api } }).comfyAPI
      const kinds: string[] = []
      const watching = new AbortController()
      const last = ['execution_success', 'execution_interrupted', 'execution_error']
      const ended = new Promise<void>((resolve, reject) => {
        for (const kind of ['execution_start', 'executed', ...last]) {
          api.api.addEventListener(kind, () => {
            kinds.push(kind)
            if (last.includes(kind)) resolve()
          }, { signal: watching.signal })
        }
        setTimeout(() => reject(new Error(`the run did not end; seen: ${kinds.join()}`)), 15_000)
      })
      await app.app.queuePrompt(0, 1)
      await ended
      watching.abort()
      return kinds
    })
  expect(await run()).toEqual(['execution_start', 'executed', 'execution_success'])
  expect((await server.state()).history).toHaveLength(1)
  await server.control({ step_ms: 400 })
  const interrupted = run()
  await expect.poll(async () => (await server.state()).running).not.toBeNull()
  await fetch(`${server.url}/api/interrupt`, { method: 'POST' })
  expect(await interrupted).toEqual(['execution_start', 'execution_interrupted'])
  await server.control({ step_ms: 20 })
})

test('user data lands in the scratch folder and cannot leave it', async ({ stage }) => {
  const { server } = stage
  const at = (name: string): string => `${server.url}/api/userdata/${encodeURIComponent(name)}`
  expect((await fetch(at('workflows/a.json'), { method: 'POST', body: '{}' })).status).toBe(200)
  expect(existsSync(join(server.userDirectory, 'default/workflows/a.json'))).toBe(true)
  expect((await fetch(`${at('workflows/a.json')}?overwrite=false`, { method: 'POST', body: '{}' })).status).toBe(409)
  expect((await fetch(at('../../escape.json'), { method: 'POST', body: '{}' })).status).toBe(403)
  expect((await fetch(at('workflows/a.json'), { method: 'DELETE' })).status).toBe(204)
})

test('no request left this machine', ({ stage }) => {
  expect(stage.seen.strangers).toEqual([])
})

test('refuses to listen beyond loopback', ({ frontend }) => {
  const script = join(root, 'web-fixtures/comfy_server.py')
  const result = spawnSync(python(), [script, '--host', '0.0.0.0', '--static', frontendDirectory(frontend)], { env: pythonEnvironment(), encoding: 'utf8', timeout: 10_000 })
  expect(result.status).toBe(1)
  expect(result.stderr).toContain('refusing to listen')
})
