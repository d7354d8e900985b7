/** `sluice` on a terminal, as a person uses it. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { findProcesses, startProgram } from '../harness/processes.ts'
import {
  askStatus,
  beginRegistration,
  environment,
  MAIN,
  makeDataDir,
  root,
  type Service,
  whenReady,
} from '../harness/service.ts'

const folders: string[] = []
after(() => {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true })
})

async function startOnTerminal(env: Record<string, string> = {}): Promise<Service & { folder: string }> {
  const folder = makeDataDir()
  folders.push(folder)
  const terminal = path.join(import.meta.dirname, 'terminal.py')
  const args = [terminal, process.execPath, MAIN, 'start']
  const service = await whenReady(startProgram('python3', args, { cwd: root, env: environment(folder, env) }))
  after(() => service.child.kill('SIGTERM'))
  return { ...service, folder }
}
const TOKEN = 'a-token-of-the-test'

/**
 * The sandbox is tested right after the start; what is printed when that is interrupted is not the subject of these
 * tests.
 */
async function untilSandboxIsProven(url: string): Promise<void> {
  for (;;) {
    const answer = await fetch(`${url}/readyz`, { headers: { authorization: `Bearer ${TOKEN}` } })
    if (((await answer.json()) as { sandbox: string }).sandbox !== 'not started') return
    await delay(20)
  }
}

const pressCtrlC = ({ child }: Service) => child.kill('SIGUSR1')

test('Ctrl+C lets a request in progress finish with its database, and only says that it stops', async () => {
  const service = await startOnTerminal({ METRICS_TOKEN: TOKEN })
  await untilSandboxIsProven(service.url)
  const { begun, answered, finish } = beginRegistration(service.url)
  await begun
  // Once a later request is answered, this one has arrived.
  await askStatus(`${service.url}/healthz`)
  pressCtrlC(service)
  await service.said(/ stopping\r\n/)
  finish()
  assert.equal(await answered, 201)
  const { code, stdout } = await service.ended
  assert.equal(code, 0, stdout)
  const afterwards = stdout.slice(stdout.indexOf('API reference')).split('\r\n').slice(2)
  const sentences = [
    /^(\^C)?\d\d:\d\d:\d\d stopping$/,
    /^\S+ POST \/api\/auth\/register answered 201 in .* ms /,
    /^\S+ stopped$/,
    /^$/,
  ]
  assert.equal(afterwards.length, sentences.length, stdout)
  for (const [index, sentence] of sentences.entries()) assert.match(afterwards[index]!, sentence)
  assert.doesNotMatch(stdout, /^\{/m, 'a terminal gets no JSON')
  assert.deepEqual(findProcesses(service.folder), [])
})

test('a second Ctrl+C ends it at once', async () => {
  const service = await startOnTerminal({ DRAIN_SECONDS: '120' })
  const { begun, answered } = beginRegistration(service.url)
  const broken = assert.rejects(answered)
  await begun
  await askStatus(`${service.url}/healthz`)
  pressCtrlC(service)
  await service.said(/ stopping\r\n/)
  const began = performance.now()
  // Two within half a second count as one, so it is pressed repeatedly.
  const pressing = setInterval(() => pressCtrlC(service), 200)
  const { code } = await service.ended.finally(() => clearInterval(pressing))
  assert.equal(code, 1)
  assert.ok(performance.now() - began < 20_000)
  await broken
})

test('a new password is not shown while it is typed', async () => {
  const folder = makeDataDir()
  folders.push(folder)
  const terminal = path.join(import.meta.dirname, 'terminal.py')
  const args = [terminal, process.execPath, MAIN, 'admin', 'reset-password', 'nobody@example.com']
  const command = startProgram('python3', args, { cwd: root, env: environment(folder) }, null)
  await command.said(/New password for nobody@example\.com: /)
  command.child.stdin!.write('Unseen-horse-1\r')
  const { code, stdout } = await command.ended
  assert.equal(code, 1, stdout)
  assert.match(stdout, /nobody@example\.com/)
  assert.doesNotMatch(stdout, /Unseen/)
})
