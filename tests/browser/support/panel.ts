// What a person does with our panel. Knows its test ids, and nothing of how it works.
import { expect, type Locator, type Page } from '@playwright/test'
import { openSidebarTab } from './page'

/** The panel of a page. */
export class Panel {
  constructor(readonly page: Page) {}

  /** Opens the sidebar and waits until the panel is connected. */
  async open(): Promise<void> {
    if (!(await this.part('composer').isVisible())) await openSidebarTab(this.page, 'comfy-orchestrator')
    await expect(this.part('composer')).toBeInViewport()
    await this.connected()
  }

  async connected(): Promise<void> {
    await expect(this.part('status')).toHaveAttribute('data-state', 'connected', { timeout: 30_000 })
  }

  part(name: string): Locator {
    return this.page.getByTestId(`co-${name}`)
  }

  rows(kind: string): Locator {
    return this.page.getByTestId(`co-row-${kind}`)
  }

  async send(text: string): Promise<void> {
    await this.part('composer').fill(text)
    await this.part('send').click()
  }

  /** Waits until the agent has said this. */
  async said(text: string | RegExp, timeout = 30_000): Promise<void> {
    await expect(this.rows('say').filter({ hasText: text }).first()).toBeVisible({ timeout })
  }

  /** Waits until no turn runs. */
  async idle(): Promise<void> {
    await expect(this.part('status')).toHaveAttribute('data-turn', 'idle', { timeout: 60_000 })
  }
}

/** Node types on the canvas in front, sorted. */
export async function nodeTypes(page: Page): Promise<string[]> {
  return page.evaluate(() => {
    const { app } = window as unknown as { app: { canvas: { graph: { nodes: { type: string }[] } } } }
    return app.canvas.graph.nodes.map((node) => node.type).sort()
  })
}

/** How many links the canvas in front has. */
export async function linkCount(page: Page): Promise<number> {
  return page.evaluate(() => {
    const { app } = window as unknown as { app: { canvas: { graph: { links: Map<number, unknown> } } } }
    return app.canvas.graph.links.size
  })
}
