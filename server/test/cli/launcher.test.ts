/** The launcher that `npx sluice` runs, which is a process between the caller and the service. */
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { cloneDatabase } from '../harness/database.ts'
import { findTree, isAlive, startProgram, waitUntilGone } from '../harness/processes.ts'
import { databaseSettings, environment, makeDataDir, root } from '../harness/service.ts'

const BIN = path.join(root, 'server/bin/sluice.cjs')
const folder = makeDataDir()
const fakes = mkdtempSync(path.join(tmpdir(), 'sluice-no-setpriv-'))
writeFileSync(path.join(fakes, 'setpriv'), '#!/bin/sh\nexit 1\n', { mode: 0o755 })
after(() => {
  for (const each of [folder, fakes]) rmSync(each, { recursive: true, force: true })
})

const trees: string[] = []
after(() => {
  // Only left if a test failed.
  for (const left of trees.filter(isAlive)) process.kill(Number(left.split(' ')[0]), 'SIGKILL')
})

async function startWorker(env: Record<string, string> = {}, command = [process.execPath, BIN]) {
  const { connection, drop } = await cloneDatabase(1)
  const settings = { ...databaseSettings(connection), ...env }
  const [program, ...args] = [...command, 'worker']
  const launcher = startProgram(program!, args, { cwd: root, env: environment(folder, settings) })
  await launcher.said(/Sluice worker is running/)
  const tree = findTree(launcher.child.pid!)
  trees.push(...tree)
  return { launcher, drop, tree }
}

for (const [how, env] of [
  ['by the kernel', {}],
  ['without setpriv, by the channel between them', { PATH: `${fakes}:${process.env.PATH}` }],
] as const)
  test(`a launcher that is killed takes the service with it, ${how}`, async () => {
    const { launcher, tree, drop } = await startWorker(env)
    assert.ok(tree.length >= 3, 'launcher, worker and executor')
    launcher.child.kill('SIGKILL')
    assert.deepEqual(await waitUntilGone(() => tree.filter(isAlive), 10_000), [])
    await drop()
  })

test('a launcher forwards signals, and exits like the service', async () => {
  const { launcher, tree, drop } = await startWorker()
  launcher.child.kill('SIGTERM')
  const { code, stdout } = await launcher.ended
  assert.equal(code, 0)
  assert.match(stdout, /"stopped"/)
  assert.deepEqual(tree.filter(isAlive), [])
  await drop()
})

test('npx that is asked to stop stops the service in order, although its shell forwards nothing', async () => {
  const { launcher, tree, drop } = await startWorker({}, ['npx', '--offline', 'sluice'])
  assert.ok(tree.length >= 4, 'npm, perhaps a shell, launcher, worker and executor')
  launcher.child.kill('SIGTERM')
  assert.deepEqual(await waitUntilGone(() => tree.filter(isAlive), 20_000), [])
  assert.match((await launcher.ended).stdout, /"stopped"/)
  await drop()
})
