// Markdown of the agent as safe HTML: nothing that runs, nothing that calls another machine by being shown.
import createPurifier from 'dompurify'
import { marked } from 'marked'

// A list of what is allowed, so that what a browser learns tomorrow stays out. No `style`: it can fetch.
const TAGS = [
  'a', 'blockquote', 'br', 'code', 'del', 'em', 'h1', 'h2', 'h3', 'h4', 'h5', 'h6', 'hr', 'img', 'kbd', 'li', 'ol', 'p', 'pre', 's',
  'strong', 'sub', 'sup', 'table', 'tbody', 'td', 'th', 'thead', 'tr', 'ul',
]
const ATTRIBUTES = ['align', 'alt', 'href', 'src', 'start', 'title']
/** Where ComfyUI serves pictures. */
const PICTURES = /\/(?:api\/)?view$/

const purifier = createPurifier(window)

purifier.addHook('afterSanitizeAttributes', (element) => {
  // The page holds the person's open workflows: a link must not take its place.
  if (element.tagName === 'A') {
    element.setAttribute('target', '_blank')
    element.setAttribute('rel', 'noopener noreferrer')
  }
  // A picture elsewhere tells that machine whatever the text put into its address.
  const source = element.getAttribute('src')
  if (source !== null && !isPicture(source)) element.removeAttribute('src')
})

function isPicture(source: string): boolean {
  try {
    const url = new URL(source, document.baseURI)
    return url.origin === location.origin && PICTURES.test(url.pathname)
  } catch {
    return false
  }
}

/** Text as HTML that can be shown. */
export function markdown(text: string): string {
  const html = marked.parse(text, { async: false, gfm: true, breaks: true })
  return purifier.sanitize(html, { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ATTRIBUTES, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false })
}
