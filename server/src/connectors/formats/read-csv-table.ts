/**
 * Reads a CSV for a destination that converts it as a whole: in chunks, or, where the rows of a file cannot be divided, in one
 * piece.
 */
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { availableParallelism, tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Page, Reading } from '../contract.ts'
import { openEngine } from '../duckdb.ts'
import type { ColumnFacts } from '../types/column-facts.ts'
import { factsOfCells } from './cell-facts.ts'
import { CsvChunks } from './csv-chunks.ts'
import {
  type ChunkedCsv,
  csvTableSql,
  type Dialect,
  detectDialect,
  type LocalTable,
  USUAL_LINE_BYTES,
} from './local-table.ts'
import type { OpenFile } from './open-file.ts'
import { explainTable, readRows, type StoredTable, storeTable, type TableOptions } from './read-table.ts'

/** For reading and writing at once, with two threads; what is less makes DuckDB slower. */
const WHOLE_MB = 128
const SAMPLE_ROWS = 2048
/** Of a file, to judge how it is written. */
const HEAD_BYTES = 1024 * 1024

export async function readCsvTable(given: OpenFile, options: TableOptions): Promise<Reading> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-file-'))
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true })
  try {
    const { head, chunks } = await takeHead(given)
    const file = { ...given, chunks }
    const found = await judgeHead(folder, head, options)
    if (found) {
      const table = openChunked(file, folder, found, options)
      return { columns: null, table, pages: nothing(table) }
    }
    await remove()
    return await readWhole(file, options)
  } catch (error) {
    await remove()
    throw explainTable(error, options.signal)
  }
}

/** For whoever ends a reading without converting its table. */
async function* nothing(table: Pick<LocalTable, 'close'>): AsyncGenerator<Page> {
  await table.close()
  yield* []
}

/** The beginning, or all of a smaller file, and all chunks with those bytes still in them. */
async function takeHead({ chunks }: OpenFile): Promise<{ head: Buffer; chunks: AsyncIterable<Buffer> }> {
  const iterator = chunks[Symbol.asyncIterator]()
  const held: Buffer[] = []
  for (let bytes = 0; bytes < HEAD_BYTES; ) {
    const { done, value } = await iterator.next()
    if (done) break
    held.push(value)
    bytes += value.length
  }
  const head = Buffer.concat(held)
  async function* all(): AsyncGenerator<Buffer> {
    yield* held
    yield* { [Symbol.asyncIterator]: () => iterator }
  }
  return { head, chunks: all() }
}

interface Judged {
  dialect: Dialect
  likely: ColumnFacts[]
}

/** Null if the file is not to be divided: it is unusual, damaged or without rows, or DuckDB has other rules for its rows. */
async function judgeHead(folder: string, head: Buffer, options: TableOptions): Promise<Judged | null> {
  const { signal, header } = options
  const path = join(folder, 'head')
  const whole = head.length < HEAD_BYTES ? head : head.subarray(0, head.lastIndexOf(10) + 1)
  await writeFile(path, whole, { mode: 0o600 })
  const engine = await openEngine(folder, signal)
  try {
    const dialect = await detectDialect(engine.connection, path, options)
    // A file with one column may have rows without a byte.
    if (!dialect || dialect.names.length < 2 || !isPlain(dialect)) return null
    const rows = csvTableSql([path], header, dialect, USUAL_LINE_BYTES)
    const sample = await engine.connection.runAndReadAll(`SELECT * FROM ${rows} LIMIT ${SAMPLE_ROWS}`)
    if (sample.currentRowCount === 0) return null
    const cells = sample.getColumns() as (string | null)[][]
    return { dialect, likely: dialect.names.map((name, place) => factsOfCells(name, cells[place]!)) }
  } catch {
    // The usual way says what is wrong with it.
    signal.throwIfAborted()
    return null
  } finally {
    engine.close()
    await rm(path)
  }
}

const isPlain = ({ quote, escape: escaping, delimiter }: Dialect): boolean =>
  quote === '"' && escaping === '"' && /^[ -~\t]$/.test(delimiter)

function openChunked(file: OpenFile, folder: string, { dialect, likely }: Judged, options: TableOptions): ChunkedCsv {
  const { signal, header } = options
  const chunks = new CsvChunks(folder, file.chunks, dialect.delimiter)
  const tableOf = (paths: string[], first: boolean): string =>
    csvTableSql(paths, header && first, dialect, USUAL_LINE_BYTES)
  const close = async (): Promise<void> => {
    await chunks.close()
    await file.close()
    await rm(folder, { recursive: true, force: true })
  }
  return {
    chunks,
    folder,
    names: dialect.names,
    likely,
    sql(all) {
      const [first, ...rest] = all.map(({ path }) => path)
      if (rest.length === 0) return tableOf([first!], all[0]!.first)
      return `(SELECT * FROM ${tableOf([first!], all[0]!.first)} UNION ALL SELECT * FROM ${tableOf(rest, false)})`
    },
    async join() {
      const path = join(folder, 'file')
      await chunks.join(path)
      return openWhole({ folder, path, remove: close }, options, dialect)
    },
    explain: (error) => explainTable(error, signal),
    close,
  }
}

async function readWhole(file: OpenFile, options: TableOptions): Promise<Reading> {
  const stored = await storeTable(file, options)
  const table = await openWhole(stored, options)
  return table ? { columns: null, table, pages: nothing(table) } : readRows(stored, file, options)
}

/** Null if its rows have to be read one after the other: the file is unusual, or has none. */
async function openWhole(
  { folder, path, remove }: StoredTable,
  options: TableOptions,
  known?: Dialect,
): Promise<LocalTable | null> {
  const { signal, header } = options
  const engine = await openEngine(folder, signal, { memoryMb: WHOLE_MB, threads: Math.min(2, availableParallelism()) })
  const { connection } = engine
  const explain = (error: unknown): unknown => explainTable(error, signal)
  try {
    // A very long line further on makes detection fail; what the beginning said still holds.
    const found = await detectDialect(connection, path, options).catch((error: Error) => {
      if (!known) throw error
      return null
    })
    const dialect = found ?? known ?? null
    const sql = (lineBytes: number): string => csvTableSql([path], header, dialect!, lineBytes)
    const hasRows = async (): Promise<boolean> =>
      (await connection.runAndReadAll(`SELECT 1 FROM ${sql(USUAL_LINE_BYTES)} LIMIT 1`)).currentRowCount > 0
    if (!dialect || (!known && !(await hasRows()))) {
      engine.close()
      return null
    }
    let open = true
    const release = (): void => {
      if (open) engine.close()
      open = false
    }
    const close = (): Promise<void> => {
      release()
      return remove()
    }
    return { connection, folder, names: dialect.names, sql, explain, release, close }
  } catch {
    // The usual way says what is wrong with it.
    engine.close()
    signal.throwIfAborted()
    return null
  }
}
