// Where the person writes, and what the message will act on.
import { css, html, nothing, type TemplateResult } from 'lit'
import { live } from 'lit/directives/live.js'
import { strings } from '../strings'
import type { Part } from '../view'
import { PanelPart } from './part'
import { shared } from './styles'

/** `<co-composer>` */
export class PanelComposer extends PanelPart {
  static override styles = [
    shared,
    css`
      :host {
        display: block;
        padding: 8px 10px 10px;
        border-top: 1px solid var(--line);
      }
      .line {
        display: flex;
        gap: 6px;
        align-items: center;
        margin-bottom: 6px;
        min-width: 0;
      }
      .line > .soft,
      .line > .bad {
        white-space: nowrap;
      }
      .label {
        font-weight: 600;
        overflow: hidden;
        text-overflow: ellipsis;
        white-space: nowrap;
      }
      .grow {
        flex: 1;
      }
      textarea {
        display: block;
        box-sizing: border-box;
        width: 100%;
        min-height: 4.2em;
        padding: 6px 8px;
        resize: vertical;
      }
      .buttons {
        display: flex;
        justify-content: flex-end;
        gap: 6px;
        margin-top: 6px;
      }
    `,
  ]

  protected override readonly shows: readonly Part[] = ['head', 'queue']

  override render(): TemplateResult {
    const { view } = this
    const { label, pinned, inFront, pin } = view.actsOn
    const empty = view.draft.trim() === ''
    return html`
      <div class="line">
        <span class="soft">${strings.actsOn}</span>
        <span class="label" data-testid="co-acts-on" title=${label ?? ''}>${label ?? strings.nothingInFront}</span>
        ${pinned && !inFront ? html`<span class="bad">${strings.notInFront}</span>` : nothing}
        <span class="grow"></span>
        <select data-testid="co-target" aria-label=${strings.actsOn} @change=${this.picked}>
          <option value="current" .selected=${live(!pinned)}>${strings.followFront}</option>
          ${pin !== undefined && !pinned ? html`<option value="pin">${strings.pinThis}</option>` : nothing}
          ${pinned ? html`<option value="pinned" .selected=${live(true)}>${strings.pinned}</option>` : nothing}
        </select>
      </div>
      <textarea
        data-testid="co-composer"
        aria-label=${strings.placeholder}
        placeholder=${strings.placeholder}
        .value=${live(view.draft)}
        @input=${(event: Event) => this.typed((event.target as HTMLTextAreaElement).value)}
        @keydown=${this.pressed}
      ></textarea>
      <div class="buttons">
        ${view.busy
          ? html`<button data-testid="co-stop" @click=${() => this.tell({ input: 'stop' })}>${strings.stop}</button>
              <button data-testid="co-send-at-once" title=${strings.sendNowKeys} ?disabled=${empty} @click=${() => this.send(true)}>
                ${strings.sendNow}
              </button>`
          : nothing}
        <button data-testid="co-send" ?disabled=${empty} @click=${() => this.send(false)}>${strings.send}</button>
      </div>
    `
  }

  private typed(text: string): void {
    this.view.draft = text
    this.requestUpdate()
  }

  private readonly pressed = (event: KeyboardEvent): void => {
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) {
      event.preventDefault()
      this.send(event.ctrlKey || event.metaKey)
    }
  }

  private send(now: boolean): void {
    const text = this.view.draft.trim()
    if (text === '') return
    this.typed('')
    this.tell({ input: 'send', mid: messageId(), text, now })
  }

  private readonly picked = (event: Event): void => {
    const { value } = event.target as HTMLSelectElement
    const { pin } = this.view.actsOn
    if (value === 'pin' && pin !== undefined) this.tell({ input: 'set_target', target: { mode: 'pinned', path: pin } })
    if (value === 'current') this.tell({ input: 'set_target', target: { mode: 'current' } })
    this.requestUpdate()
  }
}

/** Fresh in every tab and page. */
function messageId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12))
  return `m-${Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('')}`
}

customElements.define('co-composer', PanelComposer)
