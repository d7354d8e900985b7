/**
 * The pipelines of the cluster: every write mode, full and incremental, by hand and by schedule. Each knows what its source
 * has produced, so that the ledger can compare.
 */
import type { Page, ReadContext } from '../../server/src/connectors/contract.ts'
import { findSource } from '../../server/src/connectors/registry.ts'
import type { Postgres } from './servers.ts'

type Kind =
  /** A growing generated stream, appended. */
  | 'grown'
  /** A table that is inserted into, appended. */
  | 'events'
  /** A table that is inserted into and updated, upserted. */
  | 'accounts'
  /** A generated stream that replaces its target. */
  | 'replaced'
  /** A query, appended whole by every run; its rows carry the time of the reading. */
  | 'readings'
  /** A generated stream to the output only. */
  | 'file'

export interface Flow {
  name: string
  kind: Kind
  seed: number
  scheduled: boolean
  /** Records of the generated stream so far. */
  records: number
  /** Null until it was created. */
  id: string | null
}

export const FULL = 300
const GROWTH = 150
const DELAY_MS = 5
const KINDS: Kind[] = ['grown', 'events', 'accounts', 'replaced', 'readings', 'file']

/** Two of each kind by hand, one by schedule. */
export const makeFlows = (): Flow[] =>
  KINDS.flatMap((kind, place) =>
    [1, 2, 3].map((number) => ({
      name: `${kind}_${number}`,
      kind,
      seed: place * 10 + number,
      scheduled: number === 3,
      records: kind === 'grown' ? GROWTH : FULL,
      id: null,
    })),
  )

export const isIncremental = ({ kind }: Flow): boolean => kind === 'grown' || kind === 'events' || kind === 'accounts'

export function grow(flow: Flow): void {
  if (flow.kind === 'grown') flow.records += GROWTH
}

export function configOf(flow: Flow, warehouse: { host: string; password: string }): object {
  const server = { host: warehouse.host, user: 'sluice', password: warehouse.password, database: 'postgres' }
  const table = { name: 'postgres', config: { ...server, schema: 'target', table: flow.name } }
  const generated = {
    name: 'dummy',
    stream: 'creatures',
    config: { records: flow.records, seed: flow.seed, delay_ms: DELAY_MS },
  }
  const relation = { name: 'postgres', stream: `origin.${flow.name}`, config: server }
  const reading = `SELECT g AS id, transaction_timestamp() AS reading, pg_sleep(${DELAY_MS / 1000})::text AS pause FROM generate_series(1, ${FULL}) g`
  const parts = {
    grown: { source: generated, destination: table, sync: { mode: 'incremental', write: 'append' } },
    events: {
      source: relation,
      destination: table,
      sync: { mode: 'incremental', cursor_field: 'id', write: 'append' },
    },
    accounts: {
      source: relation,
      destination: table,
      sync: { mode: 'incremental', cursor_field: 'version', write: 'upsert', primary_key: ['id'] },
    },
    replaced: { source: generated, destination: table, sync: { write: 'replace' } },
    readings: {
      source: { name: 'postgres', stream: 'reading', config: { ...server, queries: { reading } } },
      destination: table,
      sync: { write: 'append' },
    },
    file: { source: generated, destination: { name: 'file', config: {} } },
  }
  return { name: flow.name, ...parts[flow.kind], run: { max_attempts: 20, backoff_seconds: 1 } }
}

export async function makeOrigins({ pool }: Postgres, flows: Flow[]): Promise<void> {
  await pool.query('CREATE SCHEMA origin; CREATE SEQUENCE origin.versions')
  for (const { kind, name } of flows) {
    if (kind === 'events')
      await pool.query(
        `CREATE TABLE origin.${name} (id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY, payload text NOT NULL)`,
      )
    if (kind === 'accounts')
      await pool.query(
        `CREATE TABLE origin.${name} (id bigint PRIMARY KEY, version bigint NOT NULL, payload text NOT NULL)`,
      )
  }
}

/** Adds to the tables that pipelines read. */
export async function feed({ pool }: Postgres, flows: Flow[]): Promise<void> {
  for (const { kind, name } of flows) {
    if (kind === 'events')
      await pool.query(`INSERT INTO origin.${name} (payload) SELECT md5(random()::text) FROM generate_series(1, 20)`)
    if (kind === 'accounts')
      await pool.query(`
        INSERT INTO origin.${name} SELECT DISTINCT ON (id) id, nextval('origin.versions'), md5(random()::text)
          FROM (SELECT (random() * 500)::int AS id FROM generate_series(1, 15)) n
            ON CONFLICT (id) DO UPDATE SET version = excluded.version, payload = excluded.payload`)
  }
}

/** What a generated stream holds. */
export async function readGenerated({ records, seed }: Flow): Promise<string> {
  const context = {
    stream: 'creatures',
    config: { records, seed, delay_ms: 0 },
    signal: new AbortController().signal,
    state: null,
    resume: null,
    encoding: 'ndjson',
    sync: { mode: 'full_refresh' },
    columns: {},
  }
  const reading = await findSource('dummy')!.read(context as unknown as ReadContext)
  const pages: Buffer[] = []
  for await (const page of reading.pages as AsyncIterable<Page>) pages.push(Buffer.from(page.bytes))
  return Buffer.concat(pages).toString()
}
