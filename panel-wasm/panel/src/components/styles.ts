// The look that all components share, in ComfyUI's own colours.
import { css } from 'lit'

/** Shared styles. */
export const shared = css`
  :host {
    --line: var(--border-color, #4e4e4e);
    --soft: var(--descrip-text, #999);
    --text: var(--fg-color, #eee);
    --field: var(--comfy-input-bg, #222);
    --raised: var(--comfy-menu-bg, #353535);
    --accent: var(--p-primary-color, #64b5f6);
    --bad: var(--error-text, #ff6b6b);
    color: var(--text);
    font-size: 13px;
    line-height: 1.45;
  }
  button,
  select,
  textarea {
    font: inherit;
    color: inherit;
    background: var(--field);
    border: 1px solid var(--line);
    border-radius: 6px;
  }
  button {
    padding: 3px 9px;
    cursor: pointer;
  }
  button:hover:not(:disabled) {
    border-color: var(--accent);
  }
  button:disabled {
    opacity: 0.5;
    cursor: default;
  }
  :focus-visible {
    outline: 2px solid var(--accent);
    outline-offset: 1px;
  }
  .soft {
    color: var(--soft);
  }
  .bad {
    color: var(--bad);
  }
`
