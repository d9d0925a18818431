// The custom node as people have it: installed by the daemon's own program, which ComfyUI then starts and takes along.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { startComfy, type ComfyServer } from './support/comfy'
import { makeHome, program, startDaemon, type DaemonHome } from './support/daemon'
import { expect, test } from './support/fixtures'
import { boot, command } from './support/page'
import { Panel, nodeTypes } from './support/panel'

let home: DaemonHome
let comfyFolder: string
let pack: string
let running: ComfyServer[] = []

test.describe.configure({ mode: 'serial', timeout: 90_000 })

test.beforeAll(async () => {
  home = await makeHome(() => 'default_agent = "demo"\n[agents.demo]\nkind = "demo"\n')
  comfyFolder = join(home.scratch, 'ComfyUI')
  pack = join(comfyFolder, 'custom_nodes/comfy-orchestrator')
  mkdirSync(join(comfyFolder, 'custom_nodes'), { recursive: true })
})

test.afterEach(async () => {
  for (const comfy of running) await comfy.stop()
  running = []
})

test.afterAll(() => home.remove())

interface Told { status: number | null; text: string }

function ours(...commandLine: string[]): Told {
  const env = { PATH: process.env['PATH'], HOME: home.scratch, COMFY_ORCHESTRATOR_TEST: '1' }
  const result = spawnSync(program('comfy-orchestrator'), commandLine, { env, encoding: 'utf8', timeout: 20_000 })
  return { status: result.status, text: result.stdout + result.stderr }
}

/** A ComfyUI with the installed node; nothing but what the installation wrote tells it where the daemon is. */
async function comfy(start: '0' | '1' | 'keep'): Promise<ComfyServer> {
  const environment = { HOME: home.scratch, COMFY_ORCHESTRATOR_TEST: '1', COMFY_ORCHESTRATOR_START: start }
  const server = await startComfy({ frontend: '1.58.1', packs: [pack], environment })
  running.push(server)
  return server
}

async function launch(server: ComfyServer): Promise<string> {
  const answer = await fetch(`${server.url}/comfy_orchestrator/status`)
  return ((await answer.json()) as { launch: string }).launch
}

async function answers(): Promise<boolean> {
  return fetch(`http://127.0.0.1:${home.port}/healthz`).then((answer) => answer.ok, () => false)
}

test('install writes the node once, with the port of the configuration, and says what to do', () => {
  const configured = join(home.scratch, 'other.toml')
  writeFileSync(configured, '[server]\nport = 9200\n')
  const wrong = ours('--home', home.path, 'install', '--comfyui', home.scratch)
  expect(wrong.status).toBe(1)
  expect(wrong.text).toContain('custom_nodes')
  const first = ours('--home', home.path, 'install', '--comfyui', comfyFolder, '--port', String(home.port))
  expect(first.text).toContain('Restart ComfyUI')
  expect(readdirSync(join(pack, 'web')).sort()).toEqual(['comfy-orchestrator.js', 'comfy-orchestrator.wasm'])
  expect(JSON.parse(readFileSync(join(pack, 'daemon.json'), 'utf8'))).toEqual({ program: program('comfy-orchestrator'), home: home.path, port: home.port })
  const chosen = ours('--home', home.path, 'install', '--comfyui', comfyFolder, '--config', configured)
  expect(chosen.status, chosen.text).toBe(0)
  expect(JSON.parse(readFileSync(join(pack, 'daemon.json'), 'utf8'))).toMatchObject({ port: 9200 })
  ours('--home', home.path, 'install', '--comfyui', comfyFolder, '--port', String(home.port))
  const again = ours('--home', home.path, 'install', '--comfyui', comfyFolder, '--port', String(home.port))
  expect(again.text).toContain('already')
})

test('ComfyUI starts the daemon, the panel talks to it, and both end together', async ({ page }) => {
  const server = await comfy('1')
  await boot(page, server.url)
  await command(page, 'Comfy.NewBlankWorkflow')
  const panel = new Panel(page)
  await panel.open()
  await panel.send('add a VAEDecode')
  await expect.poll(() => nodeTypes(page), { timeout: 30_000 }).toEqual(['VAEDecode'])
  expect(await launch(server)).toBe('started')
  await server.stop()
  await expect.poll(answers, { timeout: 15_000 }).toBe(false)
})

test('the daemon ends also when ComfyUI is killed', async () => {
  const server = await comfy('1')
  await expect.poll(answers, { timeout: 30_000 }).toBe(true)
  process.kill(server.pid, 'SIGKILL')
  await expect.poll(answers, { timeout: 15_000 }).toBe(false)
})

test('a daemon that runs is used, is not started twice, and stays', async () => {
  const daemon = await startDaemon(home)
  const servers = [await comfy('1'), await comfy('1')]
  for (const server of servers) await expect.poll(() => launch(server)).toBe('running')
  for (const server of servers) await server.stop()
  expect(await answers()).toBe(true)
  expect(await daemon.stop()).toBe(0)
})

test('a daemon that is just leaving is replaced', async () => {
  const daemon = await startDaemon(home)
  const server = await comfy('1')
  await expect.poll(() => launch(server)).toBe('running')
  expect(await daemon.stop()).toBe(0)
  await expect.poll(() => launch(server), { timeout: 15_000 }).toBe('started')
})

test('two ComfyUIs that start at once have one daemon between them', async () => {
  const servers = await Promise.all([comfy('1'), comfy('1')])
  await expect.poll(answers, { timeout: 30_000 }).toBe(true)
  const settled = async (): Promise<string[]> => (await Promise.all(servers.map(launch))).sort()
  await expect.poll(settled, { timeout: 30_000 }).toEqual(['running', 'started'])
})

test('a program that is not there is said to be missing, with what to do', async () => {
  const server = await startComfy({
    frontend: '1.58.1', packs: [pack],
    environment: { HOME: home.scratch, COMFY_ORCHESTRATOR_TEST: '1', COMFY_ORCHESTRATOR_START: '1', COMFY_ORCHESTRATOR_PROGRAM: '/nothing/here' },
  })
  running.push(server)
  await expect.poll(() => launch(server)).toBe('missing')
  const status = (await (await fetch(`${server.url}/comfy_orchestrator/status`)).json()) as { mend: string }
  expect(status.mend).toContain('install it')
})

test('uninstall takes out what was installed', () => {
  expect(ours('uninstall', '--comfyui', comfyFolder).text).toContain('is gone')
  expect(existsSync(pack)).toBe(false)
  expect(ours('uninstall', '--comfyui', comfyFolder).status).toBe(1)
})
