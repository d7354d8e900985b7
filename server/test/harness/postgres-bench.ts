/** A separate database with a run bench, for tests of the postgres connectors. */
import type pg from 'pg'
import type { Sync } from '../../src/connectors/contract.ts'
import type { Job, Outcome } from '../../src/engine/execute.ts'
import type { Json } from '../../src/json/json.ts'
import { type LineSourceOptions, lineSource } from './line-source.ts'
import { type PostgresServer, startPostgresServer, stopPostgresServer } from './postgres-server.ts'
import { openRunBench, type RunBench } from './run-bench.ts'

export interface PostgresBench {
  bench: RunBench
  server: PostgresServer
  database: string
  client: pg.Client
  config: Record<string, unknown>
  /** Loads lines into a table of schema public. */
  load(table: string, lines: readonly string[], sync?: Partial<Sync>, options?: LineSourceOptions): Job
  /** The next run of that pipeline with other lines. */
  follow(job: Job, lines: readonly string[], sync?: Partial<Sync>, options?: LineSourceOptions): Job
  /** Reads a stream of the database into the run's file. */
  read(stream: string, sync?: Partial<Sync>, config?: Record<string, unknown>): Job
  /** Records of a run into a file, parsed. */
  records(outcome: Outcome): Promise<Record<string, Json>[]>
  query<Row = Record<string, unknown>>(text: string, values?: unknown[]): Promise<Row[]>
  close(): Promise<void>
}

export async function openPostgresBench(): Promise<PostgresBench> {
  const server = await startPostgresServer()
  const database = await server.createDatabase()
  const client = await server.connect(database)
  const bench = await openRunBench()
  const { host, port, user, password } = server
  const config = { host, port, user, password, database, tls: { mode: 'disable' } }
  const load: PostgresBench['load'] = (table, lines, sync = {}, options = {}) =>
    bench.job({
      source: lineSource(lines, options),
      destination: { name: 'postgres', config: { ...config, table } },
      sync,
    })
  return {
    bench,
    server,
    database,
    client,
    config,
    load,
    follow(job, lines, sync = {}, options = {}) {
      const next = load(job.destination.config.table as string, lines, { ...job.sync, ...sync }, options)
      return { ...next, pipeline_id: job.pipeline_id, destination: job.destination, fingerprint: job.fingerprint }
    },
    read: (stream, sync = {}, extra = {}) =>
      bench.job({
        source: { name: 'postgres', stream, config: { ...config, ...extra } },
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
    async query<Row>(text: string, values?: unknown[]) {
      return (await client.query(text, values)).rows as Row[]
    },
    async close() {
      await bench.close()
      await stopPostgresServer()
    },
  }
}
