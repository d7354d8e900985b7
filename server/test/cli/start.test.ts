import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { after, test } from 'node:test'
import { isConsoleBuilt } from '../../src/http/console.ts'
import { findProcesses } from '../harness/processes.ts'
import {
  ACCOUNT,
  askStatus,
  beginRegistration,
  environment,
  makeDataDir,
  runSluice,
  startService,
} from '../harness/service.ts'

const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})
const makeFolder = () => {
  const folder = makeDataDir()
  folders.push(folder)
  return folder
}

/** What a machine that is busy with other tests may add to a time limit of the service. */
const BUSY_MS = 2000

test('its last lines show the address, the data, the first account and the reference', async () => {
  const folder = makeFolder()
  const service = await startService(folder, { LOG_LEVEL: 'warn' })
  assert.equal(await askStatus(`${service.url}/readyz`), 200)
  await service.said(/API reference {2}\S+\/docs\n/)
  service.child.kill('SIGTERM')
  const { code, stdout, stderr } = await service.ended
  assert.equal(code, 0, stderr)
  assert.ok(stdout.includes(`data           ${folder}`), stdout)
  if (isConsoleBuilt()) assert.match(stdout, /first account {2}\S+\/sign-up\n/)
  else assert.match(stdout, /first account {2}curl -s \S+\/api\/auth\/register /)
  assert.deepEqual(findProcesses(folder), [])
})

test('a service that has accounts does not offer the first one again', async () => {
  const folder = makeFolder()
  const settings = { LOG_LEVEL: 'warn' }
  const first = await startService(folder, settings)
  const headers = { 'content-type': 'application/json' }
  const registered = await fetch(`${first.url}/api/auth/register`, { method: 'POST', headers, body: ACCOUNT })
  assert.equal(registered.status, 201)
  first.child.kill('SIGTERM')
  await first.ended
  const second = await startService(folder, settings)
  await second.said(/API reference {2}\S+\/docs\n/)
  second.child.kill('SIGTERM')
  assert.doesNotMatch((await second.ended).stdout, /first account/)
})

test('SIGTERM lets a request in progress finish, accepts no new one, and leaves no process', async () => {
  const folder = makeFolder()
  const service = await startService(folder)
  const { begun, answered, finish } = beginRegistration(service.url)
  await begun
  // Once a later request is answered, this one has arrived.
  await askStatus(`${service.url}/healthz`)
  const start = performance.now()
  service.child.kill('SIGTERM')
  await service.said(/"stopping"/)
  await assert.rejects(untilRefused(`${service.url}/healthz`), /ECONNREFUSED|fetch failed/)
  finish()
  assert.equal(await answered, 201)
  const { code } = await service.ended
  assert.equal(code, 0)
  assert.ok(performance.now() - start < 10_000)
  assert.deepEqual(findProcesses(folder), [])
})

/** The listener closes a moment after the signal. */
async function untilRefused(url: string): Promise<never> {
  for (;;) await askStatus(url)
}

test('a request that never ends does not delay the exit beyond DRAIN_SECONDS plus two', async () => {
  const folder = makeFolder()
  const service = await startService(folder, { DRAIN_SECONDS: '1' })
  const { begun, answered } = beginRegistration(service.url)
  const broken = assert.rejects(answered)
  await begun
  // Once a later request is answered, this one has arrived.
  await askStatus(`${service.url}/healthz`)
  const start = performance.now()
  service.child.kill('SIGTERM')
  await service.ended
  const took = performance.now() - start
  assert.ok(took < 3000 + BUSY_MS, `${took} ms`)
  await broken
  assert.deepEqual(findProcesses(folder), [])
})

test('a Python module that is not installed is one line in the log, and custom sources work without it', async () => {
  const service = await startService(makeFolder(), { CELL_MODULES: 'not_installed,os' })
  await service.said(/CELL_MODULES: os is never available to custom sources/)
  await service.said(/CELL_MODULES: not_installed cannot be imported .*; custom sources work without it/)
  assert.equal(await askStatus(`${service.url}/readyz`), 200)
  service.child.kill('SIGTERM')
  assert.equal((await service.ended).code, 0)
})

test('a second service on the same data folder is refused in one sentence', async () => {
  const folder = makeFolder()
  const service = await startService(folder)
  const second = await runSluice(['start'], environment(folder)).ended
  assert.equal(second.code, 1)
  assert.equal(second.stderr.trim().split('\n').length, 1, second.stderr)
  assert.match(
    second.stderr,
    /^Another Sluice is already running on the data folder .*; stop it first, or set DATA_DIR/,
  )
  assert.equal(await askStatus(`${service.url}/readyz`), 200)
  service.child.kill('SIGINT')
  assert.equal((await service.ended).code, 0)
})

test('an operator sets a new password beside a running service, which ends all sessions of the account', async () => {
  const folder = makeFolder()
  const service = await startService(folder)
  const headers = { 'content-type': 'application/json' }
  const registered = await fetch(`${service.url}/api/auth/register`, { method: 'POST', headers, body: ACCOUNT })
  const { access_token } = (await registered.json()) as { access_token: string }
  const reset = async (password: string) => {
    const command = runSluice(['admin', 'reset-password', 'First@example.com'], environment(folder), `${password}\n`)
    return command.ended
  }
  const stranger = await runSluice(
    ['admin', 'reset-password', 'nobody@example.com'],
    environment(folder),
    'Horse-1-x\n',
  ).ended
  assert.deepEqual([stranger.code, stranger.stderr], [1, 'There is no account with the address nobody@example.com\n'])
  const weak = await reset('weak')
  assert.equal(weak.code, 1)
  assert.match(weak.stderr, /password: needs at least 8 characters/)
  const { code, stdout, stderr } = await reset('Another-horse-2')
  assert.equal(code, 0, stderr)
  assert.match(stdout, /The password of First@example\.com was changed/)
  const me = await fetch(`${service.url}/api/auth/me`, { headers: { authorization: `Bearer ${access_token}` } })
  assert.equal(me.status, 401)
  const body = JSON.stringify({ email: 'first@example.com', password: 'Another-horse-2' })
  const login = await fetch(`${service.url}/api/auth/login`, { method: 'POST', headers, body })
  assert.equal(login.status, 200)
  service.child.kill('SIGTERM')
  assert.equal((await service.ended).code, 0)
})

test('a port in use is reported in one sentence, and nothing is left running', async () => {
  const folder = makeFolder()
  const blocker = createServer()
  await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve))
  const { port } = blocker.address() as { port: number }
  const { code, stderr } = await runSluice(['start'], environment(folder, { PORT: String(port) })).ended
  blocker.close()
  assert.equal(code, 1)
  assert.equal(
    stderr.trim(),
    `Port ${port} on 127.0.0.1 is in use by another program; stop it, or set PORT to another port.`,
  )
  assert.deepEqual(findProcesses(folder), [])
})
