// What callers of the canvas see. Knows nothing of ComfyUI.
import type { JsonValue } from '../generated/frames'

export type { JsonValue }

/** A JSON object. */
export type JsonObject = { [key: string]: JsonValue }

/** A workflow instance, as the page can prove it. */
export interface CanvasIdentity {
  /** The instance: minted for each live workflow object, never reused, forked on every kind of copy. */
  uuid: string
  /** `wf:<path>` when saved, `tmp:<uuid>` when not. A label. */
  handle: string
  /** Where it is saved, from `workflows/` on. Absent while it never was. */
  path?: string
  /** What the person reads on the tab. */
  title: string
  /** Which mounted graph shows it; two instances never share one. */
  canvas: string
}

/** How a run ended. */
export interface FinishedRun {
  prompt_id: string
  status: 'success' | 'error' | 'interrupted'
  /** Files of every kind; `type` is `temp` for a preview. */
  images: { filename: string; subfolder: string; type: string }[]
  /** What went wrong, when it did. */
  error?: { message: string; node_id?: string; node_type?: string }
}

/** The live canvas of this page. */
export interface Canvas {
  /** The workflow that is mounted and active; null while that cannot be told, as during a load. */
  identity(): CanvasIdentity | null
  /** Calls back when the settled identity, or a label of it, has changed. Returns the way to stop. */
  onChange(callback: (identity: CanvasIdentity | null) => void): () => void
  /**
   * Executes one command. `recheck` throws when the write is no longer allowed; it is called after every wait and
   * immediately before each change.
   * @throws CommandError
   */
  run(command: string, args: Record<string, JsonValue>, recheck: () => void): Promise<JsonValue>
  /** Calls back once for each run that ended, with its images. Returns the way to stop. */
  onRunFinished(callback: (run: FinishedRun) => void): () => void
}

/** Why a command was not carried out, for a program to decide on. */
export type CommandErrorCode =
  | 'unknown_command'
  | 'unknown_node'
  | 'unknown_widget'
  | 'unknown_input'
  | 'unknown_output'
  | 'unknown_class'
  | 'unknown_workflow'
  | 'ambiguous_workflow'
  | 'bad_value'
  | 'name_needed'
  | 'name_taken'
  | 'unsaved_changes'
  | 'rejected'
  | 'busy'
  | 'unreadable'
  | 'not_applied'
  | 'failed'

/** A command that was not carried out: a stable code, and a message that says what would be right. */
export class CommandError extends Error {
  /** What happened, for a program. */
  readonly code: CommandErrorCode
  /** More of it, such as the server's errors by node. */
  readonly detail: JsonValue | undefined

  constructor(code: CommandErrorCode, message: string, detail?: JsonValue) {
    super(message)
    this.name = 'CommandError'
    this.code = code
    this.detail = detail
  }
}
