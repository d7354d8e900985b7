/** The records of one object, after those that an earlier attempt has read. */
import { Readable } from 'node:stream'
import type { S3Object } from '../../../s3/listing.ts'
import { ConnectorError, type Page } from '../../contract.ts'
import { type FileFormat, formatByName, type OpenFile, openStream } from '../../formats/open-file.ts'
import { isJson, readJsonLines } from '../../formats/read-json-lines.ts'
import type { Bucket } from '../bucket.ts'
import { shorten } from '../failures.ts'
import { ObjectChanged, readBytes } from './read-bytes.ts'
import type { SourceSettings } from './settings.ts'

/** A place within an object. */
export interface Place {
  /** How many of its records come before. */
  records: number
  /** The same in bytes, for JSON lines that are not compressed: reading can begin there. */
  bytes?: number
}

/** A page, and the place after it. */
export interface ObjectPage {
  page: Page
  place: Place
}

interface ObjectReader {
  bucket: Bucket
  config: SourceSettings
  /** Whether pages of JSON lines carry facts. */
  survey: boolean | undefined
}

export async function* readObject(reader: ObjectReader, object: S3Object, from: Place): AsyncGenerator<ObjectPage> {
  if (object.size === 0) return
  try {
    yield* readRecords(reader, object, from)
  } catch (error) {
    throw nameObject(error, object)
  }
}

async function* readRecords(reader: ObjectReader, object: S3Object, from: Place): AsyncGenerator<ObjectPage> {
  const { bucket, config } = reader
  if (from.bytes !== undefined) return yield* readFrom(reader, object, from, from.bytes)
  const file = isParquet(config, object) ? null : await openObject(bucket, config, object)
  // By its first bytes; a compressed one is read like a table, as a whole.
  if (file === null || (file.format === 'parquet' && !file.packed)) {
    await file?.close()
    const { readParquet } = await import('./parquet.ts')
    return yield* count(readParquet(bucket, object, from.records), from.records)
  }
  if (isJson(file)) return yield* readLines(reader, file, from.records)
  const { readTable } = await import('../../formats/read-table.ts')
  const { pages } = await readTable(file, { ...config, signal: bucket.signal })
  yield* count(skipRecords(pages, from.records), from.records)
}

const formatOf = ({ format }: SourceSettings): FileFormat | undefined => (format === 'auto' ? undefined : format)

export const isParquet = (config: SourceSettings, { key }: S3Object): boolean =>
  (formatOf(config) ?? formatByName(key)) === 'parquet' && !/\.(gz|gzip|zst|zstd)$/i.test(key)

export async function openObject(bucket: Bucket, config: SourceSettings, object: S3Object): Promise<OpenFile> {
  const body = Readable.from(readBytes(bucket, object))
  return openStream(body, { name: object.key, format: formatOf(config), explain: (error) => error })
}

async function* readLines(reader: ObjectReader, file: OpenFile, skip: number): AsyncGenerator<ObjectPage> {
  let records = 0
  const mark = file.startsWithMark ? 3 : 0
  for await (const { end, ...page } of readJsonLines(file, { survey: reader.survey })) {
    const before = records
    records += page.records
    const place: Place = file.packed || file.format === 'json' ? { records } : { records, bytes: mark + end }
    if (records > skip) yield { page: dropRecords(page, skip - before), place }
  }
}

/** JSON lines from a byte on. */
async function* readFrom(
  { bucket, survey }: ObjectReader,
  object: S3Object,
  from: Place,
  start: number,
): AsyncGenerator<ObjectPage> {
  let { records } = from
  const chunks = readBytes(bucket, object, { start })
  const close = async (): Promise<void> => void (await chunks.return(undefined))
  const file: OpenFile = { format: 'jsonl', packed: false, startsWithMark: false, chunks, close }
  for await (const { end, ...page } of readJsonLines(file, { survey })) {
    records += page.records
    yield { page, place: { records, bytes: start + end } }
  }
}

async function* count(pages: AsyncIterable<Page>, from: number): AsyncGenerator<ObjectPage> {
  let records = from
  for await (const page of pages) {
    records += page.records
    yield { page, place: { records } }
  }
}

async function* skipRecords(pages: AsyncIterable<Page>, skip: number): AsyncGenerator<Page> {
  let before = 0
  for await (const page of pages) {
    if (before + page.records > skip) yield dropRecords(page, skip - before)
    before += page.records
  }
}

/** The page without its first records. */
function dropRecords(page: Page, skip: number): Page {
  if (skip <= 0) return page
  let start = 0
  for (let left = skip; left > 0; left--) start = page.bytes.indexOf(10, start) + 1
  return { bytes: page.bytes.subarray(start), records: page.records - skip }
}

/** Messages about "the file" say which one. */
function nameObject(error: unknown, { key }: S3Object): unknown {
  if (!(error instanceof ConnectorError) || error instanceof ObjectChanged) return error
  const { kind, message, transient } = error
  if (message.includes(shorten(key))) return error
  return new ConnectorError(kind, `Object '${shorten(key)}': ${message}`, { transient, cause: error })
}
