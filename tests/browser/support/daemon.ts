// Starts and stops the real daemon and the scripted model, each in a scratch folder of its own. Knows nothing of browsers.
import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { root } from './comfy'

const programs = process.env['COMFY_TEST_PROGRAMS'] ?? join(root, 'target/debug')
const agents = join(process.env['COMFY_TOOLS'] ?? join(root, 'target/tools'), 'agents/node_modules/@anthropic-ai')

/** How long a program may take to say that it is up. */
const READY_MS = 30_000

/** One of our programs, as built. */
export function program(name: string): string {
  const path = join(programs, name)
  if (!existsSync(path)) throw new Error(`${path} is missing: cargo build -p orchestrator -p web-fixtures`)
  return path
}

/** The real Claude program. */
export function claude(): string {
  const native = existsSync(agents) ? readdirSync(agents).filter((name) => name.startsWith('claude-code-')) : []
  const found = native.map((name) => join(agents, name, 'claude')).find((path) => existsSync(path))
  if (!found) throw new Error(`the Claude program is missing under ${agents}: cargo xtask setup --agents`)
  return found
}

interface Started<Ready> {
  child: ChildProcess
  ready: Ready
  complaints: string[]
  /** Asks it to end; returns its exit code. */
  stop(): Promise<number | null>
}

async function start<Ready>(path: string, commandLine: string[], env: NodeJS.ProcessEnv): Promise<Started<Ready>> {
  const child = spawn(path, commandLine, { env, stdio: ['ignore', 'pipe', 'pipe'] })
  const complaints: string[] = []
  child.stderr.setEncoding('utf8').on('data', (text: string) => complaints.push(text))
  const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)))
  const kill = (): void => { child.kill('SIGKILL') }
  process.once('exit', kill)
  const stop = async (): Promise<number | null> => {
    child.kill('SIGTERM')
    const timer = setTimeout(kill, 10_000)
    const code = await ended
    clearTimeout(timer)
    process.removeListener('exit', kill)
    return code
  }
  const first = await Promise.race([
    new Promise<string>((resolve) => createInterface({ input: child.stdout }).once('line', resolve)),
    ended.then(() => ''),
    new Promise<string>((resolve) => setTimeout(resolve, READY_MS, '').unref()),
  ])
  if (!first) {
    await stop()
    throw new Error(`${path} did not start: ${complaints.join('')}`)
  }
  return { child, ready: JSON.parse(first) as Ready, complaints, stop }
}

/** A scripted model on loopback: the prompt says what it answers. */
export interface ScriptedModel {
  url: string
  stop(): Promise<number | null>
}

/** Starts the scripted model. */
export async function startModel(): Promise<ScriptedModel> {
  const started = await start<{ port: number }>(program('scripted-model'), ['--port', '0'], { PATH: process.env['PATH'] })
  return { url: `http://127.0.0.1:${started.ready.port}`, stop: started.stop }
}

/** A daemon's state folder and port, which outlive one run of it. */
export interface DaemonHome {
  path: string
  scratch: string
  port: number
  /** What custom nodes need to find it. */
  environment: Record<string, string>
  remove(): void
}

/** Makes a home with this configuration. */
export async function makeHome(configuration: (scratch: string) => string): Promise<DaemonHome> {
  const scratch = mkdtempSync(join(tmpdir(), 'comfy-orchestrator-'))
  const path = join(scratch, 'home')
  mkdirSync(path)
  const port = await freePort()
  writeFileSync(join(path, 'config.toml'), configuration(scratch))
  return {
    path,
    scratch,
    port,
    environment: { COMFY_ORCHESTRATOR_HOME: path, COMFYUI_MCP_BRIDGE_PORT: String(port) },
    remove: () => rmSync(scratch, { recursive: true, force: true }),
  }
}

/** The configuration of the real Claude on the scripted model. */
export function claudeOn(model: ScriptedModel, scratch: string): string {
  const home = join(scratch, 'claude-home')
  mkdirSync(home, { recursive: true })
  const env: Record<string, string> = {
    ANTHROPIC_BASE_URL: model.url,
    ANTHROPIC_API_KEY: 'not-a-key',
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1',
    DISABLE_AUTOUPDATER: '1',
    HOME: home,
  }
  const table = Object.entries(env).map(([name, value]) => `${name} = ${JSON.stringify(value)}`).join(', ')
  return `[agents.claude]\nkind = "claude"\ncommand = [${JSON.stringify(claude())}]\nuse_api_key = true\nenv = { ${table} }\n`
}

/** The configuration of a scripted agent that speaks ACP. */
export function scriptedAcp(name: string, scratch: string): string {
  const command = [program('scripted-acp'), '--name', name, '--state', join(scratch, 'acp')]
  return `[agents.${name}]\nkind = "acp"\ncommand = ${JSON.stringify(command)}\n`
}

/** A running daemon. */
export interface Daemon {
  pid: number
  log(): string
  /** Process ids of the agents that it started, oldest first. */
  children(): number[]
  stop(): Promise<number | null>
}

/** Starts the daemon in a home. */
export async function startDaemon(home: DaemonHome): Promise<Daemon> {
  const commandLine = ['--home', home.path, '--json', 'serve', '--port', String(home.port)]
  const env = { PATH: process.env['PATH'], HOME: home.scratch, COMFY_ORCHESTRATOR_TEST: '1' }
  const started = await start<{ port: number }>(program('comfy-orchestrator'), commandLine, env)
  const pid = started.child.pid ?? 0
  return { pid, log: () => started.complaints.join(''), children: () => childrenOf(pid), stop: started.stop }
}

/** The agent sessions on disk, by conversation. */
export function sessions(home: DaemonHome): Record<string, string> {
  const file = join(home.path, `sessions/panel-sessions-${home.port}.json`)
  const stored = JSON.parse(readFileSync(file, 'utf8')) as { sessions: Record<string, { s: string }> }
  return Object.fromEntries(Object.entries(stored.sessions).map(([key, entry]) => [key, entry.s]))
}

function childrenOf(parent: number): number[] {
  const threads = readdirSync(`/proc/${parent}/task`)
  const children = threads.flatMap((thread) => readFileSync(`/proc/${parent}/task/${thread}/children`, 'utf8').trim().split(/\s+/))
  return children.filter(Boolean).map(Number).sort((left, right) => left - right)
}

async function freePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('no free port')
  return address.port
}
