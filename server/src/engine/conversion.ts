/** Converts the stage of a run, JSON lines in several blobs, into one blob of CSV or Parquet. */
import { createReadStream } from 'node:fs'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { BlobStore } from '../blobs/blobs.ts'
import { KEPT_FREE_BYTES, watchSpace } from '../blobs/disk-space.ts'
import { readParts } from '../blobs/part-reader.ts'
import { openPartWriter } from '../blobs/part-writer.ts'
import type { StoredPart } from '../blobs/parts.ts'
import type { Column, OutputShape, RunLog } from '../connectors/contract.ts'
import { openEngine } from '../connectors/duckdb.ts'
import { createColumnFinder } from '../connectors/formats/column-facts.ts'
import { createCsvWriter, csvHeader } from '../connectors/formats/csv-writer.ts'
import { chooseOutputColumns, type OutputColumn } from '../connectors/formats/output-columns.ts'
import { parquetQuery, refuseValues } from '../connectors/formats/parquet-query.ts'
import { cutLines } from '../json/lines.ts'

interface Conversion {
  blobs: BlobStore
  /** JSON lines, in order. */
  parts: readonly StoredPart[]
  /** Where the result goes. */
  key: string
  shape: OutputShape
  /** The columns that the source declared. */
  columns: readonly Column[] | null
  /** The columns of the pipeline's last file. */
  kept: readonly Column[] | null
  signal: AbortSignal
  log: RunLog
  /**
   * How much space must stay free on the disk of the temporary folder; by default what the service reserves for itself.
   */
  keepFreeBytes?: number
}

interface Converted {
  part: StoredPart
  columns: Column[]
}

const WRITE_BYTES = 1024 * 1024

export async function convertParts(conversion: Conversion): Promise<Converted> {
  const finder = createColumnFinder()
  for await (const page of readPages(conversion)) finder.add(page)
  const { columns, texts } = chooseOutputColumns(conversion.columns, finder.columns(), conversion.kept)
  const isParquet = conversion.shape.format === 'parquet'
  if (isParquet) for (const column of texts) warnOfText(conversion.log, column)
  const part = isParquet
    ? await writeParquet(conversion, columns, finder.longest())
    : await writeCsv(conversion, columns)
  return { part, columns: columns.map(({ name, type }) => ({ name, type })) }
}

function warnOfText(log: RunLog, { name, type }: Column): void {
  log.warn(`Column ${name} is text in this file: Parquet has no ${type} that can hold all of its values exactly.`)
}

async function* readPages({ blobs, parts, signal }: Conversion): AsyncGenerator<Buffer> {
  for await (const page of cutLines(readParts(blobs, parts))) {
    signal.throwIfAborted()
    yield page
  }
}

async function* csvPages(conversion: Conversion, columns: readonly OutputColumn[]): AsyncGenerator<Buffer> {
  const names = columns.map((column) => column.name)
  if (names.length === 0) return
  const write = createCsvWriter(names)
  let gathered = [csvHeader(names)]
  let bytes = gathered[0]!.length
  for await (const page of readPages(conversion)) {
    const rows = write(page)
    gathered.push(rows)
    bytes += rows.length
    if (bytes < WRITE_BYTES) continue
    yield Buffer.concat(gathered)
    gathered = []
    bytes = 0
  }
  if (bytes > 0) yield Buffer.concat(gathered)
}

async function writeCsv(conversion: Conversion, columns: readonly OutputColumn[]): Promise<StoredPart> {
  const { blobs, key, shape } = conversion
  const writer = openPartWriter(blobs, key, shape.compression === 'gzip' ? 'gzip' : 'zstd')
  try {
    for await (const block of csvPages(conversion, columns)) await writer.write(block)
  } catch (error) {
    await writer.abort()
    throw error
  }
  return writer.finish()
}

/** Goes through a CSV file that we write: DuckDB reads every cell as text and casts it only if nothing is lost. */
async function writeParquet(
  conversion: Conversion,
  columns: readonly OutputColumn[],
  longest: number,
): Promise<StoredPart> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-convert-'))
  try {
    const input = join(folder, 'rows.csv')
    const output = join(folder, 'rows.parquet')
    const written = await writeRows(conversion, columns, input)
    // DuckDB's result is smaller, so the same amount of space again is enough.
    await watchSpace(folder, keptFree(conversion) + written)(written)
    const engine = await openEngine(folder, conversion.signal)
    try {
      const query = parquetQuery({ input, output, columns, longest, compression: conversion.shape.compression })
      await engine.connection.run(query).catch((error: Error) => refuseValues(error, conversion.signal))
    } finally {
      engine.close()
    }
    return await storeFile(conversion, output)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

/** Unchanged: Parquet is compressed already. */
async function storeFile({ blobs, key }: Conversion, path: string): Promise<StoredPart> {
  const writer = await blobs.writer(key)
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: WRITE_BYTES })) await writer.write(chunk)
    return { key, ...(await writer.finish()) }
  } catch (error) {
    await writer.abort()
    throw error
  }
}

/** Writes the rows to a file while the disk has space; returns its size. */
async function writeRows(conversion: Conversion, columns: readonly OutputColumn[], path: string): Promise<number> {
  const makeRoom = watchSpace(dirname(path), keptFree(conversion))
  const file = await open(path, 'wx', 0o600)
  let written = 0
  try {
    for await (const block of csvPages(conversion, columns)) {
      await makeRoom(block.length)
      await file.writeFile(block)
      written += block.length
    }
  } finally {
    await file.close()
  }
  return written
}

const keptFree = ({ keepFreeBytes }: Conversion): number => keepFreeBytes ?? KEPT_FREE_BYTES
