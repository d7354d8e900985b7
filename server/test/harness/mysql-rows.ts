/** The rows of a MySQL table as JSON, built by the server itself and read through its own client. */
import type { MariadbServer } from './mariadb-server.ts'

export async function readJsonRows(server: MariadbServer, database: string, table: string): Promise<string[]> {
  const columns = await server.sql(
    `SELECT COLUMN_NAME, DATA_TYPE, COLUMN_COMMENT FROM information_schema.COLUMNS
     WHERE TABLE_SCHEMA = '${database}' AND TABLE_NAME = '${table}' ORDER BY ORDINAL_POSITION`,
  )
  if (columns.length === 0) return []
  const fields = columns.map((line) => {
    const [name = '', type = '', comment = ''] = line.split('\t')
    return `'${JSON.stringify(name)}:', IFNULL(${toJson(`\`${name}\``, type, comment)}, 'null')`
  })
  const rows = await server.sql(`SELECT HEX(CONCAT('{', ${fields.join(", ',', ")}, '}')) FROM \`${table}\``, database)
  return rows.map((row) => Buffer.from(row, 'hex').toString())
}

function toJson(column: string, type: string, comment: string): string {
  if (comment === 'sluice:json') return column
  if (comment === 'sluice:boolean') return `IF(${column} IS NULL, NULL, IF(${column}, 'true', 'false'))`
  if (comment === 'sluice:timestamptz') return `CONCAT('"', REPLACE(${column}, ' ', 'T'), 'Z"')`
  if (/int|decimal|float|double/.test(type)) return `CAST(${column} AS CHAR)`
  if (/blob|binary/.test(type)) return `JSON_QUOTE(CONCAT('\\\\x', LOWER(HEX(${column}))))`
  return `JSON_QUOTE(CAST(${column} AS CHAR))`
}
