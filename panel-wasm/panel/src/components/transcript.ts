// The transcript: rows of the log and blocks that are being written, following the end unless the person scrolled up.
// A long log is drawn from its end; older rows come as the person scrolls up.
import { css, html, nothing, type TemplateResult } from 'lit'
import { repeat } from 'lit/directives/repeat.js'
import type { Row } from '../generated/frames'
import { strings } from '../strings'
import type { Block, Part } from '../view'
import { PanelPart } from './part'
import './row'
import { shared } from './styles'

/** Rows that are drawn at first, and again for each time the person reaches the top. */
const STEP = 60
/** How near the end counts as being there, in pixels. */
const NEAR = 40

/** `<co-transcript>` */
export class PanelTranscript extends PanelPart {
  static override styles = [
    shared,
    css`
      :host {
        display: block;
        overflow-y: auto;
        padding: 10px;
      }
      .empty {
        padding: 2em 1em;
        text-align: center;
      }
    `,
  ]

  protected override readonly shows: readonly Part[] = ['rows', 'blocks', 'head']

  private drawn = STEP
  private following = true
  private top = 0
  // Rows take their height after they are drawn, and again when pictures come.
  private readonly grown = new ResizeObserver(() => this.follow())

  override connectedCallback(): void {
    super.connectedCallback()
    this.addEventListener('scroll', this.scrolled, { passive: true })
    this.grown.observe(this)
  }

  override disconnectedCallback(): void {
    this.removeEventListener('scroll', this.scrolled)
    this.grown.disconnect()
    super.disconnectedCallback()
  }

  protected override firstUpdated(): void {
    const log = this.renderRoot.querySelector('[role=log]')
    if (log) this.grown.observe(log)
  }

  private follow(): void {
    if (this.following) this.scrollTop = this.scrollHeight
  }

  override render(): TemplateResult {
    const { rows } = this.view
    const shown = rows.slice(-this.drawn)
    const blocks = [...this.view.blocks.values()]
    return html`
      <div data-testid="co-transcript" role="log" aria-live="polite" aria-label=${strings.title} @back=${this.back}>
        ${rows.length === 0 && blocks.length === 0 ? html`<div class="soft empty">${strings.empty}</div>` : nothing}
        ${repeat(shown, (row, index) => row.seq ?? `local-${rows.length - shown.length + index}`, (row) => html`<co-row .row=${row}></co-row>`)}
        ${repeat(blocks, (block) => block.id, (block) => html`<co-row .row=${asRow(block)}></co-row>`)}
        ${this.view.busy
          ? html`<div class="soft" data-testid="co-activity">${this.view.activity || strings.working}</div>`
          : nothing}
      </div>
    `
  }

  private readonly back = (event: CustomEvent<string>): void => {
    if (confirm(strings.rewindSure)) this.tell({ input: 'rewind', mid: event.detail })
  }

  private readonly scrolled = (): void => {
    // Only the person scrolls up; what grows below them is no reason to stop following.
    const up = this.scrollTop < this.top
    this.top = this.scrollTop
    const atEnd = this.scrollHeight - this.scrollTop - this.clientHeight < NEAR
    this.following = atEnd || (this.following && !up)
    if (this.scrollTop < NEAR && this.drawn < this.view.rows.length) {
      const before = this.scrollHeight
      this.drawn += STEP
      this.requestUpdate()
      void this.updateComplete.then(() => {
        this.scrollTop += this.scrollHeight - before
      })
    }
  }
}

function asRow(block: Block): Row {
  return { kind: block.thought ? 'event' : 'say', text: block.text, elsewhere: false, block: block.id }
}

customElements.define('co-transcript', PanelTranscript)
