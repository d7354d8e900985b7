import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { signInErrors } from '../../src/identity/provider-errors.ts'

test('docs/identity-provider.md lists every error code as the code has it', async () => {
  const page = await readFile(new URL('../../../docs/identity-provider.md', import.meta.url), 'utf8')
  const rows = [...page.matchAll(/^\| `([a-z_]+)` \| (.+) \|$/gm)].map(([, code, about]) => [code, about])
  assert.deepEqual(Object.fromEntries(rows), signInErrors)
})
