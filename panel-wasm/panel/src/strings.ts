// Every text that a person reads, in one catalogue.

const ENGLISH = {
  title: 'Agent',
  tooltip: 'One agent for every workflow',
  placeholder: 'Ask, or say what to change…',
  send: 'Send',
  sendNow: 'Send now',
  sendNowKeys: 'Interrupts the agent (Ctrl+Enter)',
  stop: 'Stop',
  newChat: 'New chat',
  newChatSure: 'Clear this conversation in every tab?',
  agent: 'Agent',
  model: 'Model',
  actsOn: 'Acts on',
  nothingInFront: 'no workflow',
  followFront: 'the workflow in front',
  pinThis: 'pin this workflow',
  pinned: 'pinned',
  notInFront: 'not in front',
  cancel: 'Take back',
  retry: 'Try again',
  working: 'Working…',
  thinking: 'Thinking',
  answer: 'Answer',
  asked: 'Asked:',
  plan: 'Plan',
  empty: 'Say what you want done on the canvas. The agent knows every workflow that you have open.',
  elsewhere: 'from another tab',
  interrupted: 'stopped',
  putBack: 'put back, sent again',
  cutOff: 'outcome unknown',
  failed: 'failed',
  takenBack: 'taken back',
  newConversation: 'New conversation',
  reconnect: 'Connect again',
  runQueued: 'Run queued',
  notReady: 'This agent cannot work yet.',
  coreMissing: 'The panel could not start. Reload the page; if that does not help, build the panel again.',
  state: {
    idle: 'not connected',
    connecting: 'connecting',
    connected: 'connected',
    waiting: 'connection lost, trying again',
    down: 'not connected',
  },
  message: {
    waiting: 'not sent yet',
    sent: 'sending',
    accepted: 'waits for the agent',
    seen: 'being answered',
    done: 'answered',
    cancelled: 'taken back',
    failed: 'not taken',
  },
  notice: {
    cancel_too_late: 'Too late to take back: the agent has the message already.',
    log_gap: 'A part of this conversation could not be read.',
    not_connected: 'Not connected: nothing was done.',
    not_durably_cleared: 'Cleared, but not on disk: after a restart the old conversation may be back.',
    overloaded: 'The daemon has too much to do; the panel comes back in a moment.',
    queue_full: 'Too many messages are waiting.',
    too_long: 'The message is too long.',
  },
} as const

/** The catalogue in use. */
export const strings = ENGLISH

/** What a notice or a refusal says: the daemon's words, else ours for its code, else the code. */
export function told(code: string, words: string | undefined): string {
  const ours: Record<string, string> = strings.notice
  return words || ours[code] || code
}
