/**
 * JSON lines to PostgreSQL's COPY text, byte to byte. Nothing is parsed into a JavaScript value, so every digit of a
 * number arrives as it was written, and a string without escapes is copied as it stands. A line is scanned once into the
 * spans of its values (records mostly repeat the order of their keys, so a key is compared with the one expected and
 * looked up only when it differs), then the spans are written in the order of the columns.
 *
 * The encoder stops in front of a record that does not fit its columns. Its owner calls `survey` over the rest of the page,
 * changes the columns and goes on. U+0000 and half surrogate pairs, which PostgreSQL cannot hold, become U+FFFD and are
 * counted.
 */

import { createSpans, type Spans, scanRecord, unknownFields, ValueForm } from '../../json/record-scanner.ts'
import { createOutput, LOOP_BYTES, type Output, writeJson, writeString } from './copy-text.ts'
import { type ExactColumn, writeExactRecord } from './exact-records.ts'
import { fitsLoosely, kindOfString } from './iso-times.ts'
import { Kind, type Kinds, normalizeType, traitsOf } from './kinds.ts'

export interface EncoderColumn {
  key: string
  type: string
  /** Takes the key and drops its values. */
  ignored?: boolean
  /** Seen as null only: not written, and the first other value is reported as one that does not fit. */
  untyped?: boolean
}

export interface RecordEncoder {
  columns: readonly EncoderColumn[]
  setColumns(columns: readonly EncoderColumn[]): void
  /**
   * Writes records from `from` on. `next` is the end of the page, or the begin of the first record that does not fit.
   */
  encode(page: Buffer, from: number): { next: number; records: number }
  /** For every key of the rest of the page: the kinds that its column does not take, or all of them where it has none. */
  survey(page: Buffer, from: number): Map<string, Kinds>
  /** What was written since the last call. */
  take(): Buffer
  /** Gives a taken buffer back for use again. */
  recycle(taken: Buffer): void
  /** How many bytes `take` would give. */
  readonly pending: number
  /** How many characters had to be replaced. */
  readonly replaced: number
  /** How many values were dropped because they did not fit (`dropMismatches`). */
  readonly dropped: number
}

interface Slot {
  written: boolean
  accepts: Kinds
  json: boolean
  type: string
  /** The largest integer of the type, where it is less than that of int8. */
  limit: number
}

/** After so many records of a page that do not look exactly like the columns, no more are tried. */
const MISSES = 50

const limits: Record<string, number> = { int2: 32767, int4: 2147483647 }

