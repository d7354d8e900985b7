/**
 * Pages on their way into a table, as tab-separated text with the columns they were encoded for. They wait here until
 * there is enough to start with, so that a slow source does not keep a transaction and its locks open.
 */
import { isUtf8 } from 'node:buffer'
import { MalformedJson } from '../../../json/malformed.ts'
import { type Column, ConnectorError, type Encoding, type Page, type SchemaChange } from '../../contract.ts'
import { RecordEncoder } from '../../types/record-encoder.ts'
import { pickFields, replaceZeros } from '../../types/tsv.ts'
import { describeChange, Shape } from './shape.ts'
import type { TableColumn } from './table.ts'
import { findMisfits } from './watched-fields.ts'

export interface QueueItem {
  rows: Buffer
  /** The fields of the rows in order, with the types they are written for. */
  columns: TableColumn[]
  /** Called once the rows have been sent. */
  release?: (() => void) | undefined
  /** The rows are in binary form, and there are this many. */
  binary?: number
}

export interface PageQueue {
  /** The pages are in the native form. */
  readonly native: boolean
  readonly shape: Shape
  /** Bytes of waiting rows, including those not handed over yet. */
  readonly size: number
  add(page: Page): void
  /** Everything that waits, in order. */
  take(): QueueItem[]
  /** How the table has to change for what was taken, as text. */
  takeChanges(): string[]
  /** What was lost or altered, as sentences for the log. */
  report(): string[]
}

export interface QueueOptions {
  encoding: Encoding
  declared: Column[] | null
  existing: readonly TableColumn[] | null
  /** Columns of the table that cannot be written. */
  generated?: ReadonlySet<string>
  contract: SchemaChange
}

export function createPageQueue(options: QueueOptions, native = false): PageQueue {
  const shape = new Shape(options)
  const items: QueueItem[] = []
  let size = 0
  let rows = 0
  const queue = (item: QueueItem) => {
    items.push(item)
    size += item.rows.length
  }
  const changes = options.declared === null ? [] : describeChange(shape.declare(options.declared))
  const chooseAdder = (): Adder => {
    if (native) return createNativeAdder(shape, queue)
    if (options.encoding === 'tsv') return createRowAdder(options.declared ?? [], shape, queue, changes)
    return createJsonAdder(options, shape, queue, changes)
  }
  const adder = chooseAdder()
  return {
    native,
    shape,
    get size() {
      return size + adder.pending()
    },
    add(page) {
      rows += page.records
      adder.add(page)
    },
    take() {
      adder.flush()
      size = 0
      return items.splice(0)
    },
    takeChanges: () => changes.splice(0),
    report: () => [
      ...adder.report(),
      ...(shape.ignored.length > 0
        ? [
            `Fields that the table does not have, or that no longer fit it, were discarded: ${shape.ignored.join(', ')}.`,
          ]
        : []),
      ...(shape.generated.length > 0
        ? [`Columns that the server generates were left alone: ${shape.generated.join(', ')}.`]
        : []),
      ...(rows > 0 && shape.written().length === 0
        ? ['No record had a field with a value, so the rows have no column to show one in.']
        : []),
    ],
  }
}

interface Adder {
  add(page: Page): void
  /** Bytes of rows that were added and not queued yet. */
  pending(): number
  flush(): void
  report(): string[]
}

/** Rows that the table takes as they are (native-columns.ts). */
function createNativeAdder(shape: Shape, queue: (item: QueueItem) => void): Adder {
  const columns = shape.written()
  return {
    add: ({ bytes, records, release }) => queue({ rows: bytes, columns, release, binary: records }),
    pending: () => 0,
    flush() {},
    report: () => [],
  }
}

/** Rows pass unchanged; only if the contract drops a column must its fields be cut out, and only few are inspected. */
function createRowAdder(
  declared: readonly Column[],
  shape: Shape,
  queue: (item: QueueItem) => void,
  changes: string[],
): Adder {
  const kept = shape.encoderColumns().map((column) => column.ignored !== true)
  let columns = shape.written()
  let watched = shape.watched()
  if (columns.length === 0)
    throw new ConnectorError('config', 'No column of the source is in the table; nothing could be loaded')
  const whole = columns.length === declared.length
  let replaced = 0
  return {
    add(page) {
      const { bytes, replaced: zeros } = replaceZeros(page.bytes)
      replaced += zeros
      const misfits = watched.length === 0 ? [] : findMisfits(bytes, watched)
      if (misfits.length > 0) {
        changes.push(...describeChange(shape.absorbTexts(misfits)))
        columns = shape.written()
        watched = shape.watched()
      }
      queue({ rows: whole ? bytes : pickFields(bytes, kept), columns, release: page.release })
    },
    pending: () => 0,
    flush() {},
    report: () => reportReplaced(replaced),
  }
}

function reportReplaced(count: number): string[] {
  if (count === 0) return []
  return [`${count} characters that PostgreSQL cannot store (U+0000, lone surrogates) became U+FFFD.`]
}

/** Below this size encoded rows wait for more, so that each message to the server is worth its overhead. */
const FLUSH_BYTES = 256 * 1024

function createJsonAdder(
  options: QueueOptions,
  shape: Shape,
  queue: (item: QueueItem) => void,
  changes: string[],
): Adder {
  const encoder = new RecordEncoder(shape.encoderColumns(), {
    dropMismatches: options.contract === 'discard' && options.existing !== null,
  })
  let waiting = 0

  function flush(): void {
    if (waiting === 0) return
    const rows = encoder.take()
    if (rows.length > 0) queue({ rows, columns: shape.written(), release: () => encoder.recycle(rows) })
    waiting = 0
  }

  function adapt(bytes: Buffer, from: number): void {
    flush()
    changes.push(...describeChange(shape.absorb(encoder.survey(bytes, from))))
    encoder.setColumns(shape.encoderColumns())
  }

  return {
    add(page) {
      const bytes = isUtf8(page.bytes) ? page.bytes : Buffer.from(page.bytes.toString('utf8'))
      let from = 0
      let stuck = 0
      try {
        while (from < bytes.length) {
          const { next, records } = encoder.encode(bytes, from)
          waiting += records
          stuck = records > 0 ? 0 : stuck + 1
          from = next
          if (from === bytes.length) break
          if (stuck > 3)
            throw new ConnectorError(
              'internal',
              'A record fits no column that could be made for it; please report this with the record',
            )
          adapt(bytes, from)
        }
      } catch (error) {
        if (error instanceof MalformedJson) throw new ConnectorError('source', error.message, { cause: error })
        throw error
      }
      if (waiting > 0 && encoder.pending >= FLUSH_BYTES) flush()
    },
    pending: () => (waiting === 0 ? 0 : encoder.pending),
    flush,
    report: () => [
      ...reportReplaced(encoder.replaced),
      ...(encoder.dropped > 0 ? [`${encoder.dropped} values did not fit their column and were discarded.`] : []),
    ],
  }
}
