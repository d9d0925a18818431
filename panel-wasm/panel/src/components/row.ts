// One row of the transcript.
import { LitElement, css, html, nothing, type TemplateResult } from 'lit'
import { unsafeHTML } from 'lit/directives/unsafe-html.js'
import type { Row } from '../generated/frames'
import { markdown } from '../markdown'
import { strings } from '../strings'
import { shared } from './styles'

/** `<co-row>` */
export class TranscriptRow extends LitElement {
  static override properties = { row: { attribute: false } }
  static override styles = [
    shared,
    css`
      :host {
        display: block;
        margin-bottom: 8px;
        overflow-wrap: anywhere;
      }
      .user {
        margin-left: 12%;
        padding: 6px 10px;
        border-radius: 10px 10px 2px 10px;
        background: var(--field);
        border: 1px solid var(--line);
        white-space: pre-wrap;
      }
      .from {
        display: block;
        font-size: 11px;
        text-align: right;
      }
      .back {
        padding: 0 6px;
        font-size: 11px;
        opacity: 0;
      }
      :host(:hover) .back,
      .back:focus-visible {
        opacity: 1;
      }
      .action {
        font-family: monospace;
        font-size: 12px;
        padding-left: 8px;
        border-left: 2px solid var(--line);
        overflow: hidden;
        text-overflow: ellipsis;
        white-space: nowrap;
      }
      .line {
        display: flex;
        align-items: center;
        gap: 8px;
        font-size: 11px;
      }
      .line::before,
      .line::after {
        content: '';
        flex: 1;
        border-top: 1px solid var(--line);
      }
      .said p {
        margin: 0 0 6px;
      }
      .said pre {
        overflow-x: auto;
        padding: 8px;
        border-radius: 6px;
        background: var(--field);
      }
      .said a {
        color: var(--accent);
      }
      .said img {
        max-width: 100%;
      }
      details summary {
        cursor: pointer;
      }
    `,
  ]

  declare row: Row

  private back(mid: string | undefined): void {
    this.dispatchEvent(new CustomEvent('back', { detail: mid, bubbles: true, composed: true }))
  }

  override render(): TemplateResult | typeof nothing {
    const { row } = this
    const id = `co-row-${row.kind}`
    switch (row.kind) {
      case 'user':
        return html`<div class="user" data-testid=${id}>${row.text}</div>
          <span class="soft from">${row.workflow ?? ''}${row.elsewhere ? ` · ${strings.elsewhere}` : ''}
            ${row.mid === undefined ? nothing : html`<button class="back" data-testid="co-rewind" @click=${() => this.back(row.mid)}>${strings.rewind}</button>`}</span>`
      case 'say':
        return html`<div class="said" data-testid=${id}>${unsafeHTML(markdown(row.text))}</div>`
      case 'notice':
        return html`<div class="bad" data-testid=${id}>${row.text}</div>`
      case 'action':
        return html`<div class="action soft" data-testid=${id} title=${row.detail ?? ''}>
          ${row.name}${row.detail ? html` · ${row.detail}` : nothing}
        </div>`
      case 'event':
        return html`<details class="soft" data-testid=${id}>
          <summary>${row.block === undefined ? firstLine(row.text) : strings.thinking}</summary>
          ${row.text}
        </details>`
      case 'ask':
        return html`<div class="action soft" data-testid=${id}>${strings.asked} ${row.text}</div>`
      case 'answer':
        return html`<div class="user" data-testid=${id}>${row.text}</div>`
      case 'turn_end':
        return html`<div class="line soft" data-testid=${id}>${ended(row.outcome)}</div>`
      case 'boundary':
        return html`<div class="line soft" data-testid=${id}>${drawn(row.outcome)}</div>`
      case 'cancelled':
        return html`<div class="line soft" data-testid=${id}>${strings.takenBack}</div>`
      case 'turn_start':
      case 'other':
        return nothing
    }
  }
}

function drawn(reason: string | undefined): string {
  switch (reason) {
    case 'rewind':
      return strings.rewound
    case 'resume_session':
      return strings.resumed
    default:
      return strings.newConversation
  }
}

function firstLine(text: string): string {
  const line = (text.split('\n', 1)[0] ?? '').replace(/^\[event\] /, '')
  return line.length > 90 ? `${line.slice(0, 90)}…` : line
}

function ended(outcome: string | undefined): string {
  switch (outcome) {
    case 'interrupted':
      return strings.interrupted
    case 'put_back':
      return strings.putBack
    case 'unknown':
      return strings.cutOff
    default:
      return strings.failed
  }
}

customElements.define('co-row', TranscriptRow)
