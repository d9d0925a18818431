// The panel as a whole: head, transcript, cards, queue, composer, one under the other.
import { LitElement, css, html, type TemplateResult } from 'lit'
import type { View } from '../view'
import './cards'
import './composer'
import './head'
import './history'
import type { Tell } from './part'
import './queue'
import './transcript'
import { shared } from './styles'

// ComfyUI's own keys (undo, queue, delete) and its clipboard (paste a node) must not act on what is done in the panel: from
// outside, a text field in here does not look like one.
const OURS = ['keydown', 'keyup', 'keypress', 'copy', 'cut', 'paste'] as const

function keep(event: Event): void {
  event.stopPropagation()
}

/** `<co-panel>` */
export class OrchestratorPanel extends LitElement {
  static override properties = { view: { attribute: false }, tell: { attribute: false } }
  static override styles = [
    shared,
    css`
      :host {
        position: absolute;
        inset: 0;
        display: flex;
        flex-direction: column;
        background: var(--raised);
      }
      co-transcript {
        flex: 1;
        min-height: 0;
      }
    `,
  ]

  declare view: View
  declare tell: Tell

  override connectedCallback(): void {
    super.connectedCallback()
    for (const kind of OURS) this.addEventListener(kind, keep)
  }

  override disconnectedCallback(): void {
    for (const kind of OURS) this.removeEventListener(kind, keep)
    super.disconnectedCallback()
  }

  override render(): TemplateResult {
    return html`
      <co-head .view=${this.view} .tell=${this.tell}></co-head>
      <co-history .view=${this.view} .tell=${this.tell}></co-history>
      <co-transcript .view=${this.view} .tell=${this.tell}></co-transcript>
      <co-cards .view=${this.view} .tell=${this.tell}></co-cards>
      <co-queue .view=${this.view} .tell=${this.tell}></co-queue>
      <co-composer .view=${this.view} .tell=${this.tell}></co-composer>
    `
  }
}

customElements.define('co-panel', OrchestratorPanel)
