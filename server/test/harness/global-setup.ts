/**
 * Runs once before all test files: one PostgreSQL with durability off, and a migrated template that each file clones.
 * Every test process inherits the environment that it sets.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { enableCompileCache } from 'node:module'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { connectDatabase, script } from '../../src/database/database.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../../src/database/embedded-postgres.ts'
import { migrate } from '../../src/database/migrate.ts'
import { startServer } from './postgres-server.ts'

let server: Pick<EmbeddedPostgres, 'connection' | 'stop'>
let folder: string

export const TEMPLATE = 'sluice_template'

export async function globalSetup(): Promise<void> {
  // As for the service itself (main.js): each of hundreds of processes would compile the same modules again.
  const { directory } = enableCompileCache(path.resolve(import.meta.dirname, '../../../node_modules/.cache/sluice'))
  if (directory) process.env.NODE_COMPILE_CACHE = directory
  folder = mkdtempSync(path.join(tmpdir(), 'sluice-test-'))
  server = process.env.TEST_POSTGRES_NATIVE
    ? await startOtherVersion()
    : await startEmbeddedPostgres(folder, 'test-password')
  const admin = connectDatabase(server.connection, 1, fail)
  for (const setting of ['fsync = off', 'synchronous_commit = off', 'full_page_writes = off'])
    await admin.execute(script(`ALTER SYSTEM SET ${setting}`))
  await admin.execute(script('SELECT pg_reload_conf()'))
  await admin.execute(script(`CREATE DATABASE ${TEMPLATE}`))
  await admin.close()
  const template = connectDatabase({ ...server.connection, database: TEMPLATE }, 2, fail)
  await migrate(template)
  await template.close()
  process.env.TEST_POSTGRES = JSON.stringify(server.connection)
}

/** `npm run test:postgres` tests the platform on other major versions. */
async function startOtherVersion(): Promise<typeof server> {
  const { host, port, user, password, stop } = await startServer({ max_connections: '200' })
  return { connection: { host, port, user, password, database: 'postgres' }, stop }
}

export async function globalTeardown(): Promise<void> {
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
}

const fail = (error: Error) => {
  throw error
}
