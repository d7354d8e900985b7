/**
 * Converts a CSV to Parquet in chunks, while it is read. The types are guessed from the first rows, and each cell is checked
 * against the guess. If one does not fit, all rows are surveyed and all chunks converted again with types that hold
 * everything. A file that cannot be divided, or read like that, is converted in one piece, which also says what is wrong with
 * it.
 */
import type { Page } from '../contract.ts'
import { openEngine } from '../duckdb.ts'
import { factsOfTable } from './cell-facts.ts'
import { castCells, checkedCells, isWrongGuess } from './checked-cells.ts'
import { convertCsv } from './convert-csv.ts'
import type { ChunkedCsv } from './local-table.ts'
import type { OutputColumn } from './output-columns.ts'
import { ParquetChunks } from './parquet-chunks.ts'
import { parquetQuery } from './parquet-query.ts'
import type { ConvertedTable, TableConversion } from './table-conversion.ts'

const SURVEY_MB = 96

export function convertCsvChunks(table: ChunkedCsv, conversion: TableConversion): ConvertedTable {
  const { signal } = conversion
  let columns: OutputColumn[] = []
  async function* pages(): AsyncGenerator<Page> {
    const parquet = new ParquetChunks(table.folder, signal)
    try {
      columns = yield* convertChunks(table, parquet, conversion)
    } catch (error) {
      yield* parquet.restart()
      await parquet.close()
      const whole = signal.aborted ? null : await table.join().catch(() => null)
      if (whole === null) throw table.explain(error)
      const converted = convertCsv(whole, conversion)
      yield* converted.pages
      columns = converted.columns()
    } finally {
      await parquet.close()
      await table.close()
    }
  }
  return { columns: () => columns, pages: pages() }
}

/** Returns the columns of the file. */
async function* convertChunks(
  table: ChunkedCsv,
  parquet: ParquetChunks,
  { choose, compression, signal }: TableConversion,
): AsyncGenerator<Page, OutputColumn[]> {
  const { names, likely } = table
  async function* write(columns: OutputColumn[], cells: string[]): AsyncGenerator<Page, OutputColumn[]> {
    for await (const chunk of table.chunks.all()) {
      const rows = { table: table.sql([chunk]), cells }
      yield* parquet.add(chunk.bytes, (output, run) => run(parquetQuery({ rows, output, columns, compression })))
    }
    yield* parquet.finish()
    return columns
  }
  const guess = choose(likely)
  const checked = checkedCells(guess, names, likely)
  if (checked) {
    try {
      return yield* write(guess, checked)
    } catch (error) {
      signal.throwIfAborted()
      if (!isWrongGuess(error as Error)) throw error
      yield* parquet.restart()
    }
  }
  const columns = choose(await surveyChunks(table, signal))
  return yield* write(columns, castCells(columns, names))
}

async function surveyChunks(table: ChunkedCsv, signal: AbortSignal): ReturnType<typeof factsOfTable> {
  const chunks = await Array.fromAsync(table.chunks.all())
  const engine = await openEngine(table.folder, signal, { memoryMb: SURVEY_MB })
  try {
    return await factsOfTable(engine.connection, table.sql(chunks), table.likely)
  } finally {
    engine.close()
  }
}
