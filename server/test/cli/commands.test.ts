import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { environment, makeDataDir, root, runSluice } from '../harness/service.ts'

const run = promisify(execFile)
const folder = makeDataDir()
after(() => rmSync(folder, { recursive: true, force: true }))
const sluice = (args: string[], env: Record<string, string> = {}) => runSluice(args, environment(folder, env)).ended

test('--help lists each command with one line', async () => {
  const { code, stdout } = await sluice(['--help'])
  assert.equal(code, 0)
  for (const command of ['start', 'api', 'worker', 'scheduler', 'config', 'migrate', 'admin reset-password EMAIL'])
    assert.match(stdout, new RegExp(`^  ${command} +\\S`, 'm'))
})

test('the launcher hands over to Node 24 when the node on the path is an old one', async () => {
  const fakes = mkdtempSync(path.join(tmpdir(), 'sluice-old-node-'))
  after(() => rmSync(fakes, { recursive: true, force: true }))
  // An old node: it reports version 12 and knows nothing but the syntax of its time.
  const pretend = path.join(fakes, 'pretend.cjs')
  writeFileSync(pretend, `Object.defineProperty(process.versions, 'node', { value: '12.22.0' })\n`)
  const node = path.join(fakes, 'node')
  writeFileSync(node, `#!/bin/sh\nexec "${process.execPath}" --require "${pretend}" "$@"\n`)
  chmodSync(node, 0o755)
  const bin = path.join(root, 'server/bin/sluice.cjs')
  const { stdout } = await run(bin, ['--help'], { env: { PATH: `${fakes}:/usr/bin:/bin` } })
  assert.match(stdout, /^Usage: sluice <command>$/m)
  const version = await run(bin, ['--version'], { env: { PATH: `${fakes}:/usr/bin:/bin` } })
  assert.match(version.stdout, /^\d+\.\d+\.\d+\n$/)
})

test('an unknown command says which there are', async () => {
  const { code, stderr } = await sluice(['strat'])
  assert.equal(code, 2)
  assert.match(stderr, /^There is no command 'strat'\. It has start, api, /)
  assert.equal((await sluice(['constructor'])).code, 2)
})

test('config prints every setting, secrets masked', async () => {
  const { code, stdout } = await sluice(['config'], { METRICS_TOKEN: 'a-secret-token' })
  assert.equal(code, 0)
  assert.match(stdout, /^PORT +0$/m)
  assert.match(stdout, /^METRICS_TOKEN +\*{8}$/m)
  assert.match(stdout, /^SIGNUP +open {2}\(default\)$/m)
  assert.ok(!stdout.includes('a-secret-token'))
})

test('wrong settings are told at once, without a stack', async () => {
  const { code, stderr } = await sluice(['start'], { PORT: 'x', SIGNUP: 'y' })
  assert.equal(code, 1)
  assert.match(stderr, /^The configuration has 2 problems:\n {2}- PORT: .*\n {2}- SIGNUP: .*\n$/)
})

test('a database that can not be reached is told in one sentence without its password', async () => {
  const { code, stderr } = await sluice(['migrate'], {
    DATABASE_URL: 'postgres://user:hunter2@127.0.0.1:1/sluice',
    JWT_SECRET_KEY: 'x'.repeat(32),
    ENCRYPTION_KEY: 'x'.repeat(32),
  })
  assert.equal(code, 1)
  assert.match(stderr, /^The database of DATABASE_URL can not be used: .*ECONNREFUSED.*\. Check the address/)
  assert.equal(stderr.trim().split('\n').length, 1)
  assert.ok(!stderr.includes('hunter2'))
})

test('migrate brings an empty data folder to the newest schema and stops', async () => {
  const { code, stdout } = await sluice(['migrate'])
  assert.equal(code, 0)
  assert.match(stdout, /The database has the newest schema/)
})

test('a command that lacks its argument says how it is used', async () => {
  const { code, stderr } = await sluice(['admin', 'reset-password'])
  assert.equal(code, 1)
  assert.match(stderr, /^Usage: sluice admin reset-password EMAIL/)
})
