/**
 * Pages on their way into a table, as rows for LOAD DATA with the columns they were written for. They wait here until
 * there is enough to start with.
 */
import { isUtf8 } from 'node:buffer'
import { MalformedJson } from '../../../json/malformed.ts'
import { type Column, ConnectorError, type Encoding, type Page, type SchemaChange } from '../../contract.ts'
import { RecordEncoder } from '../../types/record-encoder.ts'
import { writeRefusedRow } from '../../types/refused-row.ts'
import { pickFields } from '../../types/tsv.ts'
import type { TableColumn } from './columns.ts'
import { Shape, type WrittenColumn } from './shape.ts'
import { createTranscoder, Misfit, UnstorableValue } from './transcode.ts'

export interface QueueItem {
  rows: Buffer
  records: number
  columns: WrittenColumn[]
}

export interface PageQueue {
  readonly shape: Shape
  /** Bytes of waiting rows. */
  readonly size: number
  add(page: Page): void
  /** Everything that waits, in order. */
  take(): QueueItem[]
  /** Rows with a value that MySQL cannot store, since the last call. Without `quarantine` they fail. */
  takeRefused(): RefusedRow[]
  /** What was lost or altered, as sentences for the log. */
  report(): string[]
}

interface RefusedRow {
  record: string
  reason: string
}

export interface QueueOptions {
  encoding: Encoding
  declared: Column[] | null
  existing: readonly TableColumn[] | null
  generated: ReadonlySet<string>
  contract: SchemaChange
  /** Rows that cannot be stored are left out. */
  quarantine?: boolean
}

export function createPageQueue(options: QueueOptions): PageQueue {
  const shape = new Shape(options)
  if (options.declared !== null) shape.declare(options.declared)
  const items: QueueItem[] = []
  const refused: RefusedRow[] = []
  let size = 0
  const queue = (item: QueueItem): void => {
    items.push(item)
    size += item.rows.length
  }
  const { transcode, follow } = createRowTranscoder(shape, options.quarantine ? refused : null)
  const adder =
    options.encoding === 'tsv'
      ? createRowAdder(options.declared ?? [], shape, (rows, records) => queue(transcode(rows, records)))
      : createJsonAdder(options, shape, (rows, records) => {
          follow()
          queue(transcode(rows, records))
        })
  return {
    shape,
    get size() {
      return size
    },
    add: adder.add,
    take() {
      adder.flush()
      size = 0
      return items.splice(0)
    },
    takeRefused: () => refused.splice(0),
    report: () => [...adder.report(), ...reportNames(shape)],
  }
}

function reportNames(shape: Shape): string[] {
  const ignored = shape.names('ignored').join(', ')
  const generated = shape.names('generated').join(', ')
  return [
    ...(ignored === ''
      ? []
      : [`Fields that the table does not have, or that no longer fit it, were discarded: ${ignored}.`]),
    ...(generated === '' ? [] : [`Columns that the server generates were left alone: ${generated}.`]),
  ]
}

interface Adder {
  add(page: Page): void
  flush(): void
  report(): string[]
}

/** Makes rows what LOAD DATA reads. Finds a value that does not fit, lets the shape adapt, and tries again. */
function createRowTranscoder(shape: Shape, refused: RefusedRow[] | null): RowTranscoder {
  let current = createTranscoder(shape.written())

  function transcode(rows: Buffer): Buffer {
    for (;;) {
      try {
        return current(rows)
      } catch (error) {
        if (!(error instanceof Misfit)) throw error
        const column = shape.written()[error.place]!
        shape.absorbText(error.place)
        if (shape.written()[error.place]?.neutral !== 'text')
          throw new UnstorableValue(
            `The value ${error.value.slice(0, 60)} cannot be stored in the column ${column.name} of the type ${column.sql}; change the column, or set config.sync.schema_change to evolve`,
          )
        current = createTranscoder(shape.written())
      }
    }
  }

  /** Leaves out the rows that cannot be stored, by halving. */
  function transcodeSome(rows: Buffer): Buffer {
    try {
      return transcode(rows)
    } catch (error) {
      if (refused === null || !(error instanceof UnstorableValue)) throw error
      const middle = findMiddle(rows)
      if (middle < rows.length)
        return Buffer.concat([transcodeSome(rows.subarray(0, middle)), transcodeSome(rows.subarray(middle))])
      const named = shape.written().map(({ name, from }) => ({ name, type: from }))
      const record = writeRefusedRow(named, rows.toString('utf8', 0, rows.length - 1))
      refused.push({ record, reason: error.message })
      return Buffer.alloc(0)
    }
  }

  return {
    follow() {
      current = createTranscoder(shape.written())
    },
    transcode(given, records) {
      const before = refused?.length ?? 0
      const rows = transcodeSome(given)
      return { rows, records: records - ((refused?.length ?? 0) - before), columns: shape.written() }
    },
  }
}

interface RowTranscoder {
  /** The shape has changed. */
  follow(): void
  transcode(rows: Buffer, records: number): QueueItem
}

/** The end of a row near the middle; the end of all if there is only one. */
function findMiddle(rows: Buffer): number {
  const before = rows.lastIndexOf(10, (rows.length >> 1) - 1) + 1
  return before > 0 ? before : rows.indexOf(10) + 1
}

type QueueRows = (rows: Buffer, records: number) => void

function createRowAdder(declared: readonly Column[], shape: Shape, queue: QueueRows): Adder {
  const kept = shape.kept()
  const whole = kept.every(Boolean)
  if (shape.written().length === 0 && declared.length > 0)
    throw new ConnectorError('config', 'No column of the source is in the table; nothing could be loaded')
  return {
    add: ({ bytes, records }) => queue(whole ? bytes : pickFields(bytes, kept), records),
    flush() {},
    report: () => [],
  }
}

/** Below this size encoded rows wait for more. */
const FLUSH_BYTES = 256 * 1024

function createJsonAdder(options: QueueOptions, shape: Shape, queue: QueueRows): Adder {
  const encoder = new RecordEncoder(shape.encoderColumns(), {
    dropMismatches: options.contract === 'discard' && options.existing !== null,
  })
  let waiting = 0

  function flush(): void {
    if (waiting === 0) return
    const rows = encoder.take()
    if (shape.written().length === 0)
      throw new ConnectorError(
        'destination',
        'No record so far has a field with a value, and MySQL has no tables without columns',
      )
    queue(rows, waiting)
    waiting = 0
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
          flush()
          shape.absorb(encoder.survey(bytes, from))
          encoder.setColumns(shape.encoderColumns())
        }
      } catch (error) {
        if (error instanceof MalformedJson) throw new ConnectorError('source', error.message, { cause: error })
        throw error
      }
      if (waiting > 0 && encoder.pending >= FLUSH_BYTES) flush()
    },
    flush,
    report: () => [
      ...(encoder.replaced > 0 ? [`${encoder.replaced} characters (U+0000, lone surrogates) became U+FFFD.`] : []),
      ...(encoder.dropped > 0 ? [`${encoder.dropped} values did not fit their column and were discarded.`] : []),
    ],
  }
}
