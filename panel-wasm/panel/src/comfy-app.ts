// The few calls of ComfyUI's public extension API that the panel's own tab needs.

/** A tab in the sidebar. */
export interface SidebarTab {
  id: string
  icon: string
  title: string
  tooltip: string
  type: 'custom'
  render(element: HTMLElement): void
  destroy?(): void
}

/** ComfyUI's app, as an extension sees it. */
export interface ComfyApp {
  registerExtension(extension: { name: string; setup(): void | Promise<void> }): void
  extensionManager: { registerSidebarTab(tab: SidebarTab): void }
}

/** The app of this page. */
export function comfyApp(): ComfyApp {
  const page = window as unknown as { comfyAPI?: { app?: { app?: ComfyApp } } }
  const app = page.comfyAPI?.app?.app
  if (!app) throw new Error('this page is not ComfyUI')
  return app
}
