/**
 * What commands print. Everything passes through here, and is cleaned before styles are added (clean.ts). Results go to
 * standard output, remarks to standard error. Colours and live lines are for terminals only.
 */
import { wantsColor } from '../config/client-config.ts'
import { cleanLine, escapeControls, toJson } from './clean.ts'
import type { Options } from './options.ts'
import { type Column, layOut } from './table.ts'
import { cutTo, widthOf } from './text-width.ts'

const STYLES = { bold: 1, dim: 2, red: 31, green: 32, yellow: 33, blue: 34, cyan: 36 } as const

export interface Styled {
  style: keyof typeof STYLES
  text: string
}
export type Part = string | Styled

export interface Output {
  /** `--json` was given: print data only. */
  json: boolean
  /** Standard output is a terminal. */
  terminal: boolean
  /** Columns of the terminal. */
  width: number
  /** One line; the parts follow each other. */
  line(...parts: Part[]): void
  /** JSON, on one line. */
  data(value: unknown): void
  /** JSON as the service wrote it, on one line. */
  raw(json: string): void
  /** Rows below titles, cut to the width of a terminal; complete elsewhere. */
  table(columns: Column[], rows: Part[][]): void
  /** To standard error: what is not the result. */
  note(...parts: Part[]): void
  /** Replaces the last live line on a terminal; an empty one removes it. Nothing elsewhere. */
  live(...parts: Part[]): void
}

const DEFAULT_WIDTH = 80

/** Whether it has styles is decided by the stream it goes to. */
const render = (parts: Part[], color: boolean): string =>
  parts
    .map((part) => {
      if (typeof part === 'string') return cleanLine(part)
      const text = cleanLine(part.text)
      return color && text !== '' ? `\x1b[${STYLES[part.style]}m${text}\x1b[0m` : text
    })
    .join('')

export function createOutput(options: Options): Output {
  const { stdout, stderr } = process
  quietWhenClosed()
  const terminal = stdout.isTTY === true
  const color = terminal && wantsColor()
  const noteColor = stderr.isTTY === true && wantsColor()
  let shown = false
  const erase = (): void => {
    if (shown) stdout.write('\r\x1b[2K')
    shown = false
  }
  const write = (text: string): void => {
    erase()
    stdout.write(`${text}\n`)
  }
  const width = () => stdout.columns || DEFAULT_WIDTH
  return {
    json: options['--json'] !== undefined,
    terminal,
    get width() {
      return width()
    },
    line: (...parts) => write(render(parts, color)),
    data: (value) => write(toJson(value)),
    raw: (json) => write(escapeControls(json.replaceAll('\n', ''))),
    table(columns, rows) {
      const plain = rows.map((row) => row.map((part) => cleanLine(typeof part === 'string' ? part : part.text)))
      for (const [index, cells] of layOut(columns, plain, terminal ? width() : null).entries()) {
        const parts: Part[] = cells.map(({ column, text }) => {
          const part = rows[index - 1]?.[column]
          if (index === 0) return { style: 'dim', text }
          return typeof part === 'object' ? { ...part, text } : text
        })
        write(render(parts, color).trimEnd())
      }
    },
    note(...parts) {
      erase()
      stderr.write(`${render(parts, noteColor)}\n`)
    },
    live(...parts) {
      if (!terminal) return
      erase()
      const plain = render(parts, false)
      if (plain === '') return
      // A line that is broken by the terminal could not be replaced.
      stdout.write(widthOf(plain) < width() ? render(parts, color) : cutTo(plain, Math.max(0, width() - 1)))
      shown = true
    },
  }
}

let listening = false

/** `sluice runs | head` closes the pipe, which is no error. */
function quietWhenClosed(): void {
  if (listening) return
  listening = true
  for (const stream of [process.stdout, process.stderr])
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') process.exit(0)
      throw error
    })
}
