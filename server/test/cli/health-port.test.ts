/** A worker or scheduler as a process of its own: it has no API, but health endpoints, and it outlives its database. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { after, before, test } from 'node:test'
import { cloneDatabase, type TestDatabase } from '../harness/database.ts'
import { addressOf } from '../harness/database-proxy.ts'
import { startRelay } from '../harness/relay.ts'
import { askStatus, databaseSettings, environment, makeDataDir, runSluice } from '../harness/service.ts'

const folder = makeDataDir()
let database: TestDatabase
before(async () => {
  database = await cloneDatabase(1)
})
after(async () => {
  await database.drop()
  rmSync(folder, { recursive: true, force: true })
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

const start = (role: string, env: Record<string, string>) =>
  runSluice([role], environment(folder, { ...databaseSettings(database.connection), ...env }))

for (const role of ['worker', 'scheduler'])
  test(`a ${role} answers on HEALTH_PORT, and serves metrics with the token`, async () => {
    const port = await freePort()
    const service = start(role, { HEALTH_PORT: String(port), METRICS_TOKEN: 'a-long-token' })
    await service.said(new RegExp(`Sluice ${role} is running`))
    const url = `http://127.0.0.1:${port}`
    assert.equal(await askStatus(`${url}/healthz`), 200)
    assert.equal(await askStatus(`${url}/readyz`), 200)
    assert.equal(await askStatus(`${url}/metrics`), 401)
    assert.equal(await askStatus(`${url}/metrics`, { authorization: 'Bearer a-long-token' }), 200)
    const elsewhere = await fetch(`${url}/api/auth/me`)
    assert.equal(elsewhere.status, 404)
    assert.deepEqual(Object.keys((await elsewhere.json()) as object), ['detail'])
    service.child.kill('SIGTERM')
    assert.equal((await service.ended).code, 0)
    await assert.rejects(askStatus(`${url}/healthz`))
  })

test('without METRICS_TOKEN there are no metrics, and without HEALTH_PORT nothing listens', async () => {
  const port = await freePort()
  const service = start('worker', { HEALTH_PORT: String(port) })
  await service.said(/Sluice worker is running/)
  assert.equal(await askStatus(`http://127.0.0.1:${port}/metrics`), 404)
  service.child.kill('SIGTERM')
  assert.equal((await service.ended).code, 0)
  const silent = start('worker', {})
  await silent.said(/Sluice worker is running/)
  silent.child.kill('SIGTERM')
  const { code, stdout } = await silent.ended
  assert.equal(code, 0)
  assert.doesNotMatch(stdout, /listening/)
})

test('a HEALTH_PORT in use is reported in one sentence', async () => {
  const blocker = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => blocker.once('listening', resolve))
  const { port } = blocker.address() as { port: number }
  const { code, stderr } = await start('scheduler', { HEALTH_PORT: String(port) }).ended
  await new Promise((resolve) => blocker.close(resolve))
  assert.equal(code, 1)
  assert.equal(
    stderr,
    `Port ${port} on 127.0.0.1 is in use by another program; stop it, or set HEALTH_PORT to another port.\n`,
  )
})

test('a role whose database goes away while it announces itself goes on', async (t) => {
  let asked = 0
  const relay = await startRelay(addressOf(database.connection), (client, upstream) => {
    upstream.pipe(client)
    client.on('data', (chunk: Buffer) => {
      if (!chunk.includes('FROM users LIMIT 1')) return void upstream.write(chunk)
      asked++
      client.destroy()
    })
  })
  t.after(() => relay.close())
  const { user, password, database: name } = database.connection
  const env = { DATABASE_URL: `postgres://${user}:${password}@127.0.0.1:${relay.port}/${name}` }
  const service = start('worker', env)
  await service.said(/Sluice worker is running/)
  assert.ok(asked > 0)
  service.child.kill('SIGTERM')
  assert.equal((await service.ended).code, 0)
})
