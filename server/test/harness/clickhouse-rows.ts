/** The rows of a ClickHouse table as JSON, with every digit, by the server's own functions. */
import { unescapeField } from '../../src/connectors/types/tsv.ts'
import type { ChdbServer } from './chdb-server.ts'

export async function readJsonRows(server: ChdbServer, database: string, table: string): Promise<string[]> {
  const where = `database = '${database}' AND table = '${table}'`
  const columns = await server.sql(
    `SELECT name, type, comment FROM system.columns WHERE ${where} AND name != '_sluice_version' ORDER BY position`,
  )
  if (columns.length === 0) return []
  const [engine] = await server.sql(
    `SELECT engine FROM system.tables WHERE database = '${database}' AND name = '${table}'`,
  )
  const named = columns.map(
    (line) => line.split('\t').map((field) => unescapeField(field) ?? '') as [string, string, string],
  )
  const list = named.map(([name, type, comment]) => {
    const column = `\`${name.replaceAll('`', '\\`')}\``
    if (comment === 'sluice:json') return column
    if (!type.includes('DateTime64')) return `toJSONString(${column})`
    const text = `replaceOne(toString(${column}), ' ', 'T')`
    return `toJSONString(${comment === 'sluice:timestamp' ? text : `concat(${text}, 'Z')`})`
  })
  const rows = await server.sql(
    `SELECT ${list.join(', ')} FROM ${database}.${table}${engine === 'ReplacingMergeTree' ? ' FINAL' : ''}`,
    { output_format_json_quote_64bit_integers: '0', output_format_json_quote_decimals: '0' },
  )
  return rows.map((row) => {
    const fields = row.split('\t').map((field) => unescapeField(field) ?? 'null')
    return `{${named.map(([name], at) => `${JSON.stringify(name)}:${fields[at]}`).join(',')}}`
  })
}
