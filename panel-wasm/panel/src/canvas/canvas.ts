// Puts the executors together. Which command may run now is decided by the caller, through `recheck`.
import type { CommandName } from '../generated/commands'
import type { Args } from './args'
import { Frontend } from './comfy'
import type { Executor } from './context'
import { Identities } from './identity'
import { addNode, connect, disconnect, editNode, removeNode, setWidget } from './nodes'
import { getErrors, outline, query } from './read'
import { Runs } from './run'
import { screenshot } from './screenshot'
import { searchNodes } from './search'
import { CommandError, type Canvas } from './types'
import * as workflows from './workflows'

/** What one function each carries out. Runs have a state of their own; questions and plans are the core's. */
type Plain = Exclude<CommandName, 'graph_run' | 'ask_user' | 'set_todo'>

const EXECUTORS: Record<Plain, Executor> = {
  workflow_list: workflows.list,
  workflow_open: workflows.open,
  workflow_new: workflows.create,
  workflow_save: workflows.save,
  workflow_save_as: workflows.saveAs,
  workflow_rename: workflows.rename,
  workflow_close: workflows.close,
  graph_outline: outline,
  graph_query: query,
  graph_get_errors: getErrors,
  graph_screenshot: screenshot,
  graph_add_node: addNode,
  graph_remove_node: removeNode,
  graph_connect: connect,
  graph_disconnect: disconnect,
  graph_set_widget: setWidget,
  graph_edit_node: editNode,
  nodes_search: searchNodes,
}

function isPlain(command: string): command is Plain {
  return Object.hasOwn(EXECUTORS, command)
}

/**
 * Takes hold of this page's canvas. Call once, from an extension's `setup`, so that the first load is seen too.
 * @throws CommandError `unreadable` when the page is not ComfyUI's or not ready
 */
export function createCanvas(): Canvas {
  const frontend = Frontend.find()
  const identities = new Identities(frontend)
  const runs = new Runs(frontend)
  return {
    identity: () => identities.current(),
    onChange: (callback) => identities.onChange(callback),
    onRunFinished: (callback) => runs.onFinished(callback),
    async run(command, args: Args, recheck) {
      const executor = command === 'graph_run' ? runs.run.bind(runs) : isPlain(command) ? EXECUTORS[command] : undefined
      if (!executor) throw new CommandError('unknown_command', `this panel knows no command ${command}`)
      let refusal: { reason: unknown } | undefined
      const guarded = (): void => {
        try {
          recheck()
        } catch (reason) {
          refusal = { reason }
          throw reason
        }
      }
      try {
        return await executor({ frontend, identities, recheck: guarded }, args)
      } catch (error) {
        if (refusal) throw refusal.reason
        if (error instanceof CommandError) throw error
        throw new CommandError('failed', `ComfyUI failed at ${command}: ${error instanceof Error ? error.message : String(error)}`)
      }
    },
  }
}
