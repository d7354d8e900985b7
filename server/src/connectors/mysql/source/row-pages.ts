/**
 * The rows of one result as pages. Each row is written once, from the packet into the page; while a page waits to be
 * taken the socket is paused (backpressure), so a slow reader slows the server down and never fills our memory.
 */
import { ConnectorError, type Encoding, type Page } from '../../contract.ts'
import type { TieGroup } from '../../cursor/tie-group.ts'
import type { Session } from '../shared/session.ts'
import type { RowTaker } from '../shared/wire/connection.ts'
import type { ColumnDefinition } from '../shared/wire/packets.ts'
import { Violation } from '../shared/wire/violation.ts'
import type { ZeroDates } from './column.ts'
import { type FieldTest, type FieldWriter, jsonWriters, type Output, tsvTests, tsvWriters } from './field-writers.ts'
import type { ProjectedField } from './projection.ts'

const PAGE_BYTES = 256 * 1024
const SLACK = 64 * 1024
const NULL = 0xfb

interface Field {
  write: FieldWriter
  /** What stands before the value: the key in JSON lines, nothing else otherwise. */
  head: Buffer
  source: string
  /** Dates that do not exist. */
  zeroDates: number
}

export interface RowPagesOptions {
  encoding: Encoding
  fields: readonly ProjectedField[]
  zeroDates: ZeroDates
  /** For incremental reads: two more values at the end of each row, the cursor's and the row's identity. */
  ties: TieGroup | null
}

export class RowPages implements RowTaker, Output {
  readonly #session: Session
  readonly #fields: Field[]
  readonly #ties: TieGroup | null
  readonly #tsv: boolean
  /** Of every field, where rows may be copied whole. */
  readonly #tests: FieldTest[] | null
  readonly #zeroDates: ZeroDates
  bytes = Buffer.allocUnsafeSlow(PAGE_BYTES + SLACK)
  used = 0
  #records = 0
  #ready: Page[] = []
  #over = false
  #error: Error | null = null
  #wake: (() => void) | null = null

