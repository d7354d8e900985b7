/**
 * JSON lines to tab-separated text, byte by byte. Nothing is parsed into a JavaScript value, so every digit of a
 * number is preserved, and a string without escapes is copied unchanged. A line is scanned once into the
 * spans of its values (records mostly repeat the order of their keys, so a key is compared with the one expected and
 * looked up only when it differs), then the spans are written in the order of the columns.
 *
 * The encoder stops before a record that does not fit its columns. Its owner calls `survey` over the rest of the page,
 * changes the columns and continues. U+0000 and lone surrogates, which few databases can store, become U+FFFD and are
 * counted. Times stay as the record writes them, ISO 8601.
 */

import { createSpans, type Spans, scanRecord, unknownFields, ValueForm } from '../../json/record-scanner.ts'
import { type ExactColumn, writeExactRecord } from './exact-records.ts'
import type { Kinds } from './kinds.ts'
import { createSlot, type EncoderColumn, kindOf, misfit, type Slot } from './slots.ts'
import { createOutput, LOOP_BYTES, type Output, writeJson, writeList, writeString } from './tsv-output.ts'

/** After this many records in a page that do not match the columns exactly, the fast path is not tried again. */
const MISSES = 50

interface Encoded {
  /** The end of the page, or the start of the first record that does not fit. */
  next: number
  records: number
}

/** A record's values, and the columns they go to. */
interface Scanned {
  spans: Spans
  slots: readonly Slot[]
}

export class RecordEncoder {
  readonly #dropMismatches: boolean
  readonly #output: Output = createOutput()
  #columns: readonly EncoderColumn[] = []
  #slots: Slot[] = []
  #spans: Spans = createSpans([])
  /** Both in one object, so that none is allocated per record. */
  #record: Scanned = { spans: this.#spans, slots: this.#slots }
  /** Null if some column is not written: then no record can match the columns exactly. */
  #exact: ExactColumn[] | null = null
  #dropped = 0

  constructor(columns: readonly EncoderColumn[], options: { dropMismatches?: boolean } = {}) {
    this.#dropMismatches = options.dropMismatches ?? false
    this.setColumns(columns)
  }

  setColumns(columns: readonly EncoderColumn[]): void {
    this.#columns = columns
    this.#slots = columns.map(createSlot)
    this.#spans = createSpans(columns.map((column) => column.key))
    this.#record = { spans: this.#spans, slots: this.#slots }
    this.#exact = columns.length > 0 && this.#slots.every(isPlain) ? this.#slots.map(toExact, columns) : null
  }

  /** Writes records starting at `from`. */
  encode(page: Buffer, from: number): Encoded {
    const end = page.length
    let at = from
    let records = 0
    let misses = 0
    while (at < end) {
      if (this.#exact !== null && misses < MISSES) {
        this.#output.reserve(end - at + 64)
        const after = writeExactRecord(page, at, this.#exact, this.#output)
        if (after > 0) {
          records += 1
          at = after
          continue
        }
        misses += 1
      }
      const next = scanRecord(page, at, this.#spans)
      if (next < 0) {
        // A blank line.
        at = -next
        continue
      }
      if (!this.#admit(page)) return { next: at, records }
      writeSpans(page, next - at, this.#record, this.#output)
      records += 1
      at = next
    }
    return { next: at, records }
  }

  /** Whether the scanned record fits the columns, after dropping what may be dropped. */
  #admit(page: Buffer): boolean {
    const spans = this.#spans
    if (spans.unknown) return false
    for (let index = 0; index < this.#slots.length; index += 1) {
      const slot = this.#slots[index]!
      if (slot.accepts === 255 || spans.form[index] === ValueForm.null) continue
      if (misfit(page, slot, spans, index) === 0) continue
      if (!this.#dropMismatches) return false
      spans.form[index] = ValueForm.null
      this.#dropped += 1
    }
    return true
  }

  /** For every key in the rest of the page: the kinds that its column does not take, or all kinds if it has none. */
  survey(page: Buffer, from: number): Map<string, Kinds> {
    const spans = this.#spans
    const seen = new Map<string, Kinds>()
    let at = from
    while (at < page.length) {
      const next = scanRecord(page, at, spans)
      if (next < 0) {
        at = -next
        continue
      }
      for (const [index, slot] of this.#slots.entries()) {
        const kind = misfit(page, slot, spans, index)
        if (kind !== 0) add(seen, this.#columns[index]!.key, kind)
      }
      if (spans.unknown) {
        for (const { key, form, start, end } of unknownFields(page, at, spans))
          add(seen, key, form === ValueForm.null ? 0 : kindOf(page, form, start, end))
      }
      at = next
    }
    return seen
  }

  /** What was written since the last call. */
  take(): Buffer {
    return this.#output.take()
  }

  /** Returns a taken buffer for reuse. */
  recycle(taken: Buffer): void {
    this.#output.recycle(taken)
  }

  /** How many bytes `take` would return. */
  get pending(): number {
    return this.#output.used
  }

  /** How many characters were replaced. */
  get replaced(): number {
    return this.#output.replaced
  }

  /** How many values were dropped because they did not fit (`dropMismatches`). */
  get dropped(): number {
    return this.#dropped
  }
}

function add(seen: Map<string, Kinds>, key: string, kind: Kinds): void {
  seen.set(key, (seen.get(key) ?? 0) | kind)
}

function isPlain({ written, form, fraction }: Slot): boolean {
  return written && form !== 'list' && fraction === 6
}

function toExact(
  this: readonly EncoderColumn[],
  { accepts, form, sureInteger, sureDecimal }: Slot,
  index: number,
): ExactColumn {
  const head = Buffer.from(`${JSON.stringify(this[index]!.key)}:`)
  return { head, accepts, json: form === 'json', sureInteger, sureDecimal }
}

// Most values are copied unchanged in an inline loop: calls and shared counters would cost more than the bytes.
function writeSpans(page: Buffer, length: number, { spans, slots }: Scanned, output: Output): void {
  output.reserve(length * 2 + slots.length * 3 + 8)
  let { bytes } = output
  const size = slots.length
  let to = output.used
  for (let index = 0; index < size; index += 1) {
    const slot = slots[index]!
    if (!slot.written) continue
    const form = spans.form[index]!
    let from = spans.start[index]!
    let end = spans.end[index]!
    if (form === ValueForm.null) {
      bytes[to] = 92
      bytes[to + 1] = 78
      to += 2
    } else if (form < ValueForm.nested && form !== ValueForm.escaped) {
      if (form === ValueForm.string && slot.form === 'json') {
        from -= 1
        end += 1
      }
      if (end - from > LOOP_BYTES) to += page.copy(bytes, to, from, end)
      else while (from < end) bytes[to++] = page[from++]!
    } else {
      output.used = to
      if (form === ValueForm.nested) writeNested(output, page, slot, from, end)
      else if (slot.form === 'json') writeJson(output, page, from - 1, end + 1)
      else writeString(output, page, from, end)
      // A list may be longer than what was reserved for its row.
      if (slot.form === 'list') output.reserve(length * 2 + size * 3 + 8)
      bytes = output.bytes
      to = output.used
    }
    bytes[to++] = 9
  }
  // The last tab becomes the end of the row; a record without columns is still a row.
  if (to === output.used) to += 1
  bytes[to - 1] = 10
  output.used = to
}

function writeNested(output: Output, page: Buffer, { form }: Slot, start: number, end: number): void {
  if (form === 'list' && page[start] === 91) writeList(output, page, start, end)
  else writeJson(output, page, start, end)
}
