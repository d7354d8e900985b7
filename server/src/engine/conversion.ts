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
import { createCsvWriter, csvHeader } from '../connectors/formats/csv-writer.ts'
import { jsonRowsOf } from '../connectors/formats/json-query.ts'
import { LineSurvey, surveyLines } from '../connectors/formats/line-survey.ts'
import { chooseOutputColumns, type OutputColumn } from '../connectors/formats/output-columns.ts'
import { csvRowsOf, type ParquetRows, parquetQuery, refuseValues } from '../connectors/formats/parquet-query.ts'
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
/** Also the size of the pages that are turned into text: larger ones only burden the garbage collector. */
const READ_BYTES = 256 * 1024

export async function convertParts(conversion: Conversion): Promise<Converted> {
  return conversion.shape.format === 'parquet' ? convertToParquet(conversion) : convertToCsv(conversion)
}

async function convertToCsv(conversion: Conversion): Promise<Converted> {
  const survey = new LineSurvey()
  for await (const page of readPages(conversion)) surveyLines(survey, page)
  const { columns } = chooseOutputColumns(conversion.columns, survey.take().columns, conversion.kept)
  return { part: await writeCsv(conversion, columns), columns: namesAndTypes(columns) }
}

const namesAndTypes = (columns: readonly OutputColumn[]): Column[] => columns.map(({ name, type }) => ({ name, type }))

function warnOfText(log: RunLog, { name, type }: Column): void {
  log.warn(`Column ${name} is text in this file: Parquet has no ${type} that can hold all of its values exactly.`)
}

async function* readPages({ blobs, parts, signal }: Conversion): AsyncGenerator<Buffer> {
  for await (const page of cutLines(readParts(blobs, parts))) {
    signal.throwIfAborted()
    yield page
  }
}

async function* csvPages(pages: AsyncIterable<Buffer>, columns: readonly OutputColumn[]): AsyncGenerator<Buffer> {
  const names = columns.map((column) => column.name)
  if (names.length === 0) return
  const write = createCsvWriter(names)
  let gathered = [csvHeader(names)]
  let bytes = gathered[0]!.length
  for await (const page of pages) {
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
    for await (const block of csvPages(readPages(conversion), columns)) await writer.write(block)
  } catch (error) {
    await writer.abort()
    throw error
  }
  return writer.finish()
}

/**
 * DuckDB reads the lines themselves where nothing is lost that way; else a CSV that we make of them, in which it finds every
 * value as text.
 */
async function convertToParquet(conversion: Conversion): Promise<Converted> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-convert-'))
  try {
    const input = join(folder, 'rows.jsonl')
    const output = join(folder, 'rows.parquet')
    const survey = new LineSurvey()
    const written = await writeFile(conversion, input, surveyed(readPages(conversion), survey))
    const lines = survey.take()
    const { columns, texts } = chooseOutputColumns(conversion.columns, lines.columns, conversion.kept)
    for (const column of texts) warnOfText(conversion.log, column)
    const rows = jsonRowsOf(input, columns, lines) ?? (await asCsv(conversion, input, columns, lines.longest))
    // DuckDB's result is smaller, so the same amount of space again is enough.
    watchSpace(folder, keptFree(conversion) + written)(written)
    const engine = await openEngine(folder, conversion.signal)
    try {
      const query = parquetQuery({ rows, output, columns, compression: conversion.shape.compression })
      await engine.connection.run(query).catch((error: Error) => refuseValues(error, conversion.signal))
    } finally {
      engine.close()
    }
    return { part: await storeFile(conversion, output), columns: namesAndTypes(columns) }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

async function* surveyed(pages: AsyncIterable<Buffer>, survey: LineSurvey): AsyncGenerator<Buffer> {
  for await (const page of pages) {
    surveyLines(survey, page)
    yield page
  }
}

async function asCsv(
  conversion: Conversion,
  lines: string,
  columns: readonly OutputColumn[],
  longest: number,
): Promise<ParquetRows> {
  const path = `${lines}.csv`
  const pages = cutLines(createReadStream(lines, { highWaterMark: READ_BYTES }))
  await writeFile(conversion, path, csvPages(pages, columns))
  await rm(lines)
  return csvRowsOf(path, columns, longest)
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

/** Writes to a file while the disk has space; returns its size. */
async function writeFile(conversion: Conversion, path: string, blocks: AsyncIterable<Buffer>): Promise<number> {
  const makeRoom = watchSpace(dirname(path), keptFree(conversion))
  const file = await open(path, 'wx', 0o600)
  let written = 0
  try {
    for await (const block of blocks) {
      conversion.signal.throwIfAborted()
      makeRoom(block.length)
      await file.writeFile(block)
      written += block.length
    }
  } finally {
    await file.close()
  }
  return written
}

const keptFree = ({ keepFreeBytes }: Conversion): number => keepFreeBytes ?? KEPT_FREE_BYTES
