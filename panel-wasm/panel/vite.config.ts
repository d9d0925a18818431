// How the panel is bundled: one script and the core beside it, as ComfyUI loads them.
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { defineConfig, type Plugin } from 'vite'

const core = fileURLToPath(new URL('../pkg/panel_wasm_bg.wasm', import.meta.url))

// The core stands beside the script under a name that does not change, and is loaded from there.
const coreBeside: Plugin = {
  name: 'core-beside',
  generateBundle() {
    this.emitFile({ type: 'asset', fileName: 'comfy-orchestrator.wasm', source: readFileSync(core) })
  },
}

// ComfyUI imports every .js file of a pack's web folder as a module, so each build is exactly one file.
// `--mode canvas-test` builds the canvas executors alone, on `window`, for the browser tests (give --outDir).
export default defineConfig(({ mode }) => {
  const test = mode === 'canvas-test'
  return {
    plugins: test ? [] : [coreBeside],
    build: {
      outDir: test ? 'dist/canvas-test' : '../comfyui/web',
      emptyOutDir: true,
      target: 'es2022',
      minify: !test,
      lib: {
        entry: test ? 'src/canvas/test-entry.ts' : 'src/main.ts',
        formats: ['es'],
        fileName: () => (test ? 'canvas-test.js' : 'comfy-orchestrator.js'),
      },
      rolldownOptions: { output: { codeSplitting: false } },
    },
  }
})
