// The panel's entry: loads the core, takes hold of the canvas, and adds the tab to the sidebar. The panel stays
// connected while its tab is closed, so that the agent's calls are answered.
import initCore from '../../pkg/panel_wasm'
import { createCanvas } from './canvas/canvas'
import { comfyApp } from './comfy-app'
import { OrchestratorPanel } from './components/panel'
import { Host } from './host'
import { strings } from './strings'
import { remembered, tabIdentity } from './tab'
import { View } from './view'

const ID = 'comfy-orchestrator'
const VERSION = '0.1.0'

interface PanelWindow {
  comfyOrchestrator?: true
}

const app = comfyApp()

app.registerExtension({
  name: ID,
  async setup() {
    const page = window as unknown as PanelWindow
    // A second copy of the bundle in the page stands down.
    if (page.comfyOrchestrator) return
    page.comfyOrchestrator = true
    const view = new View()
    const canvas = createCanvas()
    let host: Host | undefined
    let panel: OrchestratorPanel | undefined
    app.extensionManager.registerSidebarTab({
      id: ID,
      icon: 'pi pi-comments',
      title: strings.title,
      tooltip: strings.tooltip,
      type: 'custom',
      render(element) {
        panel = new OrchestratorPanel()
        panel.view = view
        panel.tell = (input) => host?.tell(input)
        // The sidebar gives its own height; without this the transcript would push the composer out of it.
        Object.assign(element.style, { position: 'relative', height: '100%', overflow: 'hidden' })
        element.replaceChildren(panel)
      },
      destroy() {
        panel?.remove()
        panel = undefined
      },
    })
    const core = new URL(/* @vite-ignore */ './comfy-orchestrator.wasm', import.meta.url)
    const [tab] = await Promise.all([tabIdentity(), initCore({ module_or_path: core })]).catch((error: unknown) => {
      view.apply({ change: 'connection', state: 'down', reason: strings.coreMissing })
      throw error
    })
    const config = { tab_id: tab, version: VERSION, comfyui_url: location.origin, begun: remembered() }
    host = new Host(config, socketAddress(), canvas, view)
  },
})

/** Our relay, under ComfyUI's own address, also when that has a path in front. */
function socketAddress(): string {
  const base = new URL('comfy_orchestrator/ws', new URL('./', document.baseURI))
  base.protocol = base.protocol === 'https:' ? 'wss:' : 'ws:'
  return base.href
}
