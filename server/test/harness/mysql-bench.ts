/** A database of one's own on a real MariaDB with a run bench beside it, for tests of the mysql connectors. */
import type { Sync } from '../../src/connectors/contract.ts'
import type { Job, Outcome } from '../../src/engine/execute.ts'
import type { Json } from '../../src/json/json.ts'
import { type MariadbServer, startMariadbServer, stopMariadbServer } from './mariadb-server.ts'
import { openRunBench, type RunBench } from './run-bench.ts'

export interface MysqlBench {
  bench: RunBench
  server: MariadbServer
  database: string
  config: Record<string, unknown>
  /** Statements in the database. Returns lines, tab-separated. */
  sql(text: string): Promise<string[]>
  /** A stream of the database into the run's file. */
  read(stream: string, sync?: Partial<Sync>, config?: Record<string, unknown>): Job
  /** Records of a run into a file, parsed. */
  records(outcome: Outcome): Promise<Record<string, Json>[]>
  close(): Promise<void>
}

export async function openMysqlBench(): Promise<MysqlBench> {
  const server = await startMariadbServer()
  const database = await server.createDatabase()
  const bench = await openRunBench()
  const { host, port, user, password } = server
  const config = { host, port, user, password, database, tls: { mode: 'disable' } }
  return {
    bench,
    server,
    database,
    config,
    sql: (text) => server.sql(text, database),
    read: (stream, sync = {}, extra = {}) =>
      bench.job({
        source: { name: 'mysql', stream, config: { ...config, ...extra } },
        destination: { name: 'file' },
        sync,
      }),
    async records(outcome) {
      const text = (await bench.readOutput(outcome)).toString()
      return text
        .split('\n')
        .slice(0, -1)
        .map((line) => JSON.parse(line) as Record<string, Json>)
    },
    async close() {
      await bench.close()
      await stopMariadbServer()
    },
  }
}
