/**
 * A pool of connections: statements and transactions on it, and what happens to connections whose server is gone.
 */
import pg from 'pg'
import type { Servers } from './servers.ts'
import {
  dropConnection,
  isAnswerMissing,
  isDropped,
  SessionClient,
  type SessionSetUp,
  sessionOptions,
  setUpSession,
} from './session.ts'
import type { Statement } from './sql.ts'
import { DatabaseUnavailable, isPoolFull, isUnreachable } from './unreachable.ts'

/** What both the database and a transaction can do. */
export interface Queryable {
  query<Row>(statement: Statement): Promise<Row[]>
  /** The first row, or null. */
  first<Row>(statement: Statement): Promise<Row | null>
  /** The number of affected rows. */
  execute(statement: Statement): Promise<number>
}

/** What a change needs: the database itself, or a transaction that it becomes a part of (`nestIn`). */
export interface Transactions extends Queryable {
  transaction<T>(work: (tx: Queryable) => Promise<T>): Promise<T>
}

export interface Connections extends Transactions {
  /**
   * How long the database has been there as far as this process knows: since it answered again after it was unreachable, or
   * since these connections were made. What happened before cannot be known.
   */
  steadyForMs(): number
}

/** The server became a standby. */
const READ_ONLY = '25006'

const TIMESTAMPTZ = 1184
const INT8 = 20

const types = {
  getTypeParser(oid: number, format?: 'text' | 'binary') {
    if (oid === TIMESTAMPTZ) return isoTimestamp
    if (oid === INT8) return Number
    return pg.types.getTypeParser(oid, format as 'text')
  },
}

/**
 * '2026-01-02 03:04:05.6789+00' → '2026-01-02T03:04:05.678900Z'. Sessions run in UTC, so the zone is always +00.
 * PostgreSQL drops trailing zeros; with all six digits times also sort as text, and the strictest parsers accept them.
 */
const isoTimestamp = (text: string): string =>
  `${text.slice(0, 10)}T${text.slice(11, 19)}.${text.slice(20, -3).padEnd(6, '0')}Z`

/**
 * Connections that a pool does not close when they are idle. Periodic work should not need more at once: opening a
 * connection costs far more than a small query.
 */
export const KEPT_OPEN = 2

interface PoolSettings extends SessionSetUp {
  size: number
}

interface Shared {
  servers: Servers
  /** No answer came, to this pool or to another. */
  onSilence: () => void
  onError: (error: Error) => void
}

export interface OpenPool {
  pool: pg.Pool
  connections: Connections
  dropIdle(): void
  /** How long the connection that was taken first has been in use. */
  longestUseMs(): number
  /** Drops connections that have been in use for longer; whoever waits for an answer on them gets an error. */
  dropUsedFor(ms: number): void
  close(): Promise<void>
}

export function openPool({ size, ...setUp }: PoolSettings, { servers, onSilence, onError }: Shared): OpenPool {
  /** Each new connection is opened to the server that is the primary then. */
  class CurrentClient extends SessionClient {
    constructor(options?: pg.ClientConfig) {
      super({ ...options, ...servers.next() })
    }
  }
  const pool = new pg.Pool({
    ...sessionOptions(setUp.limits),
    Client: CurrentClient,
    types: types as pg.CustomTypesConfig,
    idleTimeoutMillis: 3000,
    min: KEPT_OPEN,
    max: size,
    onConnect: (client) => setUpSession(client, setUp),
  })
  // An idle connection that breaks would otherwise end the process; the pool replaces it.
  pool.on('error', (error) => {
    servers.doubt()
    onError(error)
  })
  const open = new Map<pg.PoolClient, Promise<unknown>>()
  const used = new Map<pg.PoolClient, number>()
  pool.on('connect', (client) => {
    open.set(
      client,
      new Promise((resolve) => client.once('end', resolve)).then(() => open.delete(client)),
    )
  })
  servers.onMove(() => {
    for (const client of open.keys()) dropConnection(client)
  })
  /** Null from a fault to the next answer: an outage is over when that comes, however long nobody asked. */
  let steadySince: number | null = performance.now()
  const checkOut = async <T>(work: (client: pg.PoolClient) => Promise<T>): Promise<T> => {
    try {
      await servers.require()
      const result = await useClient(pool, used, work)
      steadySince ??= performance.now()
      return result
    } catch (error) {
      if (isAnswerMissing(error)) onSilence()
      if (!isUnreachable(error)) throw error
      if (!isPoolFull(error)) servers.doubt()
      steadySince = null
      throw new DatabaseUnavailable(error as Error)
    }
  }

  return {
    pool,
    connections: {
      ...queryable((statement) => checkOut((client) => client.query(named(statement)))),
      transaction: (work) => checkOut((client) => inTransaction(client, work)),
      steadyForMs: () => (steadySince === null ? 0 : performance.now() - steadySince),
    },
    longestUseMs: () => Math.max(0, ...[...used.values()].map((since) => performance.now() - since)),
    dropUsedFor(ms) {
      for (const [client, since] of used) if (performance.now() - since > ms) dropConnection(client)
    },
    dropIdle() {
      for (const client of open.keys()) if (!used.has(client)) dropConnection(client)
    },
    async close() {
      await pool.end()
      // The pool only asks its connections to close; the caller needs them gone before it stops or drops the database.
      await Promise.all(open.values())
    },
  }
}

async function takeClient(pool: pg.Pool): Promise<pg.PoolClient> {
  for (;;) {
    const client = await pool.connect()
    if (!isDropped(client)) return client
    client.release(true)
  }
}

/** A connection for the duration of the work. One that broke, or whose answer never came, is not reused. */
async function useClient<T>(
  pool: pg.Pool,
  used: Map<pg.PoolClient, number>,
  work: (client: pg.PoolClient) => Promise<T>,
): Promise<T> {
  const client = await takeClient(pool)
  used.set(client, performance.now())
  let broken: Error | undefined
  // Between two queries, only this event reports a lost connection.
  const onLost = (error: Error) => {
    broken = error
  }
  client.on('error', onLost)
  try {
    return await work(client)
  } catch (error) {
    if (isAnswerMissing(error)) {
      broken = error as Error
      dropConnection(client)
    }
    if ((error as { code?: string }).code === READ_ONLY) broken = error as Error
    throw error
  } finally {
    used.delete(client)
    client.off('error', onLost)
    client.release(broken)
  }
}

async function inTransaction<T>(client: pg.PoolClient, work: (tx: Queryable) => Promise<T>): Promise<T> {
  try {
    await client.query('BEGIN')
    const result = await work(queryable((statement) => client.query(named(statement))))
    await client.query('COMMIT')
    return result
  } catch (error) {
    if (isAnswerMissing(error)) throw error
    await client.query('ROLLBACK').catch(() => dropConnection(client))
    throw error
  }
}

const named = ({ name, text, values, answerMs }: Statement) => ({
  text,
  values,
  ...(name !== '' && { name }),
  ...(answerMs !== undefined && { query_timeout: answerMs }),
})

function queryable(run: (statement: Statement) => Promise<pg.QueryResult>): Queryable {
  return {
    query: async <Row>(statement: Statement) => (await run(statement)).rows as Row[],
    first: async <Row>(statement: Statement) => ((await run(statement)).rows[0] as Row | undefined) ?? null,
    execute: async (statement) => (await run(statement)).rowCount ?? 0,
  }
}
