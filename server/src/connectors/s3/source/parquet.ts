/**
 * Reads a Parquet object by ranges. Its footer says where each row group is, so only the groups that are needed are fetched,
 * a few at a time, into a sparse local file that has the size of the object and holds the footer and those groups. DuckDB reads
 * the rows of just these groups from it. Disk and memory do not grow with the object, and a read that resumes skips the
 * groups before its place without fetching them.
 */
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
import { watchSpace } from '../../../blobs/disk-space.ts'
import type { S3Object } from '../../../s3/listing.ts'
import { type Column, ConnectorError, type Page } from '../../contract.ts'
import { type Engine, openEngine, quoteText } from '../../duckdb.ts'
import { columnsOf, explainTable, streamRows } from '../../formats/read-table.ts'
import { parquetFields, type TableField } from '../../formats/table-fields.ts'
import type { Bucket } from '../bucket.ts'
import { readBytes } from './read-bytes.ts'

/** How much is fetched at once, if the row groups are small. */
const WINDOW_BYTES = 16 * 1024 * 1024
const MOST_FOOTER_BYTES = 64 * 1024 * 1024
const MAGIC = Buffer.from('PAR1')
/** The length of the footer and the magic bytes. */
const TAIL_BYTES = 8

interface RowGroup {
  rows: number
  /** Where its bytes are in the object. */
  start: number
  end: number
}

interface OpenParquet {
  fields: TableField[]
  groups: RowGroup[]
  connection: DuckDBConnection
  /** A new local file with these bytes of the object. */
  fetch(start: number, end: number): Promise<string>
  close(): Promise<void>
}

/** The rows after the first `skip`. */
export async function* readParquet(bucket: Bucket, object: S3Object, skip: number): AsyncGenerator<Page> {
  const file = await openParquet(bucket, object)
  try {
    let first = 0
    for (const window of windowsOf(file.groups)) {
      const after = first + window.rows
      if (after > skip) {
        const path = await file.fetch(window.start, window.end)
        // Ranges of row numbers make DuckDB leave the other groups alone, which are not there.
        const sql = `(SELECT * EXCLUDE (file_row_number) FROM read_parquet(${quoteText(path)}, file_row_number = true)
          WHERE file_row_number BETWEEN ${Math.max(first, skip)} AND ${after - 1})`
        const { connection, fields } = file
        yield* streamRows({ connection, fields, sql, close: async () => undefined }, bucket.signal)
      }
      first = after
    }
  } catch (error) {
    throw explainTable(error, bucket.signal)
  } finally {
    await file.close()
  }
}

/** From the footer alone. */
export async function describeParquet(
  bucket: Bucket,
  object: S3Object,
): Promise<{ columns: Column[] | null; rows: number }> {
  const { fields, groups, close } = await openParquet(bucket, object)
  await close()
  return { columns: columnsOf(fields), rows: groups.reduce((sum, group) => sum + group.rows, 0) }
}

function* windowsOf(groups: readonly RowGroup[]): Generator<RowGroup> {
  let window: RowGroup | null = null
  for (const { rows, start, end } of groups) {
    if (window === null) window = { rows, start, end }
    else window = { rows: window.rows + rows, start: Math.min(window.start, start), end: Math.max(window.end, end) }
    if (window.end - window.start < WINDOW_BYTES) continue
    yield window
    window = null
  }
  if (window !== null) yield window
}

async function openParquet(bucket: Bucket, object: S3Object): Promise<OpenParquet> {
  const footer = await readFooter(bucket, object)
  const folder = await mkdtemp(join(tmpdir(), 'sluice-file-'))
  const makeRoom = watchSpace(folder)
  let engine: Engine | null = null
  let last: string | null = null
  let made = 0
  const close = async (): Promise<void> => {
    engine?.close()
    engine = null
    await rm(folder, { recursive: true, force: true })
  }
  const fetch = async (start: number, end: number): Promise<string> => {
    if (last !== null) await rm(last)
    last = join(folder, `groups-${++made}`)
    const file = await open(last, 'wx', 0o600)
    try {
      await file.truncate(object.size)
      await file.write(MAGIC, 0, MAGIC.length, 0)
      await file.write(footer, 0, footer.length, object.size - footer.length)
      await copyRange(bucket, object, { start, end, file, makeRoom })
    } finally {
      await file.close()
    }
    return last
  }
  try {
    const path = await fetch(0, 0)
    engine = await openEngine(folder, bucket.signal)
    const { connection } = engine
    const fields = await parquetFields(connection, `read_parquet(${quoteText(path)})`)
    const groups = await readGroups(connection, path, object.size - footer.length)
    return { fields, groups, connection, fetch, close }
  } catch (error) {
    await close()
    throw explainTable(error, bucket.signal)
  }
}

async function readFooter(bucket: Bucket, object: S3Object): Promise<Buffer> {
  if (object.size < MAGIC.length + TAIL_BYTES) throw notParquet()
  const tail = await readRange(bucket, object, object.size - TAIL_BYTES, object.size)
  const length = tail.readUInt32LE() + TAIL_BYTES
  if (!tail.subarray(4).equals(MAGIC) || length > object.size - MAGIC.length) throw notParquet()
  if (length > MOST_FOOTER_BYTES)
    throw new ConnectorError(
      'limit',
      `The footer of the Parquet file has ${length} bytes, too many to read; write larger row groups, or several files.`,
    )
  return readRange(bucket, object, object.size - length, object.size)
}

async function readRange(bucket: Bucket, object: S3Object, start: number, end: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of readBytes(bucket, object, { start, end })) chunks.push(chunk)
  return Buffer.concat(chunks)
}

interface Copy {
  start: number
  end: number
  file: FileHandle
  makeRoom(bytes: number): void
}

async function copyRange(bucket: Bucket, object: S3Object, { start, end, file, makeRoom }: Copy): Promise<void> {
  let at = start
  for await (const chunk of readBytes(bucket, object, { start, end })) {
    makeRoom(chunk.length)
    for (let written = 0; written < chunk.length; ) {
      const { bytesWritten } = await file.write(chunk, written, chunk.length - written, at)
      written += bytesWritten
      at += bytesWritten
    }
  }
}

/** `limit`: where the footer begins. */
async function readGroups(connection: DuckDBConnection, path: string, limit: number): Promise<RowGroup[]> {
  const begin = `CASE WHEN dictionary_page_offset > 0 THEN least(dictionary_page_offset, data_page_offset) ELSE data_page_offset END`
  const result = await connection.runAndReadAll(
    `SELECT any_value(row_group_num_rows), min(${begin}), max(${begin} + total_compressed_size)
     FROM parquet_metadata(${quoteText(path)}) GROUP BY row_group_id ORDER BY row_group_id`,
  )
  return result.getRowsJson().map((row) => {
    const [rows, start, end] = row.map(Number) as [number, number, number]
    const valid =
      [rows, start, end].every(Number.isSafeInteger) && rows >= 0 && start >= 4 && end >= start && end <= limit
    if (!valid) throw notParquet()
    return { rows, start, end }
  })
}

function notParquet(): ConnectorError {
  return new ConnectorError('source', 'The file is not a valid Parquet file; it is damaged, encrypted or incomplete.')
}
