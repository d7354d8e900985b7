/** What goes wrong is one sentence that says what to do, never a stack. */
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, test } from 'node:test'
import { makeClient, startOther } from '../harness/client.ts'
import { startProgram } from '../harness/processes.ts'

const RUN = '00000000-0000-4000-8000-000000000001'
const other = await startOther(({ url = '' }, response) => {
  if (url.startsWith('/api/changes/export?domain'))
    return response.writeHead(404, { 'x-request-id': 'r1' }).end('{"detail":"Domain not found"}')
  if (url.startsWith('/api/changes/export')) return response.end('{"objects":{},"omitted":[]}')
  if (url.endsWith('/query'))
    return response.writeHead(400, { 'x-request-id': 'r2' }).end('{"detail":"No such column\\nselect x\\n       ^"}')
  if (url.endsWith('/output')) return response.end('{}\n')
  if (url.includes('/runs?')) return response.end('[]')
  if (url.includes('/runs/')) return response.end(`{"id":"${RUN}","triggered_by":"manual"}`)
  return response.end('[{"id":"1","name":"Orders"}]')
})
after(() => other.close())
const client = makeClient({ SLUICE_URL: other.url, SLUICE_API_KEY: 'k' })
writeFileSync(path.join(client.folder, 'file.txt'), 'x')
mkdirSync(path.join(client.folder, 'folder'))
mkdirSync(path.join(client.folder, 'code/pipelines'), { recursive: true })
writeFileSync(path.join(client.folder, 'code/pipelines/x.yaml'), 'name: x\n')

test('what goes wrong is one sentence that says what to do', async () => {
  const cases: [args: string[], code: number, stderr: string][] = [
    [['export', 'file.txt'], 1, 'file.txt cannot be made: it is a file; name a folder.'],
    [
      ['export', '--domain', 'Nope', 'x'],
      1,
      'Domain not found (status 404, request r1). Check the name or the id, and that your key may see it.',
    ],
    [['source', 'push', 'none.py'], 2, 'none.py cannot be read: there is no such file or folder; check the path.'],
    [['source', 'preview', 'folder'], 2, 'folder cannot be read: it is a folder; name a file.'],
    [['replay', RUN, '--destination', 'file.txt'], 1, 'file.txt is not valid JSON; correct it: '],
    [['output', RUN, '-o', 'folder'], 2, 'folder cannot be written: it is a folder; name a file.'],
    [['output', RUN, '-o', 'none/x'], 2, 'none/x cannot be written: there is no such file or folder; check the path.'],
    [['output', RUN, '--sql', 'select x'], 1, 'No such column\nselect x\n       ^\n(status 400, request r2)'],
    [
      ['cancel', 'Orders'],
      2,
      "No run of 'Orders' is waiting or running, so there is nothing to cancel; see sluice runs.",
    ],
    [['logs', 'Orders'], 2, "The pipeline 'Orders' has no run yet; start one with sluice run."],
    [['logs', RUN, '--level', 'loud'], 2, '--level must be one of debug, info, warn, error, not loud.'],
    [['logout'], 2, 'You are not signed in, so there is no key to forget; sluice login signs you in.'],
    [['logout', '--profile', 'test'], 2, "There is no profile 'test', so there is no key to forget; none is saved."],
  ]
  for (const [args, code, expected] of cases) {
    const answer = await client.run(args)
    assert.deepEqual([answer.code, answer.stderr.startsWith(expected)], [code, true], `${args}\n${answer.stderr}`)
    assert.doesNotMatch(answer.stderr, /^ +at |E[A-Z]{4,}/m)
  }
  const key = await client.run(['runs'], { SLUICE_API_KEY: 'two words' })
  assert.equal(key.stderr, 'SLUICE_API_KEY has characters that no key has; set it to the key alone.\n')
})

test('an --env-file is ours and not that of Node, which would look for it first', async () => {
  const launcher = path.resolve(import.meta.dirname, '../../bin/sluice')
  const env = { PATH: process.env.PATH ?? '', HOME: client.folder, SLUICE_URL: other.url, SLUICE_API_KEY: 'k' }
  for (const command of [[launcher], ['node', '--', `${launcher}.cjs`]]) {
    const [program, ...first] = command as [string, ...string[]]
    const args = [...first, 'plan', 'code', '--env-file', 'none.env']
    const { code, stderr } = await startProgram(program, args, { cwd: client.folder, env }).ended
    assert.deepEqual([code, stderr], [1, 'none.env cannot be read: there is no such file; check --env-file.\n'])
  }
})
