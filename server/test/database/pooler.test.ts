/** PgBouncer between Sluice and its database: session mode works, every other mode is refused at start. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { findPgBouncer, type PgBouncer, startPgBouncer } from '../harness/pgbouncer.ts'
import { type PostgresServer, startServer } from '../harness/postgres-server.ts'
import { environment, runSluice } from '../harness/service.ts'

const found = findPgBouncer()

describe('behind PgBouncer', { skip: 'missing' in found && found.missing }, () => {
  const command = 'command' in found ? found.command : ''
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-pooler-'))
  let server: PostgresServer
  before(async () => {
    server = await startServer({})
  })
  after(async () => {
    await server.stop()
    rmSync(folder, { recursive: true })
  })

  async function migrateThrough(mode: 'session' | 'transaction' | 'statement', parameters = '') {
    const database = await server.createDatabase()
    const pooler: PgBouncer = await startPgBouncer(command, server, 20, mode)
    try {
      const address = `postgres://${server.user}:${server.password}@127.0.0.1:${pooler.port}/${database}${parameters}`
      const env = { DATABASE_URL: address, JWT_SECRET_KEY: 'x'.repeat(32), ENCRYPTION_KEY: 'x'.repeat(32) }
      return await runSluice(['migrate'], environment(folder, env)).ended
    } finally {
      await pooler.close()
    }
  }

  test('in session mode it works, with the settings of `options`', async () => {
    const { code, stderr } = await migrateThrough('session', `?options=${encodeURIComponent('-c work_mem=8MB')}`)
    assert.deepEqual([code, stderr], [0, ''])
  })

  for (const mode of ['transaction', 'statement'] as const)
    test(`${mode} mode is refused in one sentence that says what to do`, async () => {
      const { code, stderr } = await migrateThrough(mode)
      assert.equal(code, 1)
      assert.match(stderr, /pooler in transaction mode; use session mode \(pgbouncer: pool_mode = session\)/)
      assert.equal(stderr.trim().split('\n').length, 1)
    })
})
