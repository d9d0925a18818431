// Carries out what the core says: sockets, timers, canvas commands. Every decision is the core's.
import { PanelCore } from '../../pkg/panel_wasm'
import { CommandError, type Canvas, type JsonValue } from './canvas/types'
import type { Outcome, PanelConfig, PanelInput, PanelOutput } from './generated/frames'
import { remember } from './tab'
import type { View } from './view'

/** What the core refused at the moment of a write. */
class Refused extends Error {
  constructor(readonly refusal: JsonValue) {
    super('refused')
  }
}

/** What went wrong, and at which node. */
function told({ message, node_id: id, node_type: type }: { message: string; node_id?: string; node_type?: string }): string {
  return id === undefined ? message : `#${id}${type === undefined ? '' : ` (${type})`}: ${message}`
}

/** The running panel of this page. */
export class Host {
  private readonly core: PanelCore
  private readonly sockets = new Map<number, WebSocket>()
  private timer: ReturnType<typeof setTimeout> | undefined
  private readonly waiting: PanelInput[] = []
  private busy = false

  constructor(
    config: PanelConfig,
    private readonly address: string,
    private readonly canvas: Canvas,
    private readonly view: View,
  ) {
    this.core = new PanelCore(JSON.stringify(config))
    canvas.onChange(() => this.tellFront())
    canvas.onRunFinished((run) => {
      const error = run.error ? { error: told(run.error) } : {}
      this.tell({ input: 'run_finished', prompt_id: run.prompt_id, status: run.status, images: run.images, ...error })
    })
    // A page that slept or was offline looks at once, not at its next attempt.
    window.addEventListener('online', () => this.tell({ input: 'tick' }))
    document.addEventListener('visibilitychange', () => this.tell({ input: 'tick' }))
    this.tellFront()
    this.tell({ input: 'start' })
  }

  /** Hands something to the core and carries out what comes of it. */
  tell(input: PanelInput): void {
    this.waiting.push(input)
    if (this.busy) return
    this.busy = true
    try {
      for (let next = this.waiting.shift(); next; next = this.waiting.shift()) {
        const now = Date.now()
        const said = next.input === 'frame' ? this.core.frame(next.socket, next.text, now) : this.core.handle(JSON.stringify(next), now)
        for (const output of JSON.parse(said) as PanelOutput[]) this.safely(output)
      }
    } finally {
      this.busy = false
    }
    this.setTimer()
  }

  /** One output that fails must not cost those after it: a turn of the agent may hang on them. */
  private safely(output: PanelOutput): void {
    try {
      this.carryOut(output)
    } catch (error) {
      console.error('comfy-orchestrator:', output.output, error)
    }
  }

  private tellFront(): void {
    const workflow = this.canvas.identity()
    this.tell(workflow ? { input: 'canvas', workflow } : { input: 'canvas' })
  }

  private carryOut(output: PanelOutput): void {
    switch (output.output) {
      case 'connect':
        return this.connect(output.socket)
      case 'disconnect': {
        const socket = this.sockets.get(output.socket)
        this.sockets.delete(output.socket)
        socket?.close()
        return
      }
      case 'transmit': {
        const socket = this.sockets.get(output.socket)
        if (socket?.readyState === WebSocket.OPEN) socket.send(output.text)
        return
      }
      case 'remember':
        return remember(output.begun)
      case 'execute':
        void this.execute(output.rid, output.cmd, output.args)
        return
      case 'ui':
        return this.view.apply(output.change)
    }
  }

  private connect(number: number): void {
    const socket = new WebSocket(this.address)
    this.sockets.set(number, socket)
    const heard = (): boolean => this.sockets.get(number) === socket
    socket.onopen = () => { if (heard()) this.tell({ input: 'opened', socket: number }) }
    socket.onmessage = (event: MessageEvent<unknown>) => {
      if (heard() && typeof event.data === 'string') this.tell({ input: 'frame', socket: number, text: event.data })
    }
    socket.onclose = (event) => {
      if (!heard()) return
      this.sockets.delete(number)
      this.tell({ input: 'closed', socket: number, code: event.code, reason: event.reason })
    }
  }

  /** Runs a command that was admitted; the core is asked again before every write. */
  private async execute(rid: string, cmd: string, args: Record<string, unknown>): Promise<void> {
    const recheck = (): void => {
      this.tellFront()
      const refusal = this.core.recheck(rid)
      if (refusal !== undefined) throw new Refused(JSON.parse(refusal) as JsonValue)
    }
    let outcome: Outcome
    // Not within `tell`: what is in front is told to the core before the first write is asked for.
    await Promise.resolve()
    try {
      const result = await this.canvas.run(cmd, args as Record<string, JsonValue>, recheck)
      outcome = { outcome: 'ok', result }
    } catch (error) {
      outcome = failed(error)
    }
    const workflow = this.canvas.identity()
    this.tell(workflow ? { input: 'done', rid, outcome, workflow } : { input: 'done', rid, outcome })
  }

  private setTimer(): void {
    clearTimeout(this.timer)
    const timeout = this.core.timeout()
    if (!timeout) return
    const wait = Math.max(0, timeout.when - Date.now())
    timeout.free()
    this.timer = setTimeout(() => this.tell({ input: 'tick' }), wait)
  }
}

function failed(error: unknown): Outcome {
  if (error instanceof Refused) return { outcome: 'refused', refusal: error.refusal }
  if (error instanceof CommandError) {
    const detail = error.detail === undefined ? '' : ` ${JSON.stringify(error.detail)}`
    return { outcome: 'failed', code: error.code, message: error.message + detail }
  }
  return { outcome: 'failed', code: 'failed', message: String(error) }
}
