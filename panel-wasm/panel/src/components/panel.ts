// The panel as a whole: head, transcript, cards, queue, composer, one under the other.
import { LitElement, css, html, type TemplateResult } from 'lit'
import type { View } from '../view'
import './cards'
import './composer'
import './head'
import type { Tell } from './part'
import './queue'
import './transcript'
import { shared } from './styles'

/** `<co-panel>` */
export class OrchestratorPanel extends LitElement {
  static override properties = { view: { attribute: false }, tell: { attribute: false } }
  static override styles = [
    shared,
    css`
      :host {
        display: flex;
        flex-direction: column;
        height: 100%;
        min-width: 0;
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

  override render(): TemplateResult {
    return html`
      <co-head .view=${this.view} .tell=${this.tell}></co-head>
      <co-transcript .view=${this.view} .tell=${this.tell}></co-transcript>
      <co-cards .view=${this.view} .tell=${this.tell}></co-cards>
      <co-queue .view=${this.view} .tell=${this.tell}></co-queue>
      <co-composer .view=${this.view} .tell=${this.tell}></co-composer>
    `
  }
}

customElements.define('co-panel', OrchestratorPanel)