export function createRecordEncoder(
  initial: readonly EncoderColumn[],
  options: { dropMismatches?: boolean } = {},
): RecordEncoder {
  let columns = initial
  let slots: Slot[] = []
  let spans: Spans = createSpans([])
  /** Null where some column is not written: no record can look exactly like the columns then. */
  let exact: ExactColumn[] | null = null
  const output: Output = createOutput()
  let dropped = 0

  function setColumns(next: readonly EncoderColumn[]): void {
    columns = next
    slots = next.map(({ type, ignored, untyped }) => {
      const { accepts, form } = traitsOf(type)
      const name = normalizeType(type)
      return {
        written: !ignored && !untyped,
        accepts: ignored ? 255 : untyped ? 0 : accepts,
        json: form === 'json',
        type: untyped ? '' : name,
        limit: limits[name] ?? 0,
      }
    })
    spans = createSpans(next.map((column) => column.key))
    exact = slots.length > 0 && slots.every(({ written }) => written) ? slots.map(toExact) : null
  }
  function toExact({ accepts, json, limit }: Slot, index: number): ExactColumn {
    const head = Buffer.from(`${JSON.stringify(columns[index]!.key)}:`)
    return { head, accepts, json, limited: limit !== 0 }
  }
  setColumns(initial)

  /** 0 where the value fits its column, else its kind. */
  function misfit(page: Buffer, slot: Slot, index: number): Kinds {
    const form = spans.form[index]!
    if (form === ValueForm.null || slot.accepts === 255) return 0
    const start = spans.start[index]!
    const end = spans.end[index]!
    const kind = kindOf(page, form, start, end)
    if ((slot.accepts & kind) !== 0) {
      if (slot.limit === 0 || kind !== Kind.integer) return 0
      return Math.abs(Number(page.toString('latin1', start, end))) <= slot.limit ? 0 : kind
    }
    const isString = form === ValueForm.string || form === ValueForm.escaped
    if (isString && form === ValueForm.string && fitsLoosely(slot.type, page.toString('latin1', start, end))) return 0
    return kind
  }

  function encode(page: Buffer, from: number): { next: number; records: number } {
    let at = from
    let records = 0
    const end = page.length
    let misses = 0
    while (at < end) {
      if (exact !== null && misses < MISSES) {
        output.reserve(end - at + 64)
        const after = writeExactRecord(page, at, exact, output)
        if (after > 0) {
          records += 1
          at = after
          continue
        }
        misses += 1
      }
      const next = scanRecord(page, at, spans)
      if (next < 0) {
        // A blank line.
        at = -next
        continue
      }
      if (spans.unknown) return { next: at, records }
      for (let index = 0; index < slots.length; index += 1) {
        const slot = slots[index]!
        if (slot.accepts === 255 || spans.form[index] === ValueForm.null) continue
        if (misfit(page, slot, index) === 0) continue
        if (!options.dropMismatches) return { next: at, records }
        spans.form[index] = ValueForm.null
        dropped += 1
      }
      writeRecord(page, next - at)
      records += 1
      at = next
    }
    return { next: at, records }
  }

  // Most values are copied as they stand, in a loop here: calls and shared counters would cost more than the bytes.
  function writeRecord(page: Buffer, length: number): void {
    output.reserve(length * 2 + slots.length * 3 + 8)
    const { bytes } = output
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
        if (form === ValueForm.string && slot.json) {
          from -= 1
          end += 1
        }
        if (end - from > LOOP_BYTES) to += page.copy(bytes, to, from, end)
        else while (from < end) bytes[to++] = page[from++]!
      } else {
        output.used = to
        if (form === ValueForm.nested) writeJson(output, page, from, end)
        else if (slot.json) writeJson(output, page, from - 1, end + 1)
        else writeString(output, page, from, end)
        to = output.used
      }
      bytes[to++] = 9
    }
    // The last tab becomes the end of the row; a record without a column is still a row.
    if (to === output.used) to += 1
    bytes[to - 1] = 10
    output.used = to
  }

  function survey(page: Buffer, from: number): Map<string, Kinds> {
    const seen = new Map<string, Kinds>()
    let at = from
    while (at < page.length) {
      const next = scanRecord(page, at, spans)
      if (next < 0) {
        at = -next
        continue
      }
      for (const [index, slot] of slots.entries()) {
        if (spans.form[index] === ValueForm.null) continue
        const kind = misfit(page, slot, index)
        if (kind !== 0) seen.set(columns[index]!.key, (seen.get(columns[index]!.key) ?? 0) | kind)
      }
      if (spans.unknown) {
        for (const { key, form, start, end } of unknownFields(page, at, spans)) {
          const kind = form === ValueForm.null ? 0 : kindOf(page, form, start, end)
          seen.set(key, (seen.get(key) ?? 0) | kind)
        }
      }
      at = next
    }
    return seen
  }

  return {
    get columns() {
      return columns
    },
    setColumns,
    encode,
    survey,
    take: () => output.take(),
    recycle: (taken) => output.recycle(taken),
    get pending() {
      return output.used
    },
    get replaced() {
      return output.replaced
    },
    get dropped() {
      return dropped
    },
  }
}

function kindOf(page: Buffer, form: number, start: number, end: number): Kinds {
  switch (form) {
    case ValueForm.string:
      return kindOfString(page, start, end)
    case ValueForm.escaped:
      return Kind.text
    case ValueForm.boolean:
      return Kind.boolean
    case ValueForm.integer:
      return fitsInt8(page, start, end) ? Kind.integer : kindOfNumber(page, start, end)
    case ValueForm.number:
      return kindOfNumber(page, start, end)
    default:
      return Kind.nested
  }
}

function fitsInt8(page: Buffer, start: number, end: number): boolean {
  const digits = end - start - (page[start] === 45 ? 1 : 0)
  if (digits <= 18) return true
  if (digits > 19) return false
  const value = BigInt(page.toString('latin1', start, end))
  return value >= -(2n ** 63n) && value < 2n ** 63n
}

/** PostgreSQL's numeric ends at 131,072 digits before the point and 16,383 after it: what may not fit is kept as text. */
function kindOfNumber(page: Buffer, start: number, end: number): Kinds {
  let exponentAt = start
  while (exponentAt < end && (page[exponentAt]! | 32) !== 101) exponentAt += 1
  const exponent = exponentAt === end ? 0 : Number(page.toString('latin1', exponentAt + 1, end))
  return end - start <= 8000 && Math.abs(exponent) <= 8000 ? Kind.number : Kind.text
}
