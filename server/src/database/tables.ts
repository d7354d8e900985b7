/** Our tables, as PostgreSQL describes them: what a backup copies and a restore fills. */
import pg from 'pg'
import { createServers } from './servers.ts'
import { type ConnectionSettings, REQUEST_LIMITS, SessionClient, sessionOptions, setUpSession } from './session.ts'

export interface TableShape {
  name: string
  columns: string[]
}

/**
 * Not in a backup: the migrations (a restore applies them), sign-ins that are in progress (they hold a verifier in the
 * clear), and who listens or watches at the moment.
 */
export const LEFT_OUT = new Set(['schema_migrations', 'idp_states', 'listening_workers', 'watching_processes'])

/** A connection without limits of time, for statements that take as long as the tables are large. */
export async function openLongSession(connection: ConnectionSettings): Promise<pg.Client> {
  const servers = createServers(connection)
  await servers.require()
  const client = new SessionClient({ ...sessionOptions(REQUEST_LIMITS), ...servers.next(), query_timeout: 0 })
  client.on('error', () => {})
  await client.connect()
  try {
    await setUpSession(client, { limits: REQUEST_LIMITS, settings: connection.session })
    await client.query('SET statement_timeout = 0; SET idle_in_transaction_session_timeout = 0')
    return client
  } catch (error) {
    await client.end()
    throw error
  }
}

/** Every table of the schema, those that others refer to first. */
export async function listTables(client: pg.Client): Promise<TableShape[]> {
  const { rows: tables } = await client.query<TableShape>(`
    SELECT c.relname AS name, array_agg(a.attname::text ORDER BY a.attnum) AS columns
      FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
     WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
     GROUP BY c.relname ORDER BY c.relname`)
  const { rows: links } = await client.query<{ child: string; parent: string }>(`
    SELECT conrelid::regclass::text AS child, confrelid::regclass::text AS parent FROM pg_constraint
     WHERE contype = 'f' AND connamespace = current_schema()::regnamespace AND conrelid <> confrelid`)
  const ordered: TableShape[] = []
  const left = new Map(tables.map((table) => [table.name, table]))
  while (left.size > 0) {
    const free = [...left.values()].filter(
      ({ name }) => !links.some(({ child, parent }) => child === name && left.has(parent)),
    )
    if (free.length === 0) throw new Error(`the tables ${[...left.keys()].join(', ')} refer to each other in a circle`)
    for (const table of free) left.delete(table.name)
    ordered.push(...free)
  }
  return ordered.filter(({ name }) => !LEFT_OUT.has(name))
}

export const quoted = (name: string): string => pg.escapeIdentifier(name)
export const columnList = (columns: readonly string[]): string => columns.map(quoted).join(', ')
