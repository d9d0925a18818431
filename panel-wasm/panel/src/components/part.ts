// What every component of the panel has: the view, the way to the core, and a redraw when its part of the view changes.
import { LitElement } from 'lit'
import type { PanelInput } from '../generated/frames'
import type { Part, View } from '../view'

/** Hands something to the core. */
export type Tell = (input: PanelInput) => void

/** When a change is drawn at the latest, in milliseconds. */
const LATEST_MS = 100

/** A component that shows some parts of the view. */
export abstract class PanelPart extends LitElement {
  static override properties = { view: { attribute: false }, tell: { attribute: false } }

  declare view: View
  declare tell: Tell

  private stop: (() => void) | undefined

  /**
   * Changes of one picture are drawn at once: a long log comes as thousands of frames. A page in the background paints no
   * pictures, but is drawn all the same.
   */
  protected override async scheduleUpdate(): Promise<void> {
    await new Promise<void>((resolve) => {
      const late = setTimeout(resolve, LATEST_MS)
      requestAnimationFrame(() => {
        clearTimeout(late)
        resolve()
      })
    })
    await super.scheduleUpdate()
  }

  /** The parts of the view that it shows. */
  protected abstract readonly shows: readonly Part[]

  override connectedCallback(): void {
    super.connectedCallback()
    this.stop = this.view.watch((part) => {
      if (this.shows.includes(part)) this.requestUpdate()
    })
  }

  override disconnectedCallback(): void {
    this.stop?.()
    super.disconnectedCallback()
  }
}
