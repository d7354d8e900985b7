/** A separate database per test file, cloned from the migrated template in about 30 ms and dropped at its end. */
import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { type ConnectionSettings, connectDatabase, type Database } from '../../src/database/database.ts'
import { TEMPLATE } from './global-setup.ts'

export interface TestDatabase {
  db: Database
  connection: ConnectionSettings
  drop(): Promise<void>
}

function testServer(): ConnectionSettings {
  if (!process.env.TEST_POSTGRES)
    throw new Error('No test database: run `npm test`, or `npm run test:files -- <files>`')
  return JSON.parse(process.env.TEST_POSTGRES) as ConnectionSettings
}

async function asAdmin(command: string): Promise<void> {
  const client = new pg.Client(testServer())
  await client.connect()
  try {
    await client.query(command)
  } finally {
    await client.end()
  }
}

/** Before PostgreSQL 15 copying files is the only strategy, and has no name. */
const COPY_FILES = Number(process.env.TEST_POSTGRES_MAJOR ?? '18') >= 15 ? 'STRATEGY file_copy' : ''

export const cloneDatabase = (poolSize = 10): Promise<TestDatabase> =>
  createDatabase(`TEMPLATE ${TEMPLATE} ${COPY_FILES}`, poolSize)

export const createEmptyDatabase = (): Promise<TestDatabase> => createDatabase('TEMPLATE template0', 2)

async function createDatabase(how: string, poolSize: number): Promise<TestDatabase> {
  const name = `test_${randomBytes(6).toString('hex')}`
  await asAdmin(`CREATE DATABASE ${name} ${how}`)
  const connection = { ...testServer(), database: name }
  const db = connectDatabase(connection, poolSize, () => {})
  return {
    db,
    connection,
    async drop() {
      await db.close()
      // Without FORCE: a connection that was not closed makes this fail, and with it the test.
      await asAdmin(`DROP DATABASE ${name}`)
    },
  }
}
