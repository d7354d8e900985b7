/**
 * Which of several servers is the primary. Connections are opened to the one that was found last. When it fails, stops
 * answering or cannot be written any more, all are asked at once, so that a dead one costs no time beside a living one;
 * until one is found again, no connection is tried elsewhere.
 *
 * Of several that can be written, the one with the newest timeline counts: a primary that was cut off and comes back after
 * another was promoted still believes in itself.
 */
import { type ConnectionSettings, dropConnection, SessionClient, StandbyError } from './session.ts'

const ASK_MS = 3000
/** How long the others may take after the first has answered that it is the primary. */
const OTHERS_MS = 300

export interface Servers {
  /** Settings for the next connection. */
  next(): ConnectionSettings
  /** Looks for the primary, unless it is known. Throws if there is none at the moment. */
  require(): Promise<void>
  /** What was found may no longer be true. */
  doubt(): void
  /** Called when the primary is another one: connections to the former are of no use. */
  onMove(drop: () => void): void
}

/** With one server there is nothing to choose: whatever is behind its address is the database. */
export function createServers(connection: ConnectionSettings): Servers {
  const { connectionStrings, ...one } = connection
  if (connectionStrings === undefined)
    return { next: () => one, require: async () => {}, doubt: () => {}, onMove: () => {} }
  const all = connectionStrings.map((connectionString): ConnectionSettings => ({ ...one, connectionString }))
  const drops: (() => void)[] = []
  let last = all[0]!
  let known = false
  let looking: Promise<void> | null = null

  const look = async () => {
    const found = await findPrimary(all)
    known = true
    if (found === last) return
    last = found
    for (const drop of drops) drop()
  }
  return {
    next: () => last,
    async require() {
      if (known) return
      looking ??= look().finally(() => {
        looking = null
      })
      await looking
    },
    doubt() {
      known = false
    },
    onMove: (drop) => void drops.push(drop),
  }
}

async function findPrimary(all: readonly ConnectionSettings[]): Promise<ConnectionSettings> {
  const primaries: { server: ConnectionSettings; timeline: number }[] = []
  const problems: Error[] = []
  const first = Promise.withResolvers<void>()
  const asked = Promise.all(
    all.map(async (server) => {
      try {
        primaries.push({ server, timeline: await askTimeline(server) })
        first.resolve()
      } catch (error) {
        problems.push(error as Error)
      }
    }),
  )
  await Promise.race([asked, first.promise])
  if (primaries.length > 0) await Promise.race([asked, wait(OTHERS_MS)])
  // A stable order: the first in the address if all else is equal.
  const newest = Math.max(...primaries.map(({ timeline }) => timeline))
  const found = all.find((server) => primaries.some((one) => one.server === server && one.timeline === newest))
  if (found) return found
  throw worst(problems)
}

/** A wrong password tells the reader more than the standby beside it. */
const worst = (problems: Error[]): Error =>
  problems.find((error) => /^(28|3D)/.test((error as { code?: string }).code ?? '')) ??
  problems.find((error) => !(error instanceof StandbyError)) ??
  problems[0]!

const wait = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms).unref())

/** The timeline of a server that can be written; throws for every other. */
async function askTimeline(server: ConnectionSettings): Promise<number> {
  const client = new SessionClient({ ...server, connectionTimeoutMillis: ASK_MS, query_timeout: ASK_MS })
  client.on('error', () => {})
  try {
    await client.connect()
    const { rows } = await client.query<{ standby: boolean; read_only: string; timeline: string | null }>(`
      SELECT pg_is_in_recovery() AS standby, current_setting('transaction_read_only') AS read_only,
             CASE WHEN NOT pg_is_in_recovery() THEN substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8) END AS timeline`)
    const { standby, read_only, timeline } = rows[0]!
    if (standby || read_only === 'on') throw new StandbyError()
    return Number.parseInt(timeline ?? '0', 16)
  } finally {
    // Without a goodbye: a frozen server would not hear it.
    dropConnection(client)
  }
}
