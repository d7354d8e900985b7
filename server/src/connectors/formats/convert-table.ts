import { convertCsv } from './convert-csv.ts'
import { convertCsvChunks } from './convert-csv-chunks.ts'
import { convertLines } from './convert-lines.ts'
import type { Table } from './local-table.ts'
import type { ConvertedTable, TableConversion } from './table-conversion.ts'

/** Converts a table to one Parquet file, with the same types and values as if it had gone through JSON lines record by record. */
export function convertTable(table: Table, conversion: TableConversion): ConvertedTable {
  if ('chunks' in table) return convertCsvChunks(table, conversion)
  return 'names' in table ? convertCsv(table, conversion) : convertLines(table, conversion)
}
