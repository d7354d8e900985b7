/** A backup taken while the service works is one moment of it, and restores to the same rows and outputs, or to nothing. */
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { takeBackup } from '../../src/backup/backup.ts'
import type { Manifest } from '../../src/backup/manifest.ts'
import { type RestorePlace, restoreBackup } from '../../src/backup/restore.ts'
import { createLocalBlobs } from '../../src/blobs/local.ts'
import { createS3Blobs } from '../../src/blobs/s3.ts'
import { connectDatabase, type Database, raw, script, sql } from '../../src/database/database.ts'
import { migrate } from '../../src/database/migrate.ts'
import { createSecretBox } from '../../src/database/secret-box.ts'
import { LEFT_OUT, listTables, openLongSession } from '../../src/database/tables.ts'
import { OperatorError } from '../../src/errors.ts'
import { SECRET } from '../harness/app.ts'
import { cloneDatabase, createEmptyDatabase } from '../harness/database.ts'
import { startEngine } from '../harness/engine.ts'
import { startS3Server } from '../harness/s3-server.ts'

const engine = await startEngine({ ORG_CONCURRENCY: '8' })
const { db, blobs } = engine.services
const root = mkdtempSync(path.join(tmpdir(), 'sluice-backup-'))
after(() => rmSync(root, { recursive: true, force: true }))
const keyIds = [createSecretBox([SECRET]).currentKeyId.toString('hex')]
const quiet = () => {}

let made = 0
const newFolder = () => path.join(root, `backup-${++made}`)
const backUp = (folder: string, say: (line: string) => void = quiet) =>
  takeBackup({ connection: engine.connection, blobs, store: createLocalBlobs(folder), name: folder, say })

/** Into a migrated database without rows and a new blob store. */
async function restoring<T>(
  folder: string,
  work: (restored: Database, target: RestorePlace) => Promise<T>,
  more: Partial<RestorePlace> = {},
  create = cloneDatabase,
): Promise<T> {
  const empty = await create()
  const place: RestorePlace = {
    db: empty.db,
    connection: empty.connection,
    blobs: createLocalBlobs(newFolder()),
    store: more.store ?? createLocalBlobs(folder),
    name: folder,
    keyIds,
    withoutKeys: false,
    say: quiet,
    ...more,
  }
  try {
    return await work(empty.db, place)
  } finally {
    await empty.drop()
  }
}

/** The rows of a table as one hash, in no order. */
async function fingerprint(of: Database, table: string): Promise<string> {
  const row = await of.first<{ hash: string }>(
    sql`SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) AS hash FROM ${raw(table)} t`,
  )
  return row!.hash
}

const run = async (pipeline: string) => engine.finished(await engine.trigger(pipeline))
let pipeline: string
before(async () => {
  await engine.work()
  pipeline = await engine.createPipeline({ dummy: { records: 200 } })
  for (let turn = 0; turn < 3; turn++) assert.equal((await run(pipeline)).status, 'success')
  await db.execute(sql`UPDATE users SET name = E'tab\t line\n back\\slash \u20ac' WHERE id = ${engine.person.id}`)
})

