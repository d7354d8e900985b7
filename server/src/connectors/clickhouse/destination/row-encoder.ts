/**
 * Turns chunks of records into rows for INSERT … FORMAT TabSeparated, with the columns they are written for. A chunk is one
 * statement, so if a record in its middle needs other columns, the chunk is written again from its start.
 */
import { isUtf8 } from 'node:buffer'
import { MalformedJson } from '../../../json/malformed.ts'
import { type Column, ConnectorError } from '../../contract.ts'
import { RecordEncoder } from '../../types/record-encoder.ts'
import { pickFields } from '../../types/tsv.ts'
import { Shape, type ShapeOptions, type WrittenColumn } from './shape.ts'
import { createTranscoder, Misfit, type Transcoder } from './transcode.ts'

interface EncodedChunk {
  rows: Buffer
  columns: WrittenColumn[]
}

export interface RowEncoder {
  readonly shape: Shape
  encode(chunk: Buffer): EncodedChunk
  /** What was lost or altered, as sentences for the log. */
  report(): string[]
}

export function createRowEncoder(options: ShapeOptions & { declared: Column[] | null }): RowEncoder {
  const shape = new Shape(options)
  if (options.declared !== null) shape.declare(options.declared)
  const encoder = options.encoding === 'tsv' ? createRowWriter(shape) : createJsonWriter(shape, options)
  return {
    shape,
    encode(chunk) {
      for (;;) {
        try {
          return encoder.encode(chunk)
        } catch (error) {
          if (error instanceof MalformedJson) throw new ConnectorError('source', error.message, { cause: error })
          if (!(error instanceof Misfit)) throw error
          adapt(shape, error)
        }
      }
    },
    report: () => [...encoder.report(), ...reportNames(shape)],
  }
}

function adapt(shape: Shape, { place, value }: Misfit): void {
  const column = shape.written()[place]!
  if (column.sql !== 'String' && shape.absorbText(place)) return
  throw new ConnectorError(
    'destination',
    `The value ${JSON.stringify(value.slice(0, 60))} cannot be stored in the column ${column.name} of the type ${column.sql}; change the column, or set config.sync.schema_change to evolve`,
  )
}

function reportNames(shape: Shape): string[] {
  const ignored = shape.names('ignored').join(', ')
  const generated = shape.names('generated').join(', ')
  return [
    ...(ignored === ''
      ? []
      : [`Fields that the table does not have, or that no longer fit it, were discarded: ${ignored}.`]),
    ...(generated === '' ? [] : [`Columns that the server computes were left alone: ${generated}.`]),
  ]
}

interface Writer {
  encode(chunk: Buffer): EncodedChunk
  report(): string[]
}

/** The transcoder of the columns as they are now. */
function followColumns(shape: Shape): () => { columns: WrittenColumn[]; transcode: Transcoder } {
  let known = ''
  let current: { columns: WrittenColumn[]; transcode: Transcoder } | null = null
  return () => {
    const columns = shape.written()
    const key = JSON.stringify(columns)
    if (current === null || key !== known) current = { columns, transcode: createTranscoder(columns) }
    known = key
    return current
  }
}

function createRowWriter(shape: Shape): Writer {
  const follow = followColumns(shape)
  return {
    encode(chunk) {
      const kept = shape.kept()
      const { columns, transcode } = follow()
      if (columns.length === 0)
        throw new ConnectorError('config', 'No column of the source is in the table; nothing could be loaded')
      return { rows: transcode(kept.every(Boolean) ? chunk : pickFields(chunk, kept)), columns }
    },
    report: () => [],
  }
}

function createJsonWriter(shape: Shape, { contract, existing }: ShapeOptions): Writer {
  const follow = followColumns(shape)
  const drops = contract === 'discard' && existing !== null
  let replaced = 0
  let dropped = 0

  function encodeOnce(encoder: RecordEncoder, bytes: Buffer): boolean {
    encoder.setColumns(shape.encoderColumns())
    const { next } = encoder.encode(bytes, 0)
    if (next === bytes.length) return true
    shape.absorb(encoder.survey(bytes, next))
    return false
  }

  return {
    encode(chunk) {
      const bytes = isUtf8(chunk) ? chunk : Buffer.from(chunk.toString('utf8'))
      // At most the kinds of a value, each widening a column once more.
      for (let tries = 0; tries < 20; tries += 1) {
        const encoder = new RecordEncoder([], { dropMismatches: drops })
        if (!encodeOnce(encoder, bytes)) continue
        const { columns, transcode } = follow()
        if (columns.length === 0)
          throw new ConnectorError(
            'destination',
            'No record so far has a field with a value, and ClickHouse has no tables without columns',
          )
        const rows = transcode(encoder.take())
        replaced += encoder.replaced
        dropped += encoder.dropped
        return { rows, columns }
      }
      throw new ConnectorError(
        'internal',
        'A record fits no column that could be made for it; please report this with the record',
      )
    },
    report: () => [
      ...(replaced > 0 ? [`${replaced} characters (U+0000, lone surrogates) became U+FFFD.`] : []),
      ...(dropped > 0 ? [`${dropped} values did not fit their column and were discarded.`] : []),
    ],
  }
}
