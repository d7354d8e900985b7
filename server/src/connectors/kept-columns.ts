/**
 * The columns that are kept for a pipeline, as they are stored. Rows from before there were neutral types hold PostgreSQL's
 * names, the only ones there were; they are adopted when they are read.
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
