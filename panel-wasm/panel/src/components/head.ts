// The head: connection, agent, model, what is past, New chat.
import { css, html, nothing, type TemplateResult } from 'lit'
import { live } from 'lit/directives/live.js'
import type { PanelInput } from '../generated/frames'
import { strings } from '../strings'
import type { Part } from '../view'
import { PanelPart } from './part'
import { shared } from './styles'

/** `<co-head>` */
export class PanelHead extends PanelPart {
  static override styles = [
    shared,
    css`
      :host {
        display: block;
        padding: 8px 10px;
        border-bottom: 1px solid var(--line);
      }
      .line {
        display: flex;
        flex-wrap: wrap;
        gap: 6px;
        align-items: center;
      }
      .grow {
        flex: 1;
      }
      .dot {
        width: 9px;
        height: 9px;
        border-radius: 50%;
        background: var(--soft);
      }
      .dot[data-state='connected'] {
        background: #4caf50;
      }
      .dot[data-state='down'],
      .dot[data-state='waiting'] {
        background: var(--bad);
      }
      select {
        max-width: 11em;
      }
    `,
  ]

  protected override readonly shows: readonly Part[] = ['head']

  override render(): TemplateResult {
    const { view } = this
    const turn = view.working ? 'working' : 'idle'
    return html`
      <div class="line" role="status" data-testid="co-status" data-state=${view.connection} data-turn=${turn}>
        <span class="dot" data-state=${view.connection}></span>
        <span>${strings.state[view.connection]}</span>
        ${view.connection === 'down' || view.connection === 'waiting'
          ? html`<button data-testid="co-reconnect" @click=${() => this.tell({ input: 'reconnect' })}>${strings.reconnect}</button>`
          : nothing}
        <span class="grow"></span>
        <select
          data-testid="co-backend"
          aria-label=${strings.agent}
          @change=${(event: Event) => this.picked({ input: 'set_backend', backend: (event.target as HTMLSelectElement).value })}
        >
          ${view.backends.map(
            (one) => html`<option
              value=${one.backend}
              .selected=${live(one.backend === view.backend)}
              title=${one.mend ?? ''}
            >
              ${one.backend}${one.ready ? '' : ' ⚠'}
            </option>`,
          )}
        </select>
        ${view.models.length > 0
          ? html`<select
              data-testid="co-model"
              aria-label=${strings.model}
              @change=${(event: Event) => this.picked({ input: 'set_model', model: (event.target as HTMLSelectElement).value })}
            >
              ${view.models.map((one) => html`<option value=${one.value} .selected=${live(one.value === view.model)}>${one.displayName}</option>`)}
            </select>`
          : nothing}
        <label class="soft" title=${strings.blindMeans}>
          <input
            type="checkbox"
            data-testid="co-blind"
            .checked=${live(view.blind)}
            @change=${(event: Event) => this.picked({ input: 'set_blind', on: (event.target as HTMLInputElement).checked })}
          />${strings.blind}
        </label>
        <button data-testid="co-past" aria-expanded=${view.pastOpen} @click=${() => this.past()}>${strings.past}</button>
        <button data-testid="co-new-chat" @click=${() => this.newChat()}>${strings.newChat}</button>
      </div>
      ${view.reason && view.connection !== 'connected' ? html`<div class="bad">${view.reason}</div>` : nothing}
      ${view.agentProblem ? html`<div class="bad">${view.agentProblem}</div>` : nothing}
    `
  }

  /** What is chosen shows once the daemon has taken it. */
  private picked(input: PanelInput): void {
    this.tell(input)
    this.requestUpdate()
  }

  private past(): void {
    if (this.view.pastOpen) return this.view.closePast()
    this.view.openPast()
    this.tell({ input: 'list_sessions' })
  }

  private newChat(): void {
    if (this.view.rows.length === 0 || confirm(strings.newChatSure)) this.tell({ input: 'new_chat' })
  }
}

customElements.define('co-head', PanelHead)
