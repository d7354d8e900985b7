import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { type RotationProgress, rotateKeys, SEALED_COLUMNS } from '../../src/database/key-rotation.ts'
import { createSecretBox } from '../../src/database/secret-box.ts'
import { registerPerson, startApp } from '../harness/app.ts'
import { untilWaitingForLocks } from '../harness/lock-waits.ts'

const app = await startApp()
const owner = await registerPerson(app, 'Owner')
const { db, box: old } = app.services
const OLD = 'a test secret that is long enough for HS256'
const NEW = 'another key of more than thirty-two characters'
const ring = createSecretBox([NEW, OLD])
const onlyNew = createSecretBox([NEW])
const never = new AbortController().signal
const organization_id = owner.organization_id

const saved = async (value: string) => {
  const id = randomUUID()
  const sealed = old.seal({ organization_id, column: 'saved_connectors.config_box', row_id: id }, { value })
  await db.execute(sql`
    INSERT INTO saved_connectors (id, organization_id, type, name, connector_name, config_box)
    VALUES (${id}, ${organization_id}, 'source', 'S', 'dummy', ${sealed})`)
  return id
}
const openValue = async (id: string, box = onlyNew) => {
  const row = await db.first<{ config_box: Buffer }>(sql`SELECT config_box FROM saved_connectors WHERE id = ${id}`)
  const place = { organization_id, column: 'saved_connectors.config_box', row_id: id }
  return box.open<{ value: string }>(place, row!.config_box).value
}
const staleIn = async () =>
  (await db.first<{ n: number }>(
    sql`SELECT count(*) AS n FROM saved_connectors WHERE substr(config_box, 2, 4) <> ${onlyNew.currentKeyId}`,
  ))!.n

test('the rotation covers every encrypted column of the schema', async () => {
  const rows = await db.query<{ table: string; column: string }>(sql`
    SELECT table_name AS table, column_name AS column FROM information_schema.columns
     WHERE table_schema = 'public' AND column_name LIKE '%\\_box' ORDER BY 1, 2`)
  const known = [...SEALED_COLUMNS].sort((a, b) => (a.table < b.table ? -1 : 1))
  assert.deepEqual(rows, known)
})

test('an interrupted rotation continues where it stopped, and in the end the old key is not needed', async () => {
  const ids = await Promise.all(Array.from({ length: 450 }, (_, index) => saved(`value ${index}`)))
  const stop = new AbortController()
  await rotateKeys(db, ring, () => stop.abort(), stop.signal)
  const left = await staleIn()
  assert.ok(left > 0 && left < 450, `${left} left`)
  const seen: RotationProgress[] = []
  const done = await rotateKeys(db, ring, (progress) => seen.push({ ...progress }), never)
  assert.equal(done.find(({ table }) => table === 'saved_connectors')!.sealed, left)
  assert.ok(seen.length > 1, 'progress is told')
  assert.equal(await staleIn(), 0)
  assert.equal(await openValue(ids[17]!), 'value 17')
  assert.equal((await rotateKeys(db, ring, () => {}, never))[0]!.sealed, 0, 'nothing is left to do')
})

test('concurrent saves are not overwritten', async () => {
  const id = await saved('before')
  const place = { organization_id, column: 'saved_connectors.config_box', row_id: id }
  const newer = old.seal(place, { value: 'saved in between' })
  // The rotation has decrypted the old value and waits for the row; then the other transaction commits.
  const { rotation } = await db.transaction(async (tx) => {
    await tx.execute(sql`SELECT 1 FROM saved_connectors WHERE id = ${id} FOR UPDATE`)
    const started = rotateKeys(db, ring, () => {}, never)
    await untilWaitingForLocks(db)
    await tx.execute(sql`UPDATE saved_connectors SET config_box = ${newer} WHERE id = ${id}`)
    return { rotation: started }
  })
  await rotation
  assert.equal(await openValue(id), 'saved in between')
})

test('what no key decrypts is reported and left unchanged, and the rest continues', async () => {
  const [lost, good] = [await saved('lost'), await saved('good')]
  const foreign = createSecretBox(['a key that nobody remembers any more'])
  const sealed = foreign.seal({ organization_id, column: 'saved_connectors.config_box', row_id: lost }, { value: 'x' })
  await db.execute(sql`UPDATE saved_connectors SET config_box = ${sealed} WHERE id = ${lost}`)
  const done = await rotateKeys(db, ring, () => {}, never)
  assert.deepEqual(done.find(({ table }) => table === 'saved_connectors')!.lost, [lost])
  assert.equal(await openValue(good), 'good')
  await db.execute(sql`DELETE FROM saved_connectors WHERE id = ${lost}`)
})
