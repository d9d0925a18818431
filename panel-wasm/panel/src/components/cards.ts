// What stands between transcript and composer: questions, the agent's plan, runs.
import { css, html, nothing, type TemplateResult } from 'lit'
import type { Question } from '../generated/frames'
import { strings } from '../strings'
import type { Part } from '../view'
import { PanelPart } from './part'
import { shared } from './styles'

/** `<co-cards>` */
export class PanelCards extends PanelPart {
  static override styles = [
    shared,
    css`
      .card {
        margin: 0 10px 8px;
        padding: 8px 10px;
        border: 1px solid var(--line);
        border-radius: 8px;
      }
      .choices {
        display: flex;
        flex-wrap: wrap;
        gap: 6px;
        margin-top: 6px;
      }
      ol {
        margin: 4px 0 0;
        padding-left: 1.6em;
      }
      .done {
        text-decoration: line-through;
        opacity: 0.6;
      }
      progress {
        display: block;
        width: 100%;
        height: 6px;
        margin-top: 4px;
      }
      .active {
        font-weight: 600;
      }
    `,
  ]

  protected override readonly shows: readonly Part[] = ['cards']

  private readonly chosen = new Map<string, Set<string>>()

  override render(): TemplateResult {
    const { view } = this
    return html`
      ${[...view.runs.values()].map(
        (run) => html`<div class="card soft" data-testid="co-run" data-status=${run.status}>${strings.runQueued} · ${run.promptId.slice(0, 8)}</div>`,
      )}
      ${view.downloads.map(
        (one) => html`<div class="card soft" role="status" data-testid="co-download" data-status=${one.status}>
          ${strings.download[one.status] ?? one.status} · ${one.name}
          ${one.status === 'downloading' ? html`<progress aria-label=${one.name}></progress>` : nothing}
        </div>`,
      )}
      ${view.todo.length > 0
        ? html`<div class="card" data-testid="co-todo">
            ${strings.plan}
            <ol>
              ${view.todo.map((item) => html`<li class=${item.status}>${item.text}</li>`)}
            </ol>
          </div>`
        : nothing}
      ${[...view.questions.values()].map((question) => this.question(question))}
    `
  }

  private question(question: Question): TemplateResult {
    const chosen = this.chosen.get(question.ask_id) ?? new Set<string>()
    return html`<div class="card" role="group" aria-label=${question.question} data-testid="co-question">
      ${question.header ? html`<div class="soft">${question.header}</div>` : nothing}
      <div>${question.question}</div>
      <div class="choices">
        ${question.options.map(
          (option) => html`<button
            data-testid="co-choice"
            title=${option.description ?? ''}
            aria-pressed=${question.multi_select ? chosen.has(option.label) : nothing}
            @click=${() => this.choose(question, option.label)}
          >
            ${question.multi_select && chosen.has(option.label) ? '✓ ' : ''}${option.label}
          </button>`,
        )}
        ${question.multi_select
          ? html`<button data-testid="co-answer" ?disabled=${chosen.size === 0} @click=${() => this.answer(question, [...chosen])}>
              ${strings.answer}
            </button>`
          : nothing}
      </div>
    </div>`
  }

  private choose(question: Question, label: string): void {
    if (!question.multi_select) return this.answer(question, label)
    const chosen = this.chosen.get(question.ask_id) ?? new Set<string>()
    if (!chosen.delete(label)) chosen.add(label)
    this.chosen.set(question.ask_id, chosen)
    this.requestUpdate()
  }

  private answer(question: Question, result: string | string[]): void {
    this.chosen.delete(question.ask_id)
    this.tell({ input: 'answer', ask_id: question.ask_id, result })
  }
}

customElements.define('co-cards', PanelCards)
