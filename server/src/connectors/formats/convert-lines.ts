/**
 * Converts JSON lines to Parquet while they are read. They are surveyed as they come, and each chunk is converted with the
 * columns that are known by then; if later lines need others, all chunks are converted again with columns that hold
 * everything. DuckDB reads the lines themselves where nothing is lost that way; else a CSV that we make of them, in which it
 * finds every value as text.
 */
import { createReadStream } from 'node:fs'
import { type FileHandle, mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { watchSpace } from '../../blobs/disk-space.ts'
import { cutLines } from '../../json/lines.ts'
import type { Page } from '../contract.ts'
import { addFacts, type LineFacts, noLines } from '../types/column-facts.ts'
import { createCsvWriter, csvHeader } from './csv-writer.ts'
import { jsonRowsOf } from './json-query.ts'
import type { LineTable } from './local-table.ts'
import type { OutputColumn } from './output-columns.ts'
import { type ChunkQuery, ParquetChunks } from './parquet-chunks.ts'
import { csvRowsOf, type ParquetRows, parquetQuery } from './parquet-query.ts'
import type { ConvertedTable, TableConversion } from './table-conversion.ts'

/** A chunk becomes a row group, which is in memory as a whole. */
const CHUNK_BYTES = 3 * 1024 * 1024
/** Larger pages only burden the garbage collector. */
const READ_BYTES = 256 * 1024

interface Chunk {
  path: string
  bytes: number
  lines: LineFacts
}

export function convertLines(table: LineTable, conversion: TableConversion, chunkBytes = CHUNK_BYTES): ConvertedTable {
  let columns: OutputColumn[] = []
  async function* pages(): AsyncGenerator<Page> {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-lines-'))
    try {
      columns = yield* new LineConversion(folder, conversion, chunkBytes).convert(table)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  }
  return { columns: () => columns, pages: pages() }
}

class LineConversion {
  readonly #folder: string
  readonly #conversion: TableConversion
  readonly #chunkBytes: number
  readonly #parquet: ParquetChunks
  readonly #makeRoom: (bytes: number) => void
  readonly #chunks: Chunk[] = []
  #lines: LineFacts = noLines
  /** Of the chunks that were converted so far; null once they have proved wrong. */
  #guess: OutputColumn[] | null | undefined

  constructor(folder: string, conversion: TableConversion, chunkBytes: number) {
    this.#folder = folder
    this.#chunkBytes = chunkBytes
    this.#conversion = conversion
    this.#makeRoom = watchSpace(folder)
    this.#parquet = new ParquetChunks(folder, conversion.signal)
  }

  /** Returns the columns of the file. */
  async *convert(table: LineTable): AsyncGenerator<Page, OutputColumn[]> {
    try {
      let records = 0
      for await (const chunk of this.#storeChunks(table)) {
        records += chunk.records
        yield* this.#take(chunk)
      }
      const columns = this.#guess ?? (yield* this.#convertAgain())
      // Records without any field have no column, and then no row.
      yield* this.#parquet.finish(records, columns.length > 0)
      return columns
    } finally {
      await this.#parquet.close()
    }
  }

  async *#take(chunk: Chunk): AsyncGenerator<Page> {
    this.#chunks.push(chunk)
    this.#lines = addFacts(this.#lines, chunk.lines)
    if (this.#guess === null) return
    const columns = this.#conversion.choose(this.#lines.columns)
    if (this.#guess !== undefined && JSON.stringify(columns) !== JSON.stringify(this.#guess)) {
      this.#guess = null
      yield* this.#parquet.restart()
      return
    }
    this.#guess = columns
    yield* this.#parquet.add(chunk.bytes, this.#queryOf(chunk, columns))
  }

  async *#convertAgain(): AsyncGenerator<Page, OutputColumn[]> {
    const columns = this.#conversion.choose(this.#lines.columns)
    for (const chunk of this.#chunks) yield* this.#parquet.add(chunk.bytes, this.#queryOf(chunk, columns))
    return columns
  }

  #queryOf(chunk: Chunk, columns: OutputColumn[]): ChunkQuery {
    const { compression } = this.#conversion
    const toSql = (rows: ParquetRows, output: string) => parquetQuery({ rows, output, columns, compression })
    return async (output, run) => {
      const rows = jsonRowsOf(chunk.path, columns, chunk.lines)
      if (rows !== null) return run(toSql(rows, output))
      const csv = `${chunk.path}.csv`
      try {
        await this.#writeCsv(chunk.path, csv, columns)
        await run(toSql(csvRowsOf(csv, columns, chunk.lines.longest), output))
      } finally {
        await rm(csv, { force: true })
      }
    }
  }

  /** Keeps the text of every value, whatever it is. */
  async #writeCsv(path: string, output: string, columns: readonly OutputColumn[]): Promise<void> {
    const names = columns.map(({ name }) => name)
    const write = createCsvWriter(names)
    const file = await open(output, 'w', 0o600)
    try {
      await file.writeFile(csvHeader(names))
      for await (const page of cutLines(createReadStream(path, { highWaterMark: READ_BYTES }))) {
        const bytes = write(page)
        this.#makeRoom(bytes.length)
        await file.writeFile(bytes)
      }
    } finally {
      await file.close()
    }
  }

  async *#storeChunks(table: LineTable): AsyncGenerator<Chunk & { records: number }> {
    let file: FileHandle | null = null
    let chunk = { path: '', bytes: 0, lines: noLines, records: 0 }
    let number = 0
    try {
      for await (const { bytes, records, facts } of table.pages) {
        this.#conversion.signal.throwIfAborted()
        if (file === null) {
          chunk = { path: join(this.#folder, `${++number}.jsonl`), bytes: 0, lines: noLines, records: 0 }
          file = await open(chunk.path, 'wx', 0o600)
        }
        this.#makeRoom(bytes.length)
        chunk.bytes += bytes.length
        chunk.records += records
        chunk.lines = addFacts(chunk.lines, facts)
        await file.writeFile(bytes)
        if (chunk.bytes < this.#chunkBytes) continue
        await file.close()
        file = null
        yield chunk
      }
      if (file) yield chunk
    } finally {
      await file?.close()
    }
  }
}
