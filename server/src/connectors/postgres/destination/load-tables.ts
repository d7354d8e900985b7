/** The tables that rows are copied into: the target itself, a stage, or a temporary table to merge from. */
import { quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { createMergeTableSql, mergeTable } from './merge.ts'
import { createStage } from './stage.ts'
import { createTableSql, type LoadTable, readColumns, type TableColumn } from './table.ts'

export type ColumnTypes = Map<string, string>

export function toTypes(columns: readonly TableColumn[] | null): ColumnTypes | null {
  return columns === null ? null : new Map(columns.map(({ name, type }) => [name, type]))
}

export function toColumns(types: ColumnTypes): TableColumn[] {
  return [...types].map(([name, type]) => ({ name, type }))
}

export function targetTable(
  session: Session,
  target: TableName,
  have: ColumnTypes | null,
  primaryKey: readonly string[],
): LoadTable {
  return {
    name: target,
    sql: quoteTable(target),
    columns: have,
    async create(columns) {
      await session.script(createTableSql(target, columns, primaryKey))
      return toTypes(columns)!
    },
  }
}

export function temporaryTable(session: Session): LoadTable {
  return {
    name: { schema: 'pg_temp', table: '_sluice_merge' },
    sql: mergeTable,
    columns: null,
    async create(columns) {
      await session.script(createMergeTableSql(columns))
      return toTypes(columns)!
    },
  }
}

export interface StageOptions {
  stage: TableName
  /** The table that it may replace at the end. */
  like: TableName | null
  have: ColumnTypes | null
  /** The order of its rows must be preserved. */
  ordered: boolean
}

export function stageTable(session: Session, { stage, like, have, ordered }: StageOptions): LoadTable {
  return {
    name: stage,
    sql: quoteTable(stage),
    columns: have,
    async create(columns) {
      const model = like !== null && (await readColumns(session, like)) !== null ? like : null
      await createStage(session, stage, { like: model, columns, ordered })
      return toTypes(await readColumns(session, stage))!
    },
  }
}
