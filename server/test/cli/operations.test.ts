/** The operator's commands on a database: accounts, what is wrong, backup, restore. */
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { cloneDatabase, createEmptyDatabase } from '../harness/database.ts'
import { startS3Server } from '../harness/s3-server.ts'
import { databaseSettings, environment, makeDataDir, runSluice } from '../harness/service.ts'

const folder = makeDataDir()
after(() => rmSync(folder, { recursive: true, force: true }))
const { db, connection, drop } = await cloneDatabase()
after(drop)
const env = (more: Record<string, string> = {}) => environment(folder, { ...databaseSettings(connection), ...more })
const sluice = (args: string[], more: Record<string, string> = {}, input?: string) =>
  runSluice(args, env(more), input).ended

test('the first owner is created while sign-up is by invitation, listed, and signed out', async () => {
  const password = 'Correct-horse-1'
  const create = ['admin', 'create-owner', 'First@Example.com', '--organization', 'Acme \u001b[31mred']
  const made = await sluice(create, { SIGNUP: 'invited' }, `${password}\n`)
  assert.equal(made.code, 0, made.stderr)
  assert.match(made.stdout, /First@Example\.com is the owner of Acme/)
  const again = await sluice(create, {}, `${password}\n`)
  assert.deepEqual([again.code, again.stderr.trim()], [1, 'This email address already has an account; sign in instead'])
  const weak = await sluice(['admin', 'create-owner', 'b@example.com', '--organization', 'B'], {}, 'short\n')
  assert.equal(weak.code, 1)

  const organizations = await sluice(['admin', 'organizations'])
  assert.match(organizations.stdout, /^SLUG +NAME +OWNER +MEMBERS/)
  assert.match(organizations.stdout, /first@example\.com +1 +0/)
  assert.ok(!organizations.stdout.includes('\u001b'), 'a name cannot command the terminal')
  const [{ slug }] = JSON.parse((await sluice(['admin', 'organizations', '--json'])).stdout)
  const users = JSON.parse((await sluice(['admin', 'users', '--organization', slug, '--json'])).stdout)
  assert.deepEqual(
    users.map(({ email, roles }: { email: string; roles: string[] }) => [email, roles]),
    [['first@example.com', [`owner in ${slug}`]]],
  )
  const nowhere = await sluice(['admin', 'users', '--organization', 'nowhere'])
  assert.deepEqual([nowhere.code, nowhere.stdout], [1, ''])

  await db.execute(sql`
    INSERT INTO sessions (user_id, organization_id, expires_at)
    SELECT user_id, organization_id, now() + interval '1 day' FROM memberships`)
  await db.execute(sql`
    INSERT INTO api_keys (organization_id, created_by, name, key_prefix, key_hash)
    SELECT organization_id, user_id, 'ci', 'svc_live_x', '\\x01' FROM memberships`)
  const revoked = await sluice(['admin', 'revoke', 'first@example.com'])
  assert.match(revoked.stdout, /1 sessions were signed out and 1 API keys revoked/)
  assert.deepEqual(await db.query(sql`SELECT 1 FROM sessions WHERE revoked_at IS NULL`), [])
  assert.deepEqual(await db.query(sql`SELECT 1 FROM api_keys WHERE revoked_at IS NULL`), [])
  assert.equal((await sluice(['admin', 'revoke', 'nobody@example.com'])).code, 1)
})

