// Starts and stops the stand-in ComfyUI server with a chosen frontend version. Knows nothing of browsers.
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

/** Frontend versions that the tests know how to fetch. */
export type FrontendVersion = '1.58.1' | '1.49.6'

/** The checkout's root folder. */
export const root = fileURLToPath(new URL('../../..', import.meta.url))

const tools = process.env['COMFY_TOOLS'] ?? join(root, 'target/tools')

/** What a stand-in server is started with. */
export interface ComfyOptions {
  frontend: FrontendVersion
  /** Folders of custom node packs. */
  packs?: string[]
  /** How long each node of a run takes, in milliseconds. */
  stepMs?: number
  /** 0 or absent picks a free port. */
  port?: number
  /** More environment for the server, and so for the packs inside it. */
  environment?: Record<string, string>
}

/** A running stand-in server. */
export interface ComfyServer {
  url: string
  port: number
  pid: number
  /** The folder with `default/workflows` and the settings. */
  userDirectory: string
  /** Sets the step time, pushes a frame and so on; see `/fixture` in web-fixtures/comfy/routes.py. */
  control(body: Record<string, unknown>): Promise<void>
  /** What the server has seen. */
  state(): Promise<{ history: string[]; pending: string[]; running: string | null; clients: string[] }>
  stop(): Promise<void>
}

/** The environment in which Python finds aiohttp, and our custom node starts no daemon by itself. */
export function pythonEnvironment(more: Record<string, string> = {}): NodeJS.ProcessEnv {
  return { ...process.env, PYTHONPATH: join(tools, 'python'), PYTHONDONTWRITEBYTECODE: '1', PYTHONUNBUFFERED: '1', COMFY_ORCHESTRATOR_START: '0', ...more }
}

/** The program that runs Python scripts. */
export function python(): string {
  return process.env['PYTHON'] ?? 'python3'
}

/** The static folder of a frontend version; fails with the command that fetches it. */
export function frontendDirectory(version: FrontendVersion): string {
  const directory = join(tools, `frontend-${version}/comfyui_frontend_package/static`)
  if (!existsSync(join(directory, 'index.html'))) {
    throw new Error(`frontend ${version} is missing: pip install --no-deps --target ${join(tools, `frontend-${version}`)} comfyui-frontend-package==${version}`)
  }
  return directory
}

/** Starts a server and waits until it listens. */
export async function startComfy(options: ComfyOptions): Promise<ComfyServer> {
  const user = mkdtempSync(join(tmpdir(), 'comfy-user-'))
  const commandLine = [
    join(root, 'web-fixtures/comfy_server.py'),
    '--static', frontendDirectory(options.frontend),
    '--port', String(options.port ?? 0),
    '--user', user,
    '--step-ms', String(options.stepMs ?? 20),
    ...(options.packs ?? []).flatMap((pack) => ['--pack', pack]),
  ]
  const child = spawn(python(), commandLine, { env: pythonEnvironment(options.environment), stdio: ['ignore', 'pipe', 'pipe'] })
  const complaints: string[] = []
  child.stderr.setEncoding('utf8').on('data', (text: string) => complaints.push(text))
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  const kill = (): void => { child.kill('SIGKILL') }
  process.once('exit', kill)
  const stop = async (): Promise<void> => {
    child.kill('SIGTERM')
    const timer = setTimeout(kill, 5_000)
    await ended
    clearTimeout(timer)
    process.removeListener('exit', kill)
    rmSync(user, { recursive: true, force: true })
  }
  const first = await Promise.race([
    new Promise<string>((resolve) => createInterface({ input: child.stdout }).once('line', resolve)),
    ended.then(() => ''),
    new Promise<string>((resolve) => setTimeout(resolve, 20_000, '').unref()),
  ])
  if (!first) {
    await stop()
    throw new Error(`the stand-in server did not start: ${complaints.join('')}`)
  }
  const { url } = JSON.parse(first) as { url: string }
  return {
    url,
    port: Number(new URL(url).port),
    pid: child.pid ?? 0,
    userDirectory: user,
    async control(body) {
      await fetch(`${url}/fixture`, { method: 'POST', body: JSON.stringify(body) })
    },
    async state() {
      const answer = await fetch(`${url}/fixture`)
      return (await answer.json()) as Awaited<ReturnType<ComfyServer['state']>>
    },
    stop,
  }
}
