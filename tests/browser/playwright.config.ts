// Which browser tests run against which ComfyUI frontend.
import { defineConfig } from '@playwright/test'
import { fileURLToPath } from 'node:url'
import { browserArguments, browserPath } from './support/browser'
import type { FrontendOptions } from './support/fixtures'

const output = fileURLToPath(new URL('../../target/browser-test-results', import.meta.url))

// Boots are CPU-bound, so one worker; each version reuses one page for its checks.
export default defineConfig<FrontendOptions>({
  testDir: '.',
  outputDir: output,
  workers: 1,
  fullyParallel: false,
  forbidOnly: true,
  retries: 0,
  timeout: 60_000,
  expect: { timeout: 15_000 },
  reporter: [['list']],
  use: {
    headless: true,
    viewport: { width: 1280, height: 800 },
    trace: 'off',
    launchOptions: { executablePath: browserPath(), args: browserArguments() },
  },
  projects: [
    { name: 'shim', testMatch: /(shim|install)\.spec\.ts/ },
    { name: 'scripts', testMatch: /scripts\.spec\.ts/ },
    { name: 'frontend-1.58.1', testIgnore: /(shim|install|scripts)\.spec\.ts/, use: { frontend: '1.58.1' } },
    { name: 'frontend-1.49.6', testIgnore: /(shim|install|scripts)\.spec\.ts/, use: { frontend: '1.49.6' } },
  ],
})
