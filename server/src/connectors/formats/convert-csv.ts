/**
 * Converts a CSV to Parquet in one query of DuckDB. The types are guessed from the first rows, and the query checks each
 * cell against the guess: a cell that does not fit stops it. Then all rows are surveyed, and the query runs again with types
 * that hold everything. So types and values are the same as of a file that went through JSON lines, only faster.
 */
import { createReadStream } from 'node:fs'
import { stat } from 'node:fs/promises'
import { join } from 'node:path'
import { watchSpace } from '../../blobs/disk-space.ts'
import type { Page } from '../contract.ts'
import { factsOfCells, factsOfTable } from './cell-facts.ts'
import { castCells, checkedCells, isWrongGuess } from './checked-cells.ts'
import { LONGEST_LINE_BYTES, type LocalTable, USUAL_LINE_BYTES } from './local-table.ts'
import type { OutputColumn } from './output-columns.ts'
import { parquetQuery } from './parquet-query.ts'
import type { ConvertedTable, TableConversion } from './table-conversion.ts'

const SAMPLE_ROWS = 2048
const PAGE_BYTES = 1024 * 1024

export function convertCsv(table: LocalTable, conversion: TableConversion): ConvertedTable {
  let columns: OutputColumn[] = []
  async function* pages(): AsyncGenerator<Page> {
    try {
      const converted = await convertLines(table, conversion, USUAL_LINE_BYTES).catch((error: Error) => {
        conversion.signal.throwIfAborted()
        if (!/Maximum line size/i.test(error.message)) throw error
        return convertLines(table, conversion, LONGEST_LINE_BYTES)
      })
      table.release()
      columns = converted.columns
      let held: Buffer = Buffer.alloc(0)
      for await (const bytes of createReadStream(outputOf(table), { highWaterMark: PAGE_BYTES })) {
        if (held.length > 0) yield { bytes: held, records: 0 }
        held = bytes
      }
      yield { bytes: held, records: converted.records }
    } catch (error) {
      throw table.explain(error)
    } finally {
      await table.close()
    }
  }
  return { columns: () => columns, pages: pages() }
}

const outputOf = ({ folder }: LocalTable): string => join(folder, 'rows.parquet')

async function convertLines(
  table: LocalTable,
  { choose, compression, signal }: TableConversion,
  lineBytes: number,
): Promise<{ columns: OutputColumn[]; records: number }> {
  const { connection, names } = table
  const sql = table.sql(lineBytes)
  const write = async (
    columns: OutputColumn[],
    cells: string[],
  ): Promise<{ columns: OutputColumn[]; records: number }> => {
    const query = parquetQuery({ rows: { table: sql, cells }, output: outputOf(table), columns, compression })
    const result = await connection.runAndReadAll(query)
    return { columns, records: Number(result.getRowsJson()[0]![0]) }
  }
  // DuckDB's result is smaller than what it reads.
  watchSpace(table.folder)((await stat(join(table.folder, 'file'))).size)
  const sample = (await connection.runAndReadAll(`SELECT * FROM ${sql} LIMIT ${SAMPLE_ROWS}`)).getColumns()
  const likely = names.map((name, place) => factsOfCells(name, sample[place] as (string | null)[]))
  const guess = choose(likely)
  const checked = checkedCells(guess, names, likely)
  if (checked) {
    try {
      return await write(guess, checked)
    } catch (error) {
      signal.throwIfAborted()
      if (!isWrongGuess(error as Error)) throw error
    }
  }
  const columns = choose(await factsOfTable(connection, sql, likely))
  return write(columns, castCells(columns, names))
}
