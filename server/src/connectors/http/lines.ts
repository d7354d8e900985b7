/** The records of a page, one per line, built from bytes of the body where possible. */
import { parseExact } from '../../json/exact.ts'
import type { Span } from '../../json/walk.ts'
import type { Fields } from './scope.ts'

const NEWLINE = 0x0a
const QUOTE = 0x22
const BACKSLASH = 0x5c
const CLOSE_BRACE = 0x7d
const SPACE = 0x20

export class Lines {
  readonly #body: Buffer
  /** What every record gets before its closing brace. */
  readonly #suffix: { rest: Buffer; only: Buffer } | null
  readonly #spans: Span[] = []
  readonly #texts: (string | null)[] = []
  #size = 0
  #plain = true

  constructor(body: Buffer, add: Fields | null) {
    this.#body = body
    const members = add === null ? '' : JSON.stringify(add).slice(1, -1)
    this.#suffix = members === '' ? null : { rest: Buffer.from(`,${members}}`), only: Buffer.from(`${members}}`) }
  }

  get count(): number {
    return this.#spans.length
  }

  /** An object of the body, as it is. */
  addSpan(span: Span): void {
    this.#spans.push(span)
    this.#texts.push(null)
    this.#size += span.end - span.start + 1 + (this.#suffix?.rest.length ?? 0)
  }

  /** An object that was written anew. */
  addText(text: string): void {
    this.#plain = false
    this.#spans.push(NO_SPAN)
    this.#texts.push(text)
    // A character is at most three bytes.
    this.#size += text.length * 3 + 1 + (this.#suffix?.rest.length ?? 0)
  }

  /** Changes the body's bytes: nothing else may be read from it afterwards. */
  finish(): Buffer {
    if (this.#spans.length === 0) return EMPTY
    return this.#inPlace() ?? this.#copied()
  }

  /**
   * Records that stand in the body with one comma between them need no copy: the commas become newlines, and so does what
   * follows the last one.
   */
  #inPlace(): Buffer | null {
    if (!this.#plain || this.#suffix !== null) return null
    const spans = this.#spans
    const [first, last] = [spans[0]!, spans.at(-1)!]
    if (last.end >= this.#body.length) return null
    for (let index = 1; index < spans.length; index++)
      if (spans[index]!.start !== spans[index - 1]!.end + 1) return null
    const newline = this.#body.indexOf(NEWLINE, first.start)
    if (newline >= 0 && newline < last.end) return null
    for (const { end } of spans) this.#body[end] = NEWLINE
    return this.#body.subarray(first.start, last.end + 1)
  }

  #copied(): Buffer {
    const out = Buffer.allocUnsafe(this.#size)
    let length = 0
    for (const [index, span] of this.#spans.entries()) {
      const text = this.#texts[index]
      const start = length
      length = text === null ? this.#copySpan(span, out, length) : length + out.write(text!, length)
      if (this.#suffix !== null) length = addSuffix(out, start, length, this.#suffix)
      out[length++] = NEWLINE
    }
    return out.subarray(0, length)
  }

  #copySpan({ start, end }: Span, out: Buffer, at: number): number {
    const newline = this.#body.indexOf(NEWLINE, start)
    if (newline >= 0 && newline < end) return copyCompact(this.#body, start, end, out, at)
    return at + this.#body.copy(out, at, start, end)
  }
}

const NO_SPAN: Span = { start: 0, end: 0 }
const EMPTY = Buffer.alloc(0)

function addSuffix(out: Buffer, start: number, end: number, { rest, only }: { rest: Buffer; only: Buffer }): number {
  let brace = end - 1
  while (out[brace] !== CLOSE_BRACE) brace--
  let before = brace - 1
  while (before > start && out[before]! <= SPACE) before--
  const suffix = before === start ? only : rest
  return brace + suffix.copy(out, brace)
}

/** Without the newlines between its tokens, so that it is one line. The bytes are valid JSON. */
function copyCompact(body: Buffer, start: number, end: number, out: Buffer, at: number): number {
  let to = at
  let inString = false
  for (let from = start; from < end; from++) {
    const byte = body[from]!
    if (inString) {
      if (byte === BACKSLASH) out[to++] = body[from++]!
      else if (byte === QUOTE) inString = false
      out[to++] = body[from]!
    } else if (byte > SPACE) {
      if (byte === QUOTE) inString = true
      out[to++] = byte
    }
  }
  return to
}

/** The records of lines, for whoever needs their content. */
export function parseLines(lines: Buffer): Fields[] {
  const records: Fields[] = []
  for (let start = 0; start < lines.length; ) {
    const end = lines.indexOf(NEWLINE, start)
    records.push(parseExact(lines.toString('utf8', start, end)) as Fields)
    start = end + 1
  }
  return records
}
