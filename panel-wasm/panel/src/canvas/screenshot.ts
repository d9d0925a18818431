// `graph_screenshot`: draws the whole graph in front into a picture, without moving the person's view.
import { mayCount, type Args } from './args'
import type { Frontend, GraphNode, LiteCanvas, Widget } from './comfy'
import type { Context } from './context'
import { CommandError, type JsonValue } from './types'

const LONGEST_SIDE = 2048
const TITLE_HEIGHT = 30

interface Frame {
  left: number
  top: number
  width: number
  height: number
  scale: number
}

function frameOf(nodes: GraphNode[], padding: number): Frame {
  const left = Math.min(...nodes.map((node) => node.pos[0])) - padding
  const top = Math.min(...nodes.map((node) => node.pos[1] - TITLE_HEIGHT)) - padding
  const right = Math.max(...nodes.map((node) => node.pos[0] + node.size[0])) + padding
  const bottom = Math.max(...nodes.map((node) => node.pos[1] + node.size[1])) + padding
  const scale = Math.min(1, LONGEST_SIDE / Math.max(right - left, bottom - top))
  return { left, top, width: Math.ceil((right - left) * scale), height: Math.ceil((bottom - top) * scale), scale }
}

function surface(width: number, height: number): { element: HTMLCanvasElement; context: CanvasRenderingContext2D } {
  const element = document.createElement('canvas')
  element.width = width
  element.height = height
  const context = element.getContext('2d')
  if (!context) throw new CommandError('failed', 'the browser gave no drawing surface')
  return { element, context }
}

/** Lends the canvas another surface and view for one drawing, and puts everything back. No frame is painted in between. */
function drawElsewhere(canvas: LiteCanvas, frame: Frame): HTMLCanvasElement {
  const ratio = window.devicePixelRatio || 1
  const front = surface(frame.width * ratio, frame.height * ratio)
  const back = surface(frame.width * ratio, frame.height * ratio)
  front.context.scale(ratio, ratio)
  const { ds } = canvas
  const kept = { canvas: canvas.canvas, ctx: canvas.ctx, bgcanvas: canvas.bgcanvas, bgctx: canvas.bgctx, show_info: canvas.show_info }
  const view = { scale: ds.scale, x: ds.offset[0], y: ds.offset[1], element: ds.element }
  try {
    Object.assign(canvas, { canvas: front.element, ctx: front.context, bgcanvas: back.element, bgctx: back.context, show_info: false })
    ds.element = front.element
    ds.setViewportSize?.(frame.width, frame.height)
    ds.scale = frame.scale
    ds.offset[0] = -frame.left
    ds.offset[1] = -frame.top
    canvas.draw(true, true)
  } finally {
    Object.assign(canvas, kept)
    ds.element = view.element
    ds.invalidateViewportSize?.()
    ds.scale = view.scale
    ds.offset[0] = view.x
    ds.offset[1] = view.y
    canvas.draw(true, true)
  }
  return front.element
}

function wrapped(context: CanvasRenderingContext2D, text: string, width: number): string[] {
  return text.split('\n').flatMap((paragraph) => {
    const lines: string[] = []
    let line = ''
    for (const word of paragraph.split(' ')) {
      const longer = line === '' ? word : `${line} ${word}`
      if (line !== '' && context.measureText(longer).width > width) {
        lines.push(line)
        line = word
      } else line = longer
    }
    return [...lines, line]
  })
}

/** Texts in page elements lie above the canvas and are not on it, so they are written into the picture. */
function writeText(context: CanvasRenderingContext2D, node: GraphNode, widget: Widget): void {
  const [x, y] = [node.pos[0] + 12, node.pos[1] + (widget.y ?? 0) + 4]
  const width = node.size[0] - 24
  const height = Math.min(widget.computedHeight ?? node.size[1], node.pos[1] + node.size[1] - y) - 8
  if (width <= 0 || height <= 0) return
  context.save()
  context.beginPath()
  context.rect(x, y, width, height)
  context.clip()
  context.fillStyle = '#222'
  context.fillRect(x, y, width, height)
  context.fillStyle = '#ddd'
  context.font = '10px monospace'
  context.textBaseline = 'top'
  context.textAlign = 'left'
  wrapped(context, String(widget.value), width - 8).forEach((line, index) => context.fillText(line, x + 4, y + 4 + index * 12))
  context.restore()
}

function writeTexts(frontend: Frontend, nodes: GraphNode[], picture: HTMLCanvasElement, frame: Frame): void {
  const context = picture.getContext('2d')
  if (!context) return
  const ratio = picture.width / frame.width
  context.setTransform(frame.scale * ratio, 0, 0, frame.scale * ratio, -frame.left * frame.scale * ratio, -frame.top * frame.scale * ratio)
  for (const node of nodes) {
    if (node.flags?.collapsed) continue
    for (const widget of node.widgets ?? []) {
      if (widget.element instanceof HTMLElement && typeof widget.value === 'string' && !widget.hidden) writeText(context, node, widget)
    }
  }
  frontend.liteCanvas().setDirty(true, true)
}

/** `graph_screenshot` */
export function screenshot({ frontend }: Context, args: Args): JsonValue {
  const padding = mayCount(args, 'padding', 0, 500) ?? 40
  const nodes = frontend.shownGraph().nodes
  if (nodes.length === 0) throw new CommandError('bad_value', 'the graph in front is empty, so there is nothing to show')
  const frame = frameOf(nodes, padding)
  const picture = frontend.drawingNodes(() => drawElsewhere(frontend.liteCanvas(), frame))
  writeTexts(frontend, nodes, picture, frame)
  const url = picture.toDataURL('image/png')
  return { image: url.slice(url.indexOf(',') + 1), mimeType: 'image/png', width: picture.width, height: picture.height }
}
