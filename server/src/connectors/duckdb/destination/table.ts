/** The one table of a file that the destination writes, and the statements that fill it. */
import type { DuckDBConnection } from '@duckdb/node-api'
import { doubledKey, missingKey } from '../../database-file/build.ts'
import type { TableColumn, TablePlan } from '../../database-file/table-plan.ts'
import { quoteName, quoteText } from '../../duckdb.ts'
import { CATALOG } from '../database.ts'
import { castCell, convertStored, readColumn } from './columns.ts'

const nameTable = (table: string): string => `${CATALOG}.main.${quoteName(table)}`

/** The columns of the table, or what is wrong with the file. Nothing but the table may be in it. */
export async function readTable(
  connection: DuckDBConnection,
  table: string,
): Promise<TableColumn[] | { fault: string }> {
  const of = `FROM duckdb_%() WHERE database_name = '${CATALOG}' AND NOT internal`
  const objects = await connection.runAndReadAll(`
    SELECT table_name, schema_name ${of.replace('%', 'tables')}
    UNION ALL SELECT NULL, view_name ${of.replace('%', 'views')}
    UNION ALL SELECT NULL, function_name ${of.replace('%', 'functions')}
    UNION ALL SELECT NULL, index_name FROM duckdb_indexes() WHERE database_name = '${CATALOG}'
    UNION ALL SELECT NULL, constraint_type FROM duckdb_constraints() WHERE database_name = '${CATALOG}'`)
  const [first, ...more] = objects.getRowsJson()
  if (first?.[0] !== table || first[1] !== 'main' || more.length > 0)
    return { fault: `it does not have the table ${table} alone` }
  const described = await connection.runAndReadAll(
    `SELECT column_name, data_type, column_default FROM duckdb_columns() WHERE database_name = '${CATALOG}' ORDER BY column_index`,
  )
  const columns: TableColumn[] = []
  for (const [name, type, fallback] of described.getRowsJson()) {
    const column = readColumn(String(name), String(type))
    if (column === null || fallback !== null)
      return { fault: `its column ${String(name).slice(0, 100)} is not one of ours` }
    columns.push(column)
  }
  return columns
}

const columnSql = ({ name, sql }: TableColumn): string => `${quoteName(name)} ${sql}`

export async function createTable(
  connection: DuckDBConnection,
  table: string,
  columns: readonly TableColumn[],
): Promise<void> {
  // A table has at least one column. If no record ever had one, use the column that records with an id have.
  const given = columns.length > 0 ? columns.map(columnSql) : ['"_record_id" VARCHAR']
  await connection.run(`CREATE TABLE ${nameTable(table)} (${given.join(', ')})`)
}

export async function changeTable(connection: DuckDBConnection, table: string, plan: TablePlan): Promise<void> {
  const name = nameTable(table)
  for (const column of plan.added) await connection.run(`ALTER TABLE ${name} ADD COLUMN ${columnSql(column)}`)
  for (const { from, to } of plan.widened) {
    const cell = quoteName(to.name)
    await connection.run(`ALTER TABLE ${name} ALTER ${cell} TYPE ${to.sql} USING ${convertStored(cell, from, to)}`)
  }
}

interface Rows {
  table: string
  plan: TablePlan
  /** Rows are merged by these columns; empty: they are added. */
  key: readonly TableColumn[]
  csv: string
  /** The length of the longest line of JSON. */
  longest: number
}

/** Returns how many values were left out, because the table may not change. */
export async function insertRows(connection: DuckDBConnection, rows: Rows): Promise<number> {
  const { table, plan, key } = rows
  const { fields } = plan
  if (fields.length === 0) {
    await connection.run(`INSERT INTO ${nameTable(table)} SELECT NULL FROM ${readCsv(rows)}`)
    return 0
  }
  const names = fields.map(({ column }) => quoteName(column.name))
  const cells = fields.map(({ column }, at) => castCell(`c${at}`, column, plan.drops))
  const dropped = plan.drops ? await countDropped(connection, rows) : 0
  const insert = `INSERT INTO ${nameTable(table)} (${names.join(', ')}) SELECT ${cells.join(', ')} FROM ${readCsv(rows)}`
  if (key.length === 0) await connection.run(insert)
  else await mergeRows(connection, rows, insert)
  return dropped
}

async function countDropped(connection: DuckDBConnection, rows: Rows): Promise<number> {
  const lost = rows.plan.fields.map(
    ({ column }, at) => `count(*) FILTER (WHERE c${at} IS NOT NULL AND ${castCell(`c${at}`, column, true)} IS NULL)`,
  )
  return readCount(connection, `SELECT ${lost.join(' + ')} FROM ${readCsv(rows)}`)
}

async function readCount(connection: DuckDBConnection, sql: string): Promise<number> {
  return Number((await connection.runAndReadAll(sql)).getRowsJson()[0]![0])
}

/**
 * The new rows are added, then those that a later row with the same key replaces are deleted: of several the last wins. Row
 * ids grow with every insert, and a checkpoint keeps their order. MERGE takes 100 MB more for 300,000 rows, because
 * DuckDB keeps the old and the new values of an update in memory until it is committed.
 */
async function mergeRows(connection: DuckDBConnection, { table, plan, key }: Rows, insert: string): Promise<void> {
  const target = nameTable(table)
  const columns = key.map(({ name }) => name)
  const keys = columns.map(quoteName)
  const groups = `FROM ${target} GROUP BY ${keys.join(', ')}`
  const countMissing = (): Promise<number> =>
    readCount(connection, `SELECT count(*) FROM ${target} WHERE ${keys.map((name) => `${name} IS NULL`).join(' OR ')}`)
  if (await readCount(connection, `SELECT count(*) FROM (SELECT 1 ${groups} HAVING count(*) > 1 LIMIT 1)`))
    throw doubledKey(columns, table)
  const missing = await countMissing()
  await connection.run(insert)
  if ((await countMissing()) > missing) throw missingKey(columns)
  const written = new Set(plan.fields.map(({ column }) => column.name))
  const kept = plan.columns.filter(({ name }) => !written.has(name)).map(({ name }) => quoteName(name))
  // Columns that no record of this run has keep their values.
  if (kept.length > 0)
    await connection.run(`
      UPDATE ${target} AS t SET ${kept.map((name) => `${name} = o.${name}`).join(', ')}
        FROM (SELECT min(rowid) AS first, max(rowid) AS last ${groups}) AS k JOIN ${target} AS o ON o.rowid = k.first
       WHERE t.rowid = k.last AND k.first < k.last`)
  await connection.run(`DELETE FROM ${target} WHERE rowid NOT IN (SELECT max(rowid) ${groups})`)
}

function readCsv({ plan, csv, longest }: Rows): string {
  // Quoting at most doubles a line, and the reader needs room for two lines.
  const lineBytes = Math.max(2 * longest + 4 * plan.fields.length + 1024, 1024 * 1024)
  const types = plan.fields.length === 0 ? ["'c0': 'VARCHAR'"] : plan.fields.map((_, at) => `'c${at}': 'VARCHAR'`)
  return `read_csv(${quoteText(csv)}, columns = {${types.join(', ')}}, header = false, auto_detect = false, delim = ',', quote = '"',
    escape = '"', nullstr = '', allow_quoted_nulls = false, strict_mode = true, new_line = '\\n', max_line_size = ${lineBytes},
    buffer_size = ${4 * lineBytes})`
}
