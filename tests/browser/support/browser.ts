// Which browser runs and with which switches. Knows nothing of ComfyUI.

/** The browser that is used: $CHROMIUM, else Debian's. */
export function browserPath(): string {
  return process.env['CHROMIUM'] ?? '/usr/bin/chromium'
}

/**
 * Switches for a machine without sandbox or GPU. Names other than loopback do not resolve and no proxy is asked,
 * so a page reaches nothing outside this machine; that costs less than intercepting every request.
 */
export function browserArguments(): string[] {
  return [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--no-proxy-server',
    '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost, EXCLUDE [::1]',
  ]
}
