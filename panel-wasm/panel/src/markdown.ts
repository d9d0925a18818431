// Markdown of the agent as safe HTML.
import DOMPurify from 'dompurify'
import { marked } from 'marked'

const ALLOWED = { ALLOWED_URI_REGEXP: /^(?:https?:|mailto:|#|\/)/i, FORBID_TAGS: ['style', 'form', 'input', 'iframe'] }

/** Text as HTML that can be shown. */
export function markdown(text: string): string {
  const html = marked.parse(text, { async: false, gfm: true, breaks: true })
  return DOMPurify.sanitize(html, ALLOWED)
}