describe('a backup of a service at rest', () => {
  const folder = newFolder()
  let manifest: Omit<Manifest, 'format'>
  before(async () => {
    manifest = await backUp(folder)
  })

  test('holds every table except those that mean nothing elsewhere', async () => {
    const client = await openLongSession(engine.connection)
    const tables = await listTables(client)
    await client.end()
    const all = await db.query<{ name: string }>(
      sql`SELECT relname AS name FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p')`,
    )
    assert.deepEqual([...tables.map(({ name }) => name), ...LEFT_OUT].sort(), all.map(({ name }) => name).sort())
    assert.deepEqual(manifest.tables.map(({ name }) => name).sort(), tables.map(({ name }) => name).sort())
  })

  test('restores to the same rows, numbers above all that were assigned, and outputs that can be read', () =>
    restoring(folder, async (restored, place) => {
      const { unfinished } = await restoreBackup(place)
      assert.equal(unfinished, 0)
      for (const { name } of manifest.tables.filter((table) => table.name !== 'installation'))
        assert.equal(await fingerprint(restored, name), await fingerprint(db, name), name)
      const seq = async (of: Database) => (await of.first<{ seq: number }>(sql`SELECT nextval('run_seq') AS seq`))!.seq
      assert.ok((await seq(restored)) > (await seq(db)) + 900_000_000)
      const audit = sql`INSERT INTO audit_log (action, object_type) VALUES ('x', 'run') RETURNING id`
      assert.ok((await restored.first<{ id: number }>(audit))!.id > 1, 'sequences go on')
      const parts = await restored.query<{ key: string; size: number }>(sql`
        SELECT part->>'key' AS key, coalesce(part->>'stored_bytes', part->>'size')::int AS size
          FROM runs, jsonb_array_elements(output_parts) AS part`)
      assert.equal(parts.length, 3)
      for (const { key, size } of parts) assert.equal((await place.blobs.stat(key))?.size, size)
      const enabled = await restored.query(sql`SELECT 1 FROM pg_trigger WHERE tgenabled <> 'O'`)
      assert.equal(enabled.length, 0, 'triggers work again')
      assert.equal(await migrate(restored), 0)
    }))

  test('is refused by a database that has rows, and leaves them as they are', () =>
    restoring(folder, async (restored, place) => {
      await restored.execute(sql`INSERT INTO users (email, name) VALUES ('there@example.com', 'There')`)
      await assert.rejects(restoreBackup(place), /The database is not empty \(rows in users\)/)
      assert.equal((await restored.query(sql`SELECT 1 FROM users`)).length, 1)
    }))

  test('is refused while a role runs', () =>
    restoring(folder, async (_restored, place) => {
      const session = { application_name: 'sluice worker host:1' }
      const role = connectDatabase({ ...place.connection, session }, 2, quiet)
      await role.first(sql`SELECT 1`)
      await assert.rejects(restoreBackup(place), /Sluice is running on this database \(worker host:1\)/)
      await role.close()
      await restoreBackup(place)
    }))

  test('needs the key it was encrypted with, or the word that it may be without', async () => {
    assert.deepEqual(manifest.key_ids, keyIds)
    const refused = new RegExp(`encrypted with the key ${keyIds[0]}, which ENCRYPTION_KEY does not have`)
    await restoring(folder, (_, place) => assert.rejects(restoreBackup(place), refused), { keyIds: [] })
    await restoring(folder, (_, place) => restoreBackup(place), { keyIds: [], withoutKeys: true })
  })

  test('holds no key and no secret in the clear', () => {
    for (const file of readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
      if (!/\.(zst|json)$/.test(file) || file.startsWith('blobs/')) continue
      assert.ok(!readFileSync(path.join(folder, file)).includes(SECRET), file)
    }
  })

  test('is not written over', () => assert.rejects(backUp(folder), /already holds a finished backup/))

  test('gives a database without tables the schema of the backup; one with another schema is refused', () =>
    restoring(
      folder,
      async (restored, place) => {
        await migrate(restored, quiet, 4)
        await assert.rejects(restoreBackup(place), /is not that of the backup .*new database without tables/)
        await restored.execute(script('DROP SCHEMA public CASCADE; CREATE SCHEMA public'))
        await restoreBackup(place)
        assert.equal(await fingerprint(restored, 'runs'), await fingerprint(db, 'runs'))
      },
      {},
      createEmptyDatabase,
    ))
})

describe('a damaged backup restores nothing', () => {
  const damage: Record<string, { act: (folder: string) => void; says: RegExp }> = {
    'one that was never finished': {
      act: (folder) => rmSync(path.join(folder, 'manifest.json')),
      says: /holds no finished backup/,
    },
    'a table cut short': {
      act: (folder) => truncateSync(path.join(folder, 'tables/runs.copy.zst'), 20),
      says: /tables\/runs\.copy\.zst: it has 20 bytes instead of/,
    },
    'a table with another content': {
      act: (folder) => {
        const file = path.join(folder, 'tables/runs.copy.zst')
        const bytes = readFileSync(file)
        bytes[bytes.length >> 1]! ^= 1
        writeFileSync(file, bytes)
      },
      says: /The backup is damaged: tables\/runs\.copy\.zst/,
    },
    'a missing blob': {
      act: (folder) => {
        const [blob] = readdirSync(path.join(folder, 'blobs'), { recursive: true, encoding: 'utf8' }).filter((file) =>
          file.endsWith('.zst'),
        )
        rmSync(path.join(folder, 'blobs', blob!))
      },
      says: /blobs\/.*: it is missing/,
    },
    'an unknown format': {
      act: (folder) => writeFileSync(path.join(folder, 'manifest.json'), '{"format":99}'),
      says: /has the format 99, and this Sluice reads 1/,
    },
  }
  for (const [name, { act, says }] of Object.entries(damage))
    test(name, async () => {
      const folder = newFolder()
      await backUp(folder)
      act(folder)
      await restoring(folder, async (restored, place) => {
        await assert.rejects(restoreBackup(place), (error: Error) => {
          assert.ok(error instanceof OperatorError, String(error))
          assert.match(error.message, says)
          return true
        })
        const there = await restored.first<{ there: boolean }>(sql`SELECT to_regclass('runs') IS NOT NULL AS there`)
        if (there!.there) assert.equal((await restored.query(sql`SELECT 1 FROM runs`)).length, 0)
      })
    })
})

