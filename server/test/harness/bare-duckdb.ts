/** DuckDB as anybody would use it, without our limits, for comparisons. */
import { DuckDBInstance } from '@duckdb/node-api'

/** Absent `threads`: as many as the machine has. */
export async function runBareQuery(sql: string, threads?: number): Promise<void> {
  const instance = await DuckDBInstance.create(':memory:')
  const connection = await instance.connect()
  if (threads) await connection.run(`SET threads = ${threads}`)
  await connection.run(sql)
  connection.closeSync()
  instance.closeSync()
}
