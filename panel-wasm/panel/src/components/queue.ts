// Messages of this panel that wait, with what can be done to them.
import { css, html, nothing, type TemplateResult } from 'lit'
import { strings } from '../strings'
import type { Part, Waiting } from '../view'
import { PanelPart } from './part'
import { shared } from './styles'

/** `<co-queue>` */
export class PanelQueue extends PanelPart {
  static override styles = [
    shared,
    css`
      .item {
        display: flex;
        flex-wrap: wrap;
        gap: 2px 6px;
        align-items: center;
        margin: 0 10px 4px;
        padding: 4px 8px;
        border: 1px dashed var(--line);
        border-radius: 8px;
      }
      .text {
        flex: 1 0 100%;
        min-width: 0;
        overflow: hidden;
        text-overflow: ellipsis;
        white-space: nowrap;
      }
      .state {
        flex: 1;
        font-size: 12px;
      }
    `,
  ]

  protected override readonly shows: readonly Part[] = ['queue', 'head']

  override render(): TemplateResult {
    return html`<div data-testid="co-queue">${[...this.view.queue.values()].map((one) => this.item(one))}</div>`
  }

  private item(one: Waiting): TemplateResult {
    return html`<div class="item" data-testid="co-queued" data-state=${one.state}>
      <span class="text" title=${one.text}>${one.text}</span>
      <span class=${one.state === 'failed' ? 'state bad' : 'state soft'}>${one.problem ?? strings.message[one.state]}${one.actsOn ? ` · ${one.actsOn}` : ''}</span>
      ${this.view.busy && one.state === 'accepted'
        ? html`<button data-testid="co-send-now" @click=${() => this.tell({ input: 'send_now' })}>${strings.sendNow}</button>`
        : nothing}
      ${one.state === 'failed'
        ? html`<button @click=${() => this.tell({ input: 'resend', mid: one.mid })}>${strings.retry}</button>`
        : nothing}
      <button data-testid="co-cancel" aria-label=${strings.cancel} @click=${() => this.tell({ input: 'cancel', mid: one.mid })}>✕</button>
    </div>`
  }
}

customElements.define('co-queue', PanelQueue)