test('doctor looks at every part, and says what to do about what is wrong', async () => {
  const { code, stdout, stderr } = await sluice(['doctor', '--json'])
  const { status, findings } = JSON.parse(stdout) as {
    status: string
    findings: { part: string; status: string; found: string; advice?: string }[]
  }
  assert.deepEqual([code, stderr], [0, ''], stdout)
  assert.notEqual(status, 'problem')
  const parts = ['database', 'queue', 'blobs', 'sandbox', 'egress', 'keys', 'disk', 'clock', 'versions']
  assert.deepEqual([...new Set(findings.map(({ part }) => part))].sort(), parts.sort())
  for (const finding of findings) assert.equal(finding.status !== 'ok', finding.advice !== undefined, finding.found)

  await db.execute(sql`
    INSERT INTO saved_connectors (organization_id, type, name, connector_name, config_box)
    SELECT id, 'source', 'x', 'dummy', '\\x01aabbccdd00' FROM organizations`)
  await db.execute(sql`
    WITH p AS (INSERT INTO pipelines (organization_id, name, config_box, stream) SELECT o.id, c.class, '\\x01aabbccdd00', 's' FROM organizations o CROSS JOIN (VALUES (''), ('large')) AS c (class) RETURNING id, organization_id, name)
    INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, pod_class, available_at)
    SELECT organization_id, id, 'manual', true, name, now() - interval '10 minutes' FROM p`)
  const wrong = await sluice(['doctor'], { EGRESS_ALLOW: '127.0.0.0/8' })
  assert.equal(wrong.code, 1)
  assert.match(wrong.stdout, /PROBLEM +keys +3 values are encrypted with the key aabbccdd/)
  assert.match(wrong.stdout, /PROBLEM +queue +runs wait, and no worker is running\n +→ Start sluice worker\./)
  assert.match(
    wrong.stdout,
    /warning +queue +1 run waits for a worker of the class large, the oldest for 6\d\d s\n +→ See whether/,
  )
  assert.match(wrong.stdout, /warning +egress +EGRESS_ALLOW opens 127\.0\.0\.1/)
  await db.execute(sql`DELETE FROM saved_connectors`)
  await db.execute(sql`DELETE FROM pipelines`)

  const away = await sluice(['doctor'], { DATABASE_URL: 'postgres://u:secret@127.0.0.1:1/x' })
  assert.equal(away.code, 1)
  assert.match(away.stdout, /PROBLEM +database .*cannot be used/)
  assert.match(away.stdout, /ok +disk/)
  assert.doesNotMatch(away.stdout + away.stderr, /secret/)

  const nowhere = await sluice(['doctor'], { TMPDIR: `${folder}/missing` })
  assert.match(nowhere.stdout, /PROBLEM +disk +The folder for temporary files, .*missing, cannot be used/)
})

test('what a backup cannot read or write is one sentence', async () => {
  const refuse = async (place: string, more: Record<string, string>, sentence: RegExp) => {
    const { code, stderr } = await sluice(['backup', place], more)
    assert.equal(code, 1)
    assert.match(stderr, sentence)
    assert.equal(stderr.trim().split('\n').length, 1, stderr)
  }
  writeFileSync(path.join(folder, 'file'), '')
  await refuse(
    path.join(folder, 'file/backup'),
    {},
    /file\/backup cannot be used: part of its path is a file \(ENOTDIR\)\.$/m,
  )
  const empty = await createEmptyDatabase()
  try {
    await refuse(path.join(folder, 'unused'), databaseSettings(empty.connection), /^The database has no tables/)
  } finally {
    await empty.drop()
  }
  const store = await startS3Server()
  try {
    const { endpoint: S3_ENDPOINT, region: S3_REGION } = store
    const { accessKeyId: S3_ACCESS_KEY_ID, secretAccessKey: S3_SECRET_ACCESS_KEY } = store
    const keys = { S3_ENDPOINT, S3_REGION, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY }
    await refuse('s3://none/backup', keys, /^The bucket 'none' of s3:\/\/none\/backup does not exist/)
  } finally {
    await store.close()
  }
})

test('backup and restore move an installation to another database; neither restore nor restored runs beside a role', async () => {
  const backup = path.join(folder, 'backup')
  const made = await sluice(['backup', backup])
  assert.equal(made.code, 0, made.stderr)
  assert.match(made.stdout, /^users: 1 rows, /m)
  assert.match(made.stdout, /backup is complete: \d+ rows, 0 blobs\./)

  const scheduler = runSluice(['scheduler'], env({ LOG_LEVEL: 'info' }))
  await scheduler.said(/scheduler/)
  try {
    for (const command of [['restored'], ['restore', backup]]) {
      const refused = await sluice(command)
      assert.equal(refused.code, 1)
      assert.match(
        refused.stderr,
        /^Sluice is running on this database \(scheduler .*\); stop all its processes first\./,
      )
    }
  } finally {
    scheduler.child.kill('SIGTERM')
    await scheduler.ended
  }
  const full = await sluice(['restore', backup])
  assert.match(full.stderr, /^The database is not empty \(rows in /)

  const other = await cloneDatabase()
  try {
    const elsewhere = databaseSettings(other.connection)
    const restored = await sluice(['restore', backup], elsewhere)
    assert.equal(restored.code, 0, restored.stderr)
    assert.match(restored.stdout, /rows are restored, and run numbers start above/)
    assert.deepEqual(
      await other.db.query(sql`SELECT id, email FROM users`),
      await db.query(sql`SELECT id, email FROM users`),
    )
    const missing = await sluice(['restore', path.join(folder, 'nowhere')], elsewhere)
    assert.deepEqual([missing.code, missing.stderr.trim()], [1, `There is no folder ${path.join(folder, 'nowhere')}.`])
  } finally {
    await other.drop()
  }
})
