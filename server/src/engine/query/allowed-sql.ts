/** Which SQL a person may run over an output: one statement that reads the table `output`, and nothing else. */
import type { DuckDBConnection } from '@duckdb/node-api'
import { requireSelect, type SelectRules } from '../../connectors/allowed-select.ts'

const RULES: SelectRules = {
  isTable: ({ catalog, schema, table }) => table === 'output' && ['', 'main'].includes(schema) && catalog === '',
  known: 'the only table is "output"',
  oneStatement:
    'Only one statement that reads is allowed: SELECT, WITH, DESCRIBE, SUMMARIZE, or EXPLAIN of one of these',
}

const EXPLAIN = /^\s*explain(\s+analyze)?\s+/i

/**
 * Returns the statement to run. EXPLAIN ANALYZE would execute whatever follows it, so what follows has to pass by itself,
 * and exactly that is explained.
 */
export async function allowSql(connection: DuckDBConnection, sql: string): Promise<string> {
  const prefix = EXPLAIN.exec(sql)
  const statement = prefix === null ? sql : sql.slice(prefix[0].length)
  await requireSelect(connection, statement, RULES)
  return prefix === null ? statement : `EXPLAIN ${prefix[1] ? 'ANALYZE ' : ''}${statement}`
}
