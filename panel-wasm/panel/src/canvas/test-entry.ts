// The canvas alone, on `window`, for the browser tests of this folder. Not part of the panel.
import { createCanvas } from './canvas'
import type { Canvas } from './types'

interface TestWindow {
  comfyAPI: { app: { app: { registerExtension(extension: { name: string; setup(): void }): void } } }
  orchestratorCanvas?: Canvas
}

const page = window as unknown as TestWindow

page.comfyAPI.app.app.registerExtension({
  name: 'comfy-orchestrator.canvas-test',
  setup() {
    page.orchestratorCanvas = createCanvas()
  },
})
