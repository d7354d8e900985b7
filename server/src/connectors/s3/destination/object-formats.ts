/** Turns a spool of JSON lines into the bytes of an object. */
import { createReadStream } from 'node:fs'
import { open, rm } from 'node:fs/promises'
import { Readable, type Transform } from 'node:stream'
import { createGzip, createZstdCompress } from 'node:zlib'
import { cutLines } from '../../../json/lines.ts'
import type { Engine } from '../../duckdb.ts'
import { createCsvWriter, csvHeader } from '../../formats/csv-writer.ts'
import { jsonRowsOf } from '../../formats/json-query.ts'
import type { OutputColumn } from '../../formats/output-columns.ts'
import { csvRowsOf, type ParquetRows, parquetQuery, refuseValues } from '../../formats/parquet-query.ts'
import type { LineFacts } from '../../types/column-facts.ts'
import type { DestinationSettings } from './settings.ts'
import type { Spool } from './spool.ts'

/** Also the size of the pages that are turned into text: larger ones only burden the garbage collector. */
const READ_BYTES = 256 * 1024

type Shape = Pick<DestinationSettings, 'format' | 'compression'>

const contentTypes = {
  jsonl: 'application/x-ndjson',
  csv: 'text/csv',
  parquet: 'application/vnd.apache.parquet',
}

export function contentType({ format, compression }: Shape): string {
  if (format === 'parquet' || compression === 'none') return contentTypes[format]
  return compression === 'gzip' ? 'application/gzip' : 'application/zstd'
}

export function extensionOf({ format, compression }: Shape): string {
  const packed = { none: '', gzip: '.gz', zstd: '.zst' }[compression]
  return format === 'parquet' ? 'parquet' : `${format}${packed}`
}

export interface Conversion {
  spool: Spool
  shape: Shape
  columns: readonly OutputColumn[]
  /** What is known about the lines. */
  lines: LineFacts
  /** For parquet. */
  engine(): Promise<Engine>
  signal: AbortSignal
}

export async function* objectBytes(conversion: Conversion): AsyncGenerator<Buffer> {
  const { spool, shape, columns } = conversion
  if (shape.format === 'parquet') return yield* parquetBytes(conversion)
  const lines = createReadStream(spool.path, { highWaterMark: READ_BYTES })
  yield* compress(shape.format === 'jsonl' ? lines : csvRows(lines, columns), shape)
}

async function* csvRows(lines: AsyncIterable<Buffer>, columns: readonly OutputColumn[]): AsyncGenerator<Buffer> {
  const names = columns.map(({ name }) => name)
  const write = createCsvWriter(names)
  yield csvHeader(names)
  for await (const page of cutLines(lines)) yield write(page)
}

function compress(bytes: AsyncIterable<Buffer>, { compression }: Shape): AsyncIterable<Buffer> {
  if (compression === 'none') return bytes
  const packer: Transform = compression === 'gzip' ? createGzip() : createZstdCompress()
  const input = Readable.from(bytes, { objectMode: false })
  input.on('error', (error) => packer.destroy(error))
  return input.pipe(packer)
}

async function* parquetBytes(conversion: Conversion): AsyncGenerator<Buffer> {
  const { spool, columns, shape, lines, signal } = conversion
  const input = `${spool.path}.csv`
  const output = `${spool.path}.parquet`
  try {
    const rows = jsonRowsOf(spool.path, columns, lines) ?? (await writeCsv(conversion, input))
    const { connection } = await conversion.engine()
    const query = parquetQuery({ rows, output, columns, compression: shape.compression })
    await connection.run(query).catch((error: Error) => refuseValues(error, signal))
    yield* createReadStream(output, { highWaterMark: READ_BYTES })
  } finally {
    await rm(input, { force: true })
    await rm(output, { force: true })
  }
}

/** Keeps the text of every value, whatever it is. */
async function writeCsv({ spool, columns, lines }: Conversion, path: string): Promise<ParquetRows> {
  const file = await open(path, 'wx', 0o600)
  try {
    for await (const rows of csvRows(createReadStream(spool.path, { highWaterMark: READ_BYTES }), columns))
      await file.writeFile(rows)
  } finally {
    await file.close()
  }
  return csvRowsOf(path, columns, lines.longest)
}
