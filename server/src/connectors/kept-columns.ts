/**
 * The columns stored for a pipeline. Rows written before neutral types existed hold PostgreSQL type names, the only
 * ones at the time; they are converted when read.
 */
import type { Column } from './contract.ts'
import { describeColumn } from './postgres/shared/type-names.ts'
import { isColumnType } from './types/column-types.ts'

export type StoredColumn = Omit<Column, 'type'> & { type: string }

export function readKeptColumns(stored: readonly StoredColumn[]): Column[] {
  return stored.map((column) =>
    isColumnType(column.type) ? { ...column, type: column.type } : describeColumn(column.name, column.type),
  )
}
