import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { lookup } from 'node:dns/promises'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { requireLocalAddress, requireLocalName } from './local-only.ts'

const run = promisify(execFile)
const PRELOAD = new URL('leak-check.ts', import.meta.url).href

test('a test that looks up a name outside this machine fails before anything is sent', async () => {
  assert.throws(() => lookup('api.example'), /a test looks up api\.example/)
  for (const name of ['localhost', 'Localhost.', 'a.localhost', '127.0.0.1', '::1']) requireLocalName(name)
})

test('a test that connects to an address outside this machine fails before anything is sent', async () => {
  for (const address of ['127.0.0.1', '127.0.0.2', '::1', '::', '0.0.0.0']) requireLocalAddress(address)
  for (const address of ['192.0.2.1', '2001:db8::1', 'fe80::1%lo']) {
    assert.throws(() => requireLocalAddress(address), /tests use only addresses of this machine/)
    const program = `import('node:net').then(({ connect }) => connect(9, '${address}'))`
    const failing = run(process.execPath, ['--import', PRELOAD, '-e', program])
    await assert.rejects(failing, { code: 1, stderr: /a test connects to/ }, address)
  }
})
