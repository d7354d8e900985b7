/**
 * The rows of an answer, and the proof that it is whole. ClickHouse sends status 200 with the first row; when it fails later
 * it writes its exception into the body, after or even inside a row, and may end the answer as if nothing had happened. So
 * every answer is asked for with a frame (CustomSeparated): each row ends with ROW_END, and behind the last one stands
 * a mark that is random for each request, which the server only writes once it has finished. Fields are escaped, so a
 * raw newline always ends a row: what does not end with ROW_END was never a row, and is the beginning of an exception.
 */
import { ConnectorError } from '../../contract.ts'
import { findException } from './errors.ts'

const TAB = 9
const NEWLINE = 10
const VERTICAL_TAB = 11
const BACKSLASH = 92
/** Stands before the newline of a row. A value may end with it too: only the last one is the frame's. */
const ROW_END = 1

/** Longer exceptions are cut. */
const TAIL_BYTES = 64 * 1024
const MAX_ROW_BYTES = 128 * 1024 * 1024

export function frameSettings(mark: string): Record<string, string> {
  return {
    format_custom_escaping_rule: 'Escaped',
    format_custom_field_delimiter: '\t',
    format_custom_row_before_delimiter: '',
    format_custom_row_after_delimiter: '\u0001\n',
    format_custom_row_between_delimiter: '',
    format_custom_result_before_delimiter: '',
    format_custom_result_after_delimiter: mark,
  }
}

/** `special`: it has escapes, or a vertical tab, which ClickHouse does not escape. */
type TakeRow = (bytes: Buffer, start: number, end: number, special: boolean) => void

export class RowScanner {
  readonly #fields: number
  readonly #mark: Buffer
  readonly #take: TakeRow
  /** The beginning of a row whose end has not arrived. */
  #begun: Buffer[] = []
  #begunBytes = 0
  #tabs = 0
  #special = false
  /** What follows the last row, once that is not a row. */
  #tail: Buffer[] | null = null
  #tailBytes = 0

  constructor(fields: number, mark: string, take: TakeRow) {
    this.#fields = fields
    this.#mark = Buffer.from(mark)
    this.#take = take
  }

  push(chunk: Buffer): void {
    if (this.#tail !== null) {
      this.#keepTail(chunk)
      return
    }
    let start = 0
    let tabs = this.#tabs
    let special = this.#special
    const size = chunk.length
    for (let at = 0; at < size; at += 1) {
      const byte = chunk[at]!
      if (byte > VERTICAL_TAB && byte !== BACKSLASH) continue
      if (byte === TAB) tabs += 1
      else if (byte === BACKSLASH || byte === VERTICAL_TAB) special = true
      else if (byte === NEWLINE) {
        if (!this.#endRow(chunk, start, at, { tabs, special })) {
          this.#keepTail(chunk.subarray(start))
          return
        }
        start = at + 1
        tabs = 0
        special = false
      }
    }
    this.#tabs = tabs
    this.#special = special
    if (start === size) return
    this.#begunBytes += size - start
    if (this.#begunBytes > MAX_ROW_BYTES)
      throw new ConnectorError('limit', 'A row has more than 128 MB; leave its largest column out with config.columns')
    this.#begun.push(start === 0 ? chunk : chunk.subarray(start))
  }

  #endRow(chunk: Buffer, start: number, end: number, { tabs, special }: { tabs: number; special: boolean }): boolean {
    const whole = this.#begun.length === 0
    const bytes = whole ? chunk : Buffer.concat([...this.#begun, chunk.subarray(start, end)])
    const [from, to] = whole ? [start, end] : [0, bytes.length]
    if (to === from || bytes[to - 1] !== ROW_END || tabs !== this.#fields - 1) return false
    this.#begun = []
    this.#begunBytes = 0
    this.#take(bytes, from, to - 1, special)
    return true
  }

  #keepTail(bytes: Buffer): void {
    this.#tail ??= [...this.#begun]
    this.#tail.push(bytes)
    this.#tailBytes += bytes.length
    if (this.#tailBytes > TAIL_BYTES) throw this.#explainTail()
  }

  /** At the end of the answer: throws unless the server finished it. */
  finish(): void {
    if (this.#tail === null && Buffer.concat(this.#begun).equals(this.#mark)) return
    throw this.#explainTail()
  }

  #explainTail(): Error {
    const text = Buffer.concat(this.#tail ?? this.#begun).toString('utf8', 0, TAIL_BYTES * 2)
    const exception = findException(text)
    if (exception !== null) return exception
    if (this.#tail === null) return new CutAnswer()
    return new ForeignAnswer()
  }
}

/** The answer ended in the middle, and nobody said why. */
export class CutAnswer extends Error {
  constructor() {
    super('its answer ended in the middle')
  }
}

/** What arrived is not an answer of ClickHouse. */
export class ForeignAnswer extends Error {
  constructor() {
    super('it did not answer as ClickHouse does')
  }
}