  constructor(session: Session, { encoding, fields, zeroDates, ties }: RowPagesOptions) {
    this.#session = session
    this.#tsv = encoding === 'tsv'
    this.#zeroDates = zeroDates
    this.#ties = ties
    const tests = encoding === 'tsv' ? fields.flatMap(({ form }) => tsvTests[form] ?? []) : []
    this.#tests = tests.length === fields.length ? tests : null
    const writers = encoding === 'tsv' ? tsvWriters : jsonWriters
    this.#fields = fields.map(({ name, source, form }, index) => ({
      write: writers[form],
      head: encoding === 'tsv' ? Buffer.alloc(0) : Buffer.from(`${index === 0 ? '{' : ','}${JSON.stringify(name)}:`),
      source,
      zeroDates: 0,
    }))
  }

  columns(columns: readonly ColumnDefinition[]): void {
    const expected = this.#fields.length + (this.#ties === null ? 0 : 2)
    if (columns.length !== expected)
      throw new Violation(`it answered with ${columns.length} columns where ${expected} were asked for`)
  }

  row(bytes: Buffer, start: number, end: number): void {
    this.#reserve(this.#longest(bytes, start, end) + this.#fields.length * 48 + 64)
    const begin = this.used
    let at = this.#tests === null ? -1 : this.#copyFields(this.#tests, bytes, start, end)
    if (at < 0) at = this.#writeFields(bytes, start, end)
    if (this.#ties !== null) {
      if (!this.#admit(this.#ties, bytes, at, end)) {
        this.used = begin
        return
      }
    } else if (at !== end) throw new Violation('it sent a row with more values than columns')
    this.#records += 1
    if (this.used >= PAGE_BYTES) {
      this.#cut()
      this.#session.connection.pause()
      this.#wakeUp()
    }
  }

  /** Returns where the fields end. */
  #writeFields(bytes: Buffer, start: number, end: number): number {
    let at = start
    for (const field of this.#fields) {
      if (at >= end) throw new Violation('it sent a row with fewer values than columns')
      if (!this.#tsv) this.used += field.head.copy(this.bytes, this.used)
      const first = bytes[at]!
      if (first === NULL) {
        this.#writeNull()
        at += 1
      } else {
        // Most values are shorter than 251 bytes, and their length is a single byte.
        let length = first
        at += 1
        if (first > NULL) {
          const size = first === 0xfc ? 2 : first === 0xfd ? 3 : 6
          if (first === 0xff || at + size > end) throw new Violation('its row is shorter than its content')
          length = bytes.readUIntLE(at, size)
          at += first === 0xfe ? 8 : size
        }
        if (at + length > end) throw new Violation('its row is shorter than its content')
        if (!field.write(this, bytes, at, at + length))
          this.#writeNoDate(field, bytes.toString('latin1', at, at + length))
        at += length
      }
      if (this.#tsv) this.bytes[this.used++] = 9
    }
    if (this.#tsv) this.bytes[this.used - 1] = 10
    else {
      this.bytes[this.used++] = 125
      this.bytes[this.used++] = 10
    }
    return at
  }

  /**
   * Most typed rows need no change but for the lengths before their values, which become the tabs between them. Returns
   * where the fields end, or -1 for a row that has to be written field by field.
   */
  #copyFields(tests: readonly FieldTest[], bytes: Buffer, start: number, end: number): number {
    let at = start
    for (let index = 0; index < tests.length; index += 1) {
      if (at >= end) return -1
      const length = bytes[at]!
      const next = at + 1 + length
      if (length >= NULL || next > end || !tests[index]!(bytes, at + 1, next)) return -1
      at = next
    }
    const target = this.bytes
    const shift = this.used - start - 1
    bytes.copy(target, this.used, start + 1, at)
    for (let tab = start; tab < at; tab += 1 + bytes[tab]!) if (tab > start) target[tab + shift] = 9
    this.used = at + shift
    target[this.used++] = 10
    return at
  }

  /** How long the values of a row may become: hex doubles them, and JSON makes six bytes of a control character. */
  #longest(bytes: Buffer, start: number, end: number): number {
    const length = end - start
    if (this.#tsv) return length * 2
    if (length < SLACK) return length * 6
    let escapes = 0
    for (let at = start; at < end; at += 1) if (bytes[at]! < 32) escapes += 1
    return length * 2 + escapes * 5
  }

  #writeNull(): void {
    this.used += this.bytes.write(this.#tsv ? '\\N' : 'null', this.used, 'latin1')
  }

  #writeNoDate(field: Field, text: string): void {
    if (this.#zeroDates === 'fail')
      throw new ConnectorError(
        'source',
        `The column ${field.source} holds ${JSON.stringify(text.slice(0, 40))}, which is no date, and \`zero_dates\` is fail; correct the row, or set it to null or text`,
      )
    field.zeroDates += 1
    this.#writeNull()
  }

  #admit(ties: TieGroup, bytes: Buffer, start: number, end: number): boolean {
    const [cursor, next] = readHidden(bytes, start, end)
    const [identity, last] = readHidden(bytes, next, end)
    if (identity === null || last !== end) throw new Violation('it sent a row without the requested cursor value')
    // A null and an empty text must differ.
    return ties.admit(cursor === null ? '' : `=${cursor}`, identity)
  }

  #reserve(size: number): void {
    if (this.used + size <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(this.used + size, this.bytes.length))
    this.bytes.copy(larger, 0, 0, this.used)
    this.bytes = larger
  }

  #cut(): void {
    if (this.#records === 0) return
    const page: Page = { bytes: this.bytes.subarray(0, this.used), records: this.#records }
    if (this.#ties !== null) page.cursor = this.#ties.state()
    this.#ready.push(page)
    this.bytes = Buffer.allocUnsafeSlow(PAGE_BYTES + SLACK)
    this.used = 0
    this.#records = 0
  }

  #wakeUp(): void {
    this.#wake?.()
    this.#wake = null
  }

  #finish(error: Error | null): void {
    if (error === null) this.#cut()
    this.#error = error
    this.#over = true
    this.#wakeUp()
  }

  /** Columns with dates that do not exist, and how many. */
  get missingDates(): { column: string; count: number }[] {
    return this.#fields.flatMap(({ source, zeroDates }) =>
      zeroDates > 0 ? [{ column: source, count: zeroDates }] : [],
    )
  }

  /** If left before its end, the session is unusable, because the server is still sending. Destroy it. */
  async *read(sql: string): AsyncGenerator<Page> {
    this.#session.stream(sql, this).then(
      () => this.#finish(null),
      (error: Error) => this.#finish(error),
    )
    for (;;) {
      const page = this.#ready.shift()
      if (page !== undefined) yield page
      else if (this.#error !== null) throw this.#error
      else if (this.#over) return
      else
        await new Promise<void>((resolve) => {
          this.#wake = resolve
          this.#session.connection.resume()
        })
    }
  }
}

/** A value behind the record, and the position after it. */
function readHidden(bytes: Buffer, at: number, end: number): [string | null, number] {
  const first = at < end ? bytes[at]! : 0xff
  if (first === NULL) return [null, at + 1]
  const size = first < NULL ? 0 : first === 0xfc ? 2 : first === 0xfd ? 3 : -1
  const from = at + 1 + size
  const length = size === 0 ? first : size > 0 && from <= end ? bytes.readUIntLE(at + 1, size) : -1
  if (length < 0 || from + length > end) throw new Violation('it sent a row without the requested cursor value')
  return [bytes.toString('utf8', from, from + length), from + length]
}
