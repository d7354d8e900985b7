/** A service that crashes or is killed comes back by itself, and loses nothing. */
import assert from 'node:assert/strict'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { backOffMs } from '../../src/cli/keep-service.ts'
import { cloneDatabase } from '../harness/database.ts'
import { findChildren, findProcesses, findTree, isAlive, waitUntilGone } from '../harness/processes.ts'
import {
  ACCOUNT,
  askStatus,
  databaseSettings,
  environment,
  findPostgres,
  findService,
  makeDataDir,
  runSluice,
  type Service,
  startService,
} from '../harness/service.ts'
import { misbehaving } from './misbehave.ts'

const folders: string[] = []
const services: Service[] = []
after(() => {
  for (const { child } of services) child.kill('SIGKILL')
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
const makeFolder = () => {
  const folder = makeDataDir()
  folders.push(folder)
  return folder
}
async function start(folder: string, env: Record<string, string> = {}): Promise<Service> {
  const service = await startService(folder, env)
  services.push(service)
  return service
}

/** The second time that it is ready. */
const READY_AGAIN = /Sluice is ready at \S+[\s\S]*Sluice is ready at (\S+)/

async function send(service: Service, method: string, target: string, token: string | null, body?: string) {
  const response = await fetch(service.url + target, {
    method,
    headers: {
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body && { 'content-type': 'application/json' }),
      connection: 'close',
    },
    ...(body && { body }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever came back
  return (await response.json()) as any
}

async function register(service: Service): Promise<string> {
  return (await send(service, 'POST', '/api/auth/register', null, ACCOUNT)).access_token as string
}

async function end(service: Service, folder: string): Promise<string> {
  service.child.kill('SIGTERM')
  const { code, stdout, stderr } = await service.ended
  assert.equal(code, 0, stdout + stderr)
  assert.deepEqual(findProcesses(folder), [])
  return stdout + stderr
}

test('a service process that was killed is back at the same address, and the database stayed up', async () => {
  const folder = makeFolder()
  const service = await start(folder)
  const parent = service.child.pid!
  const [killed, postgres] = [findService(parent), findPostgres(parent)]
  const token = await register(service)
  process.kill(killed, 'SIGKILL')
  const [, url] = await service.said(READY_AGAIN)
  assert.equal(url, service.url)
  assert.notEqual(findService(parent), killed)
  assert.equal(findPostgres(parent), postgres)
  assert.equal((await send(service, 'GET', '/api/auth/me', token)).email, 'first@example.com')
  const said = await end(service, folder)
  assert.match(said, /"level":"error".*"the service process was killed by SIGKILL; starting it again in 0\.5 s"/)
  assert.doesNotMatch(said, /PostgreSQL exited/)
})

test('an uncaught exception is logged with its stack; runs are handed over, and resumed', async () => {
  const folder = makeFolder()
  // A run left to its lease would take a minute to be taken over.
  const env = { ...misbehaving({ THROW: 'exception' }), RUN_LEASE_SECONDS: '60', RUN_CHECKPOINT_MS: '200' }
  const service = await start(folder, env)
  const token = await register(service)
  const source = { name: 'dummy', stream: 'creatures', config: { records: 40, delay_ms: 100 } }
  const config = { source, destination: { name: 'file' } }
  const pipeline = await send(service, 'POST', '/api/pipelines', token, JSON.stringify({ name: 'Slow', config }))
  const run = await send(service, 'POST', `/api/pipelines/${pipeline.id}/run`, token)
  const read = () => send(service, 'GET', `/api/pipelines/runs/${run.id}`, token)
  while ((await read()).status === 'pending') await delay(20)
  const began = performance.now()
  const crashed = findService(service.child.pid!)
  const tree = findTree(crashed)
  process.kill(crashed, 'SIGUSR2')
  await service.said(READY_AGAIN)
  assert.deepEqual(tree.filter(isAlive), [])
  let after = await read()
  for (; ['pending', 'running'].includes(after.status); after = await read()) await delay(50)
  assert.deepEqual([after.status, after.attempt, after.records_written], ['success', 2, 40], JSON.stringify(after))
  assert.ok(performance.now() - began < 50_000)
  const said = await end(service, folder)
  const fatal = /^\{"level":"fatal".*\}$/m.exec(said)
  assert.ok(fatal, said)
  const { msg, err } = JSON.parse(fatal[0])
  assert.equal(msg, 'an exception was not caught; shutting down')
  assert.match(err.stack, /^TypeError: thrown by a test\n +at .*misbehave\.ts/)
  assert.match(said, /"stopped".*\n.*"the service process exited with code 1; starting it again in 0\.5 s"/)
})

test('an unhandled rejection ends a separate worker with exit code 1', async () => {
  const folder = makeFolder()
  const { connection, drop } = await cloneDatabase(1)
  const env = environment(folder, { ...databaseSettings(connection), ...misbehaving({ THROW: 'rejection' }) })
  const worker = runSluice(['worker'], env)
  await worker.said(/Sluice worker is running/)
  const tree = findTree(worker.child.pid!)
  worker.child.kill('SIGUSR2')
  const { code, stdout } = await worker.ended
  assert.equal(code, 1)
  assert.match(
    stdout,
    /"level":"fatal".*TypeError: thrown by a test.*"a rejected promise was not handled; shutting down/,
  )
  assert.deepEqual(await waitUntilGone(() => tree.filter(isAlive), 2000), [])
  await drop()
})

test('an exception in the parent ends everything in order, with exit code 1', async () => {
  const folder = makeFolder()
  const service = await start(folder, misbehaving({ THROW: 'exception' }))
  service.child.kill('SIGUSR2')
  const { code, stdout } = await service.ended
  assert.equal(code, 1)
  assert.match(stdout, /"level":"fatal".*TypeError: thrown by a test[\s\S]*"stopping"[\s\S]*"stopped"/)
  assert.deepEqual(findProcesses(folder), [])
})

test('a service process that keeps failing is restarted with backoff, half a minute at most', async () => {
  assert.deepEqual([0, 1, 2, 3, 7, 8, 1000].map(backOffMs), [0, 500, 1000, 2000, 30_000, 30_000, 30_000])
  const folder = makeFolder()
  const crashes = path.join(folder, 'crashes')
  writeFileSync(crashes, 'xx')
  const service = await start(folder, misbehaving({ CRASHES: crashes }))
  assert.equal(await askStatus(`${service.url}/readyz`), 200)
  const said = await end(service, folder)
  assert.match(
    said,
    /exited with code 1; starting it again in 0\.5 s"[\s\S]*exited with code 1; starting it again in 1 s"/,
  )
})

test('with DATABASE_URL it comes back too, and does not give up if its port is in use meanwhile', async () => {
  const folder = makeFolder()
  const { connection, drop } = await cloneDatabase(1)
  const service = await start(folder, databaseSettings(connection))
  const parent = service.child.pid!
  assert.equal(findChildren(parent, 'postgres').length, 0)
  process.kill(findService(parent), 'SIGKILL')
  const port = Number(new URL(service.url).port)
  const blocker = await takePort(port)
  await service.said(/the service process exited with code 78; starting it again in 1 s/)
  await new Promise((resolve) => blocker.close(resolve))
  const [, url] = await service.said(READY_AGAIN)
  assert.equal(url, service.url)
  const said = await end(service, folder)
  assert.match(said, new RegExp(`Port ${port} on 127\\.0\\.0\\.1 is in use by another program; stop it`))
  await drop()
})

test('when the parent is killed nothing of it is left, and the next start works', async () => {
  const folder = makeFolder()
  const service = await start(folder)
  const token = await register(service)
  const tree = findTree(service.child.pid!)
  assert.ok(tree.length > 4, 'parent, service, executor and database')
  service.child.kill('SIGKILL')
  await service.ended
  assert.deepEqual(await waitUntilGone(() => [...tree.filter(isAlive), ...findProcesses(folder)], 10_000), [])
  const next = await start(folder)
  assert.equal((await send(next, 'GET', '/api/auth/me', token)).email, 'first@example.com')
  await end(next, folder)
})

/** As soon as the port is free. */
async function takePort(port: number) {
  for (;;) {
    const server = createServer()
    const taken = await new Promise<boolean>((resolve) => {
      server.once('error', () => resolve(false))
      server.listen(port, '127.0.0.1', () => resolve(true))
    })
    if (taken) return server
  }
}
