// What is past: search in everything that was said, sessions to go on with, and the conversation as a document. Shown on
// demand; it keeps nothing over a reload.
import { css, html, nothing, type TemplateResult } from 'lit'
import type { Hit, PastSession } from '../generated/frames'
import { strings } from '../strings'
import type { Part } from '../view'
import { PanelPart } from './part'
import { shared } from './styles'

/** `<co-history>` */
export class PanelHistory extends PanelPart {
  static override styles = [
    shared,
    css`
      :host {
        display: block;
      }
      .past {
        max-height: 45vh;
        overflow-y: auto;
        padding: 8px 10px;
        border-bottom: 1px solid var(--line);
      }
      .line {
        display: flex;
        flex-wrap: wrap;
        gap: 6px;
        margin-bottom: 6px;
      }
      input {
        flex: 1;
        min-width: 8em;
        padding: 3px 8px;
        font: inherit;
        color: inherit;
        background: var(--field);
        border: 1px solid var(--line);
        border-radius: 6px;
      }
      .item {
        display: block;
        width: 100%;
        margin-bottom: 4px;
        text-align: left;
        overflow-wrap: anywhere;
      }
    `,
  ]

  protected override readonly shows: readonly Part[] = ['history']

  private words = ''

  protected override updated(): void {
    const document = this.view.document
    if (document === undefined) return
    this.view.document = undefined
    download(document.name, document.text)
  }

  override render(): TemplateResult | typeof nothing {
    const { view } = this
    if (!view.pastOpen) return nothing
    return html`
      <div class="past" data-testid="co-history">
        <form class="line" @submit=${this.search}>
          <input
            type="search"
            data-testid="co-search"
            aria-label=${strings.search}
            placeholder=${strings.search}
            .value=${this.words}
            @input=${(event: Event) => { this.words = (event.target as HTMLInputElement).value }}
          />
          <button type="submit">${strings.find}</button>
          <button type="button" data-testid="co-export-md" @click=${() => this.tell({ input: 'export', format: 'md' })}>${strings.exportMarkdown}</button>
          <button type="button" data-testid="co-export-json" @click=${() => this.tell({ input: 'export', format: 'json' })}>${strings.exportJson}</button>
        </form>
        ${view.pastProblem ? html`<div class="bad">${view.pastProblem}</div>` : nothing}
        ${view.hits ? this.found(view.hits) : nothing}
        ${view.sessions?.map((session) => this.session(session)) ?? html`<div class="soft">${strings.reading}</div>`}
      </div>
    `
  }

  private found(hits: Hit[]): TemplateResult {
    return html`<div data-testid="co-found">
      ${hits.length === 0 ? html`<div class="soft">${strings.nothingFound}</div>` : nothing}
      ${hits.map(
        (hit) => html`<button class="item" data-testid="co-hit" title=${strings.resume} @click=${() => this.resume(hit.session_id)}>
          <span class="soft">${moment(hit.at_ms)}</span> ${hit.text}
        </button>`,
      )}
      ${this.view.moreHits ? html`<div class="soft">${strings.moreFound}</div>` : nothing}
      <hr />
    </div>`
  }

  private session(session: PastSession): TemplateResult {
    return html`<button
      class="item"
      data-testid="co-session"
      title=${strings.resume}
      ?disabled=${session.current}
      @click=${() => this.resume(session.sessionId)}
    >
      ${session.title || session.sessionId}<br />
      <span class="soft">${moment(session.updatedAt)} · ${session.messageCount} ${strings.messages}${session.current ? ` · ${strings.goesOn}` : ''}</span>
    </button>`
  }

  private readonly search = (event: Event): void => {
    event.preventDefault()
    if (this.words.trim() === '') {
      this.view.hits = undefined
      this.requestUpdate()
    } else {
      this.tell({ input: 'search', words: this.words })
    }
  }

  private resume(session: string | undefined): void {
    const current = this.view.sessions?.some((one) => one.current && one.sessionId === session)
    if (session === undefined || current || !confirm(strings.resumeSure)) return
    this.view.closePast()
    this.tell({ input: 'resume', session_id: session })
  }
}

/** A row without a time has none. */
function moment(atMs: number): string {
  return atMs > 0 ? new Date(atMs).toLocaleString() : ''
}

function download(name: string, text: string): void {
  const url = URL.createObjectURL(new Blob([text], { type: 'text/plain;charset=utf-8' }))
  const link = document.createElement('a')
  link.href = url
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(url), 1_000)
}

customElements.define('co-history', PanelHistory)
