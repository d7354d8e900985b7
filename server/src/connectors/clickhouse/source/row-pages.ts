/**
 * The rows of one result as pages. Each row is copied once, from the answer into the page; the next chunk of the answer is
 * only taken when the page was (backpressure), so a slow reader slows the server down and never fills our memory.
 */
import { isUtf8 } from 'node:buffer'
import { type Column, ConnectorError, type Encoding, type Page } from '../../contract.ts'
import type { TieGroup } from '../../cursor/tie-group.ts'
import { createRowReader } from '../../types/tsv-records.ts'
import { type Client, readField, type Statement } from '../shared/client.ts'

const PAGE_BYTES = 256 * 1024
const SLACK = 64 * 1024
const TAB = 9
const NEWLINE = 10
const VERTICAL_TAB = 11
const QUOTE = 39
const ZERO = 48
const BACKSLASH = 92
const LETTER_V = 118
/** The cursor's value and the row's identity. */
const HIDDEN = 2

export interface RowPagesOptions {
  encoding: Encoding
  columns: Column[]
  /** For incremental reads: two more values at the end of each row, the cursor's and the row's identity. */
  ties: TieGroup | null
}

export class RowPages {
  readonly #columns: Column[]
  readonly #ties: TieGroup | null
  readonly #toLines: ((rows: Buffer) => Buffer) | null
  #bytes = Buffer.allocUnsafeSlow(PAGE_BYTES + SLACK)
  #used = 0
  #records = 0
  #ready: Page[] = []

  constructor({ encoding, columns, ties }: RowPagesOptions) {
    this.#columns = columns
    this.#ties = ties
    this.#toLines = encoding === 'tsv' ? null : createRowReader(columns)
  }

  async *read(client: Client, statement: Statement): AsyncGenerator<Page> {
    const fields = this.#columns.length + (this.#ties === null ? 0 : HIDDEN)
    const chunks = client.stream(statement, fields, (bytes, start, end, special) =>
      this.#takeRow(bytes, start, end, special),
    )
    for await (const _ of chunks) yield* this.#ready.splice(0)
    this.#cut()
    yield* this.#ready.splice(0)
  }

  #takeRow(bytes: Buffer, start: number, end: number, special: boolean): void {
    let last = end
    if (this.#ties !== null) {
      const identity = bytes.lastIndexOf(TAB, end - 1)
      const cursor = bytes.lastIndexOf(TAB, identity - 1)
      last = cursor
      const value = readField(bytes.toString('utf8', cursor + 1, identity))
      // A null and an empty text must differ.
      const raw = value === null ? '' : `=${value}`
      if (!this.#ties.admit(raw, readField(bytes.toString('utf8', identity + 1, end)) ?? '')) return
    }
    this.#reserve((last - start) * (special ? 2 : 1) + 1)
    if (special) this.#copySpecial(bytes, start, last)
    else this.#used += bytes.copy(this.#bytes, this.#used, start, last)
    this.#bytes[this.#used++] = NEWLINE
    this.#records += 1
    if (this.#used >= PAGE_BYTES) this.#cut()
  }

  /** ClickHouse also escapes quotes and zero bytes, which the contract does not, and leaves vertical tabs as they are. */
  #copySpecial(bytes: Buffer, start: number, end: number): void {
    const target = this.#bytes
    let to = this.#used
    for (let at = start; at < end; at += 1) {
      const byte = bytes[at]!
      if (byte === VERTICAL_TAB) {
        target[to++] = BACKSLASH
        target[to++] = LETTER_V
      } else if (byte !== BACKSLASH || at + 1 === end) target[to++] = byte
      else {
        const letter = bytes[++at]!
        if (letter === ZERO) target[to++] = 0
        else {
          if (letter !== QUOTE) target[to++] = BACKSLASH
          target[to++] = letter
        }
      }
    }
    this.#used = to
  }

  #reserve(size: number): void {
    if (this.#used + size <= this.#bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#used + size, this.#bytes.length))
    this.#bytes.copy(larger, 0, 0, this.#used)
    this.#bytes = larger
  }

  #cut(): void {
    if (this.#records === 0) return
    const rows = this.#bytes.subarray(0, this.#used)
    if (!isUtf8(rows)) throw this.#explainBytes(rows)
    const page: Page = { bytes: this.#toLines?.(rows) ?? rows, records: this.#records }
    if (this.#ties !== null) page.cursor = this.#ties.state()
    this.#ready.push(page)
    this.#bytes = Buffer.allocUnsafeSlow(PAGE_BYTES + SLACK)
    this.#used = 0
    this.#records = 0
  }

  #explainBytes(rows: Buffer): ConnectorError {
    const wrong = new Set<number>()
    let field = 0
    let from = 0
    for (let at = 0; at < rows.length; at += 1) {
      const byte = rows[at]!
      if (byte !== TAB && byte !== NEWLINE) continue
      if (!isUtf8(rows.subarray(from, at))) wrong.add(field)
      field = byte === NEWLINE ? 0 : field + 1
      from = at + 1
    }
    const names = [...wrong].map((at) => this.#columns[at]!.name).join(', ')
    return new ConnectorError(
      'source',
      `Values of ${names} are not text in UTF-8. Name these columns in \`binary_columns\`, so that they are read as bytes, or exclude them in config.columns`,
    )
  }
}
