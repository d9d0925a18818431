import { defineConfig } from 'vite'

// ComfyUI imports every .js file of a pack's web folder as a module, so each build is exactly one file.
// `--mode canvas-test` builds the canvas executors alone, on `window`, for the browser tests (give --outDir).
export default defineConfig(({ mode }) => {
  const test = mode === 'canvas-test'
  return {
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