test('a backup during writes is one consistent moment, and says what was deleted meanwhile', async () => {
  const folder = newFolder()
  const pipelines = await Promise.all(
    Array.from({ length: 4 }, () => engine.createPipeline({ dummy: { records: 50 } })),
  )
  await Promise.all(pipelines.map(run))
  let going = true
  const load = Promise.all(
    pipelines.map(async (id) => {
      while (going) await run(id)
    }),
  )
  const [victim] = await db.query<{ key: string }>(
    sql`SELECT output_parts->0->>'key' AS key FROM runs WHERE pipeline_id = ${pipeline} LIMIT 1`,
  )
  // Cleanup removes an output between the moment of the snapshot and the copy of the blobs.
  const manifest = await backUp(folder, (line) => {
    if (line.startsWith('the database is copied'))
      rmSync(path.join(engine.services.config.DATA_DIR, 'blobs', victim!.key))
  })
  going = false
  await load
  assert.deepEqual(manifest.blobs.gone, [victim!.key])
  await restoring(folder, async (restored, place) => {
    const { unfinished } = await restoreBackup(place)
    const left = await restored.query<{ status: string; ready: boolean }>(
      sql`SELECT status FROM runs WHERE finished_at IS NULL`,
    )
    assert.equal(left.length, unfinished)
    assert.ok(
      left.every(({ status }) => status === 'pending'),
      'no run is held by a worker of the past',
    )
    // The sums and summaries that triggers keep agree with the rows: both are of one moment.
    const differ = await restored.query(sql`
      SELECT 1 FROM pipeline_activity a JOIN runs r ON r.seq = a.last_run_seq
       WHERE r.status IS DISTINCT FROM a.last_run_status AND r.finished_at IS NOT NULL
      UNION ALL
      SELECT 1 FROM organization_storage s WHERE s.stored_bytes <> (
        SELECT sum(output_stored_bytes) FROM runs r WHERE r.organization_id = s.organization_id AND r.output_file_size IS NOT NULL)
      UNION ALL
      SELECT 1 FROM pipelines p LEFT JOIN pipeline_due d ON d.pipeline_id = p.id
       WHERE d.pipeline_id IS NULL OR d.next_run_at IS DISTINCT FROM CASE WHEN p.enabled THEN p.next_run_at END`)
    assert.deepEqual(differ, [])
    const outputs = await restored.query<{ key: string }>(
      sql`SELECT part->>'key' AS key FROM runs, jsonb_array_elements(output_parts) AS part`,
    )
    assert.ok(outputs.length > 3)
    for (const { key } of outputs) assert.equal((await place.blobs.stat(key)) !== null, key !== victim!.key, key)
  })
})

test('a bucket holds a backup as a folder does', async () => {
  const server = await startS3Server()
  const { endpoint, region, bucket, accessKeyId, secretAccessKey } = server
  const store = createS3Blobs({ endpoint, region, bucket, prefix: 'backups/one', accessKeyId, secretAccessKey })
  try {
    await takeBackup({ connection: engine.connection, blobs, store, name: 's3', say: quiet })
    assert.ok(server.objects.has('backups/one/manifest.json'))
    await restoring(
      's3',
      async (restored, place) => {
        await restoreBackup(place)
        assert.equal(await fingerprint(restored, 'runs'), await fingerprint(db, 'runs'))
      },
      { store },
    )
  } finally {
    await server.close()
  }
})

test('an interrupted backup is continued: blobs that are there stay', async () => {
  const folder = newFolder()
  const stop = new Error('interrupted')
  const interrupted = backUp(folder, (line) => {
    if (/blobs copied/.test(line)) throw stop
  })
  await assert.rejects(interrupted, stop)
  assert.ok(!existsSync(path.join(folder, 'manifest.json')))
  const manifest = await backUp(folder)
  assert.ok(manifest.blobs.count > 0)
  await restoring(folder, (_, place) => restoreBackup(place))
})
