/** The least rights that Sluice needs in PostgreSQL, as docs/operations.md lists them. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, test } from 'node:test'
import { type ConnectionSettings, connectDatabase, script, sql } from '../../src/database/database.ts'
import { migrate } from '../../src/database/migrate.ts'
import { requireDatabase } from '../../src/database/requirements.ts'
import { isQueueEmpty } from '../../src/runs/claim.ts'
import { cleanUpHourly, cleanUpOften } from '../../src/scheduler/cleanup.ts'
import { scheduleDuePipelines } from '../../src/scheduler/due-pipelines.ts'
import { createEmptyDatabase } from '../harness/database.ts'
import { startEngine } from '../harness/engine.ts'

const ROLE = `runtime_${process.pid}`
const OWNER = `owner_${process.pid}`

/** The block in the page that grants a role what it needs to run, not to migrate. */
function documentedGrants(): string {
  const page = readFileSync(path.resolve(import.meta.dirname, '../../../docs/operations.md'), 'utf8')
  const [, block] = /```sql\n(GRANT USAGE ON SCHEMA public TO sluice_runtime;[^`]*)```/.exec(page) ?? []
  assert.ok(block, 'docs/operations.md has the grants')
  return block.replaceAll('sluice_runtime', ROLE).replaceAll('sluice_owner', 'CURRENT_USER')
}

const asAdmin = async (connection: ConnectionSettings, text: string) => {
  const admin = connectDatabase(connection, 2, () => {})
  await admin.execute(script(text)).finally(() => admin.close())
}

const engine = await startEngine({}, async (connection) => {
  await asAdmin(
    connection,
    `CREATE ROLE ${ROLE} LOGIN PASSWORD 'runtime' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;
     REVOKE CREATE ON SCHEMA public FROM PUBLIC; ${documentedGrants()}`,
  )
  return connectDatabase({ ...connection, user: ROLE, password: 'runtime' }, 10, () => {})
})
const { db, box, log } = engine.services
// Registered after the application's own, which drops the database and with it all grants.
after(() => asAdmin({ ...engine.connection, database: 'postgres' }, `DROP ROLE ${ROLE}`))

test('a role that may only read and write rows runs everything on a migrated database', async () => {
  await requireDatabase(db)
  assert.equal(await migrate(db), 0)
  await engine.work()
  const run = await engine.finished(await engine.trigger(await engine.createPipeline({ dummy: { records: 50 } })))
  assert.equal(run.status, 'success', run.error ?? '')
  await scheduleDuePipelines(db.control, box, log)
  await cleanUpOften(engine.services)
  await cleanUpHourly(engine.services)
  assert.equal(await isQueueEmpty(db, 'large'), true)
  await assert.rejects(db.execute(script('CREATE TABLE more (id int)')), /permission denied/)
  await assert.rejects(db.execute(script('DROP TABLE runs')), /must be owner/)
})

test('an owner of the database without any other right migrates it', async () => {
  const empty = await createEmptyDatabase()
  const { database } = empty.connection
  await empty.db.execute(
    script(`CREATE ROLE ${OWNER} LOGIN PASSWORD 'owner' NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION;
            ALTER DATABASE ${database} OWNER TO ${OWNER}; REVOKE CREATE ON SCHEMA public FROM PUBLIC;
            GRANT USAGE, CREATE ON SCHEMA public TO ${OWNER}`),
  )
  const own = connectDatabase({ ...empty.connection, user: OWNER, password: 'owner' }, 2, () => {})
  try {
    await requireDatabase(own)
    assert.ok((await migrate(own)) > 0)
    assert.deepEqual(await own.first(sql`SELECT rolsuper, rolcreatedb FROM pg_roles WHERE rolname = current_user`), {
      rolsuper: false,
      rolcreatedb: false,
    })
  } finally {
    await own.close()
    await empty.db.execute(
      script(`ALTER DATABASE ${database} OWNER TO CURRENT_USER; DROP OWNED BY ${OWNER} CASCADE; DROP ROLE ${OWNER}`),
    )
    await empty.drop()
  }
})
