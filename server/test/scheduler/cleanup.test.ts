/** Cleanup: what cannot be removed does not stop the rest. */
import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import type { BlobStore } from '../../src/blobs/blobs.ts'
import { KEPT_OPEN, sql } from '../../src/database/database.ts'
import { cleanUpOften, expireOutputs, removeDeletedRuns, removeLeftStages } from '../../src/scheduler/cleanup.ts'
import { countConnections } from '../harness/count-connections.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
const { db, blobs } = engine.services

/** A store that refuses to delete under a prefix, like one with a retention lock. */
const refusing = (prefix: string): BlobStore => ({
  ...blobs,
  delete: (keys) =>
    keys.some((key) => key.startsWith(prefix)) ? Promise.reject(new Error('AccessDenied')) : blobs.delete(keys),
})
const exists = async (key: string) => (await blobs.stat(key)) !== null
const put = async (key: string) => {
  await blobs.put(key, Buffer.from('x'))
  return key
}

test('an object that cannot be deleted does not stop the others, and is retried later', async () => {
  const [stuck, free] = [randomUUID(), randomUUID()].map((organization) => `${organization}/runs/${randomUUID()}/`)
  const kept = await put(`${stuck}1-1.part`)
  const removed = await put(`${free}1-1.part`)
  await db.execute(
    sql`INSERT INTO blob_deletions (prefix, due_at) VALUES (${stuck}, now() - interval '2 hours'), (${free}, now() - interval '1 hour')`,
  )
  const services = { ...engine.services, blobs: refusing(stuck!) }
  await removeDeletedRuns(services)
  assert.deepEqual([await exists(kept), await exists(removed)], [true, false])
  const left = await db.query<{ prefix: string; later: boolean }>(
    sql`SELECT prefix, due_at > now() AS later FROM blob_deletions`,
  )
  assert.deepEqual(left, [{ prefix: stuck, later: true }])
  await db.execute(sql`UPDATE blob_deletions SET due_at = now()`)
  await removeDeletedRuns(engine.services)
  assert.equal(await exists(kept), false)
})

async function insertEnded(count: number): Promise<{ id: string; organization_id: string }[]> {
  const pipeline = await engine.createPipeline({})
  return db.query(sql`
    INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, finished_at, stage_left, output_file, output_file_size, output_parts, attempt)
    SELECT organization_id, id, 'manual', true, 'success', now() - interval '40 days', true, 'x', 1, '[]', 1 FROM pipelines, generate_series(1, ${count}) WHERE id = ${pipeline}
    RETURNING id, organization_id`)
}

test('parts and outputs that cannot be removed do not stop the others', async () => {
  const runs = await insertEnded(3)
  const keys = await Promise.all(runs.map((run) => put(`${run.organization_id}/runs/${run.id}/1-1.part`)))
  const services = { ...engine.services, blobs: refusing(keys[0]!) }
  assert.equal(await removeLeftStages(services), 2)
  assert.deepEqual(await Promise.all(keys.map(exists)), [true, false, false])
  await Promise.all(keys.map(put))
  // The last success of the pipeline stays; of the other two, one cannot be removed.
  assert.equal(await expireOutputs(services, 30), 1)
  assert.equal(await expireOutputs(engine.services, 30), 1)
})

test('a replay into another destination does not take the place of the last success, whose file may be gone on from', async () => {
  const [own, elsewhere] = await insertEnded(2)
  await db.execute(sql`UPDATE runs SET output_target = 'sqlite' WHERE id = ${own!.id}`)
  await db.execute(sql`UPDATE runs SET output_target = 'other', triggered_by = 'replay' WHERE id = ${elsewhere!.id}`)
  assert.equal(await expireOutputs(engine.services, 30), 0)
  await db.execute(sql`UPDATE runs SET triggered_by = 'manual' WHERE id = ${elsewhere!.id}`)
  assert.equal(await expireOutputs(engine.services, 30), 1)
})

test('parts that no list names are removed, compressed or not, and those of the output stay', async () => {
  const [run] = await insertEnded(1)
  const prefix = `${run!.organization_id}/runs/${run!.id}/`
  const names = ['1-1.part', '1-2.part.zst', '2-1.part.zst', '2-output.part.zst', 'log.json.gz']
  const keys = await Promise.all(names.map((name) => put(`${prefix}${name}`)))
  const output = [{ key: `${prefix}2-1.part.zst`, size: 1, stored_bytes: 1 }]
  await db.execute(sql`UPDATE runs SET output_parts = ${JSON.stringify(output)} WHERE id = ${run!.id}`)
  await removeLeftStages(engine.services)
  assert.deepEqual(await Promise.all(keys.map(exists)), [false, false, true, false, true])
})

test('what an organization stores is counted as it is stored, and forgotten with the output', async () => {
  const [old, compressed, deleted] = await insertEnded(3)
  const { organization_id } = old!
  const stored = async () =>
    (await db.first<{ stored_bytes: number }>(
      sql`SELECT stored_bytes FROM organization_storage WHERE organization_id = ${organization_id}`,
    ))!.stored_bytes
  const setSize = (run: typeof old, size: number | null, storedBytes: number | null) =>
    db.execute(
      sql`UPDATE runs SET output_file_size = ${size}, output_stored_bytes = ${storedBytes} WHERE id = ${run!.id}`,
    )
  await setSize(old, 1000, null)
  const before = await stored()
  await setSize(compressed, 5000, 600)
  await setSize(deleted, 7000, 800)
  // insertEnded gave each of them one byte, which an insert does not count.
  assert.equal((await stored()) - before, 600 - 1 + 800 - 1)
  await setSize(old, null, null)
  assert.equal((await stored()) - before, 1398 - 1000)
  // As an older scheduler forgets it.
  await db.execute(sql`UPDATE runs SET output_file_size = NULL WHERE id = ${compressed!.id}`)
  assert.equal((await stored()) - before, 1398 - 1000 - 600)
  await db.execute(sql`DELETE FROM runs WHERE id = ${deleted!.id}`)
  assert.equal((await stored()) - before, 1398 - 1000 - 600 - 800)
})

test('a step that fails as a whole does not stop the other steps', async () => {
  const [run] = await insertEnded(1)
  await db.execute(sql`SELECT append_run_log(${run!.id}, NULL, 1, 'a line')`)
  const broken: BlobStore = {
    ...blobs,
    list: () => {
      throw new Error('the store does not list')
    },
  }
  await cleanUpOften({ ...engine.services, blobs: broken })
  const row = await db.first<{ log_key: string | null }>(sql`SELECT log_key FROM runs WHERE id = ${run!.id}`)
  assert.match(row!.log_key!, /log\.json\.gz$/)
})

test('all due logs are packed in one pass, however many there are', async () => {
  const runs = await insertEnded(1200)
  await db.execute(
    sql`INSERT INTO run_log_chunks (run_id, number, first_line, line_count, lines) SELECT id, 1, 1, 1, 'a line' FROM unnest(${runs.map(({ id }) => id)}::uuid[]) AS id`,
  )
  await cleanUpOften(engine.services)
  const left = await db.first<{ count: number }>(sql`SELECT count(*) AS count FROM run_log_chunks`)
  assert.equal(left!.count, 0)
})

test('cleanup with nothing to do never needs more connections than the pool keeps open', async () => {
  const { counted, most } = countConnections(db)
  await cleanUpOften({ ...engine.services, db: counted })
  assert.equal(most(), KEPT_OPEN)
})
