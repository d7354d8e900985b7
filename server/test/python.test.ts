/** The Python tests, as one test of this run: its diagnostics show how many ran. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'

const root = path.resolve(import.meta.dirname, '../..')
const folder = path.join(root, 'python/tests')

const hasTests = readdirSync(folder, { recursive: true }).some((file) => /(^|\/)test[^/]*\.py$/.test(String(file)))

test('the Python tests pass', { timeout: 300_000 }, async (context) => {
  assert.ok(hasTests, `there are no tests in ${folder}`)
  const child = spawn(process.env.PYTHON ?? 'python3', ['-m', 'unittest', 'discover', '-s', 'python/tests'], {
    cwd: root,
    env: { ...process.env, PYTHONPATH: path.join(root, 'python'), PYTHONDONTWRITEBYTECODE: '1' },
  })
  let said = ''
  child.stdout.on('data', (chunk: Buffer) => {
    said += chunk
  })
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  assert.equal(code, 0, said)
  const ran = /^Ran (\d+) tests? in .*$/m.exec(said)
  assert.ok(Number(ran?.[1]) > 0, said)
  for (const [line] of said.matchAll(/^note: .*$/gm)) context.diagnostic(line)
  context.diagnostic(`Python: ${ran![0]}${/skipped=\d+/.exec(said) ? `, ${/skipped=\d+/.exec(said)![0]}` : ''}`)
})
