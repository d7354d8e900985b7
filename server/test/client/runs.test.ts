/** Running, following, reading and cancelling, as a person or a script does it, with a real service and its worker. */
import assert from 'node:assert/strict'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, test } from 'node:test'
import { makeClient } from '../harness/client.ts'
import { ACCOUNT, makeDataDir, startService } from '../harness/service.ts'

const dataDir = makeDataDir()
const service = await startService(dataDir, { LOG_LEVEL: 'warn' })
after(async () => {
  service.child.kill('SIGTERM')
  await service.ended
  rmSync(dataDir, { recursive: true, force: true })
})

async function call(method: string, place: string, body?: unknown, token = '') {
  const answer = await fetch(`${service.url}${place}`, {
    method,
    headers: { 'content-type': 'application/json', ...(token && { authorization: `Bearer ${token}` }) },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  assert.ok(answer.ok, `${place}: ${answer.status}`)
  return (await answer.json()) as Record<string, string>
}
const { access_token: token } = await call('POST', '/api/auth/register', ACCOUNT)
const { key } = await call('POST', '/api/api-keys', { name: 'cli', expires_in_days: null }, token)

const client = makeClient({ SLUICE_URL: service.url, SLUICE_API_KEY: key! })

const make = async (name: string, config: object, more: object = {}) =>
  (
    await call(
      'POST',
      '/api/pipelines',
      {
        name,
        config: {
          source: { name: 'dummy', stream: 'creatures', config },
          destination: { name: 'file', config: {} },
          ...more,
        },
      },
      token,
    )
  ).id!
const creatures = await make('Creatures', { records: 1000 })
await make('Again', { records: 1000 })
await make('Broken', { records: 100, fail_after: 10 })
await make('Slow', { records: 100_000, delay_ms: 20 })
const twins = [await make('Twin', { records: 1 }), await make('Twin', { records: 1 })]

const json = async (...args: string[]) => JSON.parse((await client.run([...args, '--json'])).stdout)

test('a run that is followed on a pipe prints plain lines, and exits with 0', async () => {
  const { code, stdout, stderr } = await client.run(['run', 'creatures', '--follow'])
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^Creatures: success, 1,000 records, \d+ kB in .* \(run [\w-]{36}\)\n$/m)
  assert.doesNotMatch(stdout + stderr, /[\x1b\r█]/)
})

test('the output of the last run is loaded again, also into another destination', async () => {
  await client.run(['run', 'again', '--follow'])
  const [first] = await json('runs', 'again')
  const again = await client.run(['replay', 'again', '--follow'])
  assert.equal(again.code, 0, again.stderr)
  assert.match(again.stdout, new RegExp(`^Replay of ${first.id}: success, 1,000 records`, 'm'))
  const [second] = await json('runs', 'again')
  const file = path.join(dataDir, 'destination.json')
  writeFileSync(file, JSON.stringify({ name: 'file', config: { format: 'csv' } }))
  const other = await client.run(['replay', 'again', '--destination', file, '--follow'])
  assert.equal(other.code, 0, other.stderr)

  // It is told of each what it replays, and the name of the pipeline still means what that did last.
  const [third] = await json('runs', 'again')
  const short = (run: { id: string }) => run.id.slice(0, 8)
  const { stdout: list } = await client.run(['runs', 'again'])
  assert.match(list, new RegExp(`^${third.id} .* replay of ${short(second)} elsewhere$`, 'm'))
  assert.match(list, new RegExp(`^${second.id} .* replay of ${short(first)}$`, 'm'))
  assert.match(
    (await client.run(['show', third.id])).stdout,
    new RegExp(`^triggered by +replay\nreplays +run ${second.id}, into another destination$`, 'm'),
  )
  assert.match((await client.run(['show', second.id])).stdout, new RegExp(`^replays +run ${first.id}$`, 'm'))
  const logOf = async (run: string) => (await client.run(['logs', run])).stdout
  assert.equal(await logOf('again'), await logOf(second.id))
  assert.match((await client.run(['output', 'again'])).stdout, /^\{"_record_id"/)
  assert.match((await client.run(['output', third.id])).stdout, /^_record_id,/)
})

test('a run that fails exits with 1, and its reason is on standard error', async () => {
  const { code, stdout, stderr } = await client.run(['run', 'Broken', '-f'])
  assert.equal(code, 1)
  assert.match(stdout, /^Broken: failed, /m)
  assert.match(stderr, /^source: The dummy source failed after 10 records.*\nRead its log with: sluice logs /)
  const run = await client.run(['run', 'Broken', '-f', '--json'])
  assert.deepEqual([run.code, JSON.parse(run.stdout).status], [1, 'failed'])
})

test('lists and details name what there is, by name as well as by id', async () => {
  const { stdout } = await client.run(['pipelines'])
  assert.match(stdout, /^NAME +LAST RUN/)
  assert.match(stdout, new RegExp(`^Creatures +success +.*dummy\\.creatures +file .*${creatures}$`, 'm'))
  assert.deepEqual(
    (await json('pipelines', '--status', 'failed')).map(({ name }: { name: string }) => name),
    ['Broken'],
  )
  const [last] = await json('runs', 'Creatures', '--limit', '1')
  assert.equal(last.status, 'success')
  assert.equal((await json('show', last.id)).id, last.id)
  assert.equal((await json('show', creatures)).name, 'Creatures')
  assert.match((await client.run(['show', 'Creatures'])).stdout, /^pipeline +Creatures\n/)
  assert.match((await client.run(['runs', '--status', 'failed'])).stdout, /Broken +failed .* source: The dummy source/)
})

test('an ambiguous or unknown name is refused, and says which there are', async () => {
  const ambiguous = await client.run(['run', 'Twin'])
  assert.equal(ambiguous.code, 2)
  assert.match(ambiguous.stderr, /^There are 2 pipelines 'Twin'; use the id of one:\n/)
  for (const id of twins) assert.ok(ambiguous.stderr.includes(`  ${id}  Twin (dummy → file)`))
  const part = await client.run(['run', 'Creature'])
  assert.match(part.stderr, /^There is no pipeline 'Creature'\. Did you mean 'Creatures'\? See sluice pipelines\.$/m)
  const typo = await client.run(['logs', 'Craetures'])
  assert.match(typo.stderr, /^There is no pipeline 'Craetures'\. Did you mean 'Creatures'\?/)
  const nobody = await client.run(['show', '00000000-0000-4000-8000-000000000000'])
  assert.match(nobody.stderr, /^There is no run and no pipeline with the id 0000/)
  assert.match((await client.run(['logs', twins[0]!])).stderr, /^The pipeline 'Twin' has no run yet/)
})

test('a log is printed whole, filtered, as JSON, and followed to the end of its run', async () => {
  const whole = await client.run(['logs', 'Creatures'])
  assert.match(whole.stdout, /^\S+Z INFO {2}Read 1,000 records/m)
  const followed = await client.run(['logs', 'Creatures', '-f'])
  assert.deepEqual([followed.code, followed.stdout], [0, whole.stdout])
  const filtered = await client.run(['logs', 'Creatures', '--grep', 'READ 1,000'])
  assert.equal(filtered.stdout.split('\n').length, 2)
  const same = await client.run(['logs', 'Creatures', '-f', '--grep', 'READ 1,000'])
  assert.equal(same.stdout, filtered.stdout)
  const errors = await client.run(['logs', 'Broken', '--level', 'warn', '--json'])
  const levels = errors.stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line).level)
  assert.deepEqual([...new Set(levels)], ['error'])
  assert.match(
    (await client.run(['logs', 'Broken', '--level', 'loud'])).stderr,
    /^--level must be one of debug, info, warn, error/,
  )
})

test('an output is written to a file as a whole, or queried', async () => {
  const file = path.join(client.folder, 'creatures.jsonl')
  writeFileSync(file, 'an older one')
  const saved = await client.run(['output', 'Creatures', '-o', file])
  assert.equal(saved.code, 0, saved.stderr)
  assert.equal(readFileSync(file, 'utf8').split('\n').length, 1001)
  assert.equal((await client.run(['output', 'Creatures'])).stdout, readFileSync(file, 'utf8'))
  const sql = 'SELECT count(*) AS n, 9007199254740993 AS big FROM output'
  const rows = await client.run(['output', 'Creatures', '--sql', sql])
  assert.deepEqual([rows.code, rows.stdout], [0, '   n               big\n1000  9007199254740993\n'], rows.stderr)
  assert.match(
    (await client.run(['output', 'Creatures', '--sql', sql, '--json'])).stdout,
    /"rows":\[\[1000,9007199254740993\]\]/,
  )
  assert.equal(
    (await client.run(['output', 'Creatures', '--sql', sql, '-o', '-'])).stdout,
    'n,big\n1000,9007199254740993\n',
  )
  const wrong = await client.run(['output', 'Creatures', '--sql', 'SELEC'])
  assert.deepEqual([wrong.code, wrong.stdout], [1, ''])
  assert.match(wrong.stderr, /syntax error.* \(status 400, request [\w-]+\)$/m)
  const none = await client.run(['output', 'Broken', '-o', 'none'])
  assert.equal(none.code, 1)
  assert.match(none.stderr, /\(status 404, request [\w-]+\)$/m)
})

test('a run is started without following, and cancelled by the name of its pipeline', async () => {
  const started = await client.run(['run', 'Slow'])
  const id = /^Slow: run (\S+) was started\. Follow it with: sluice logs -f \1$/m.exec(started.stdout)?.[1]
  assert.ok(id, started.stdout)
  const second = await json('run', 'Slow')
  const several = await client.run(['cancel', 'Slow'])
  assert.equal(several.code, 2)
  assert.match(several.stderr, /^'Slow' has 2 unfinished runs; name one:\n/)
  assert.equal((await client.run(['cancel', second.id])).code, 0)
  assert.match((await client.run(['cancel', 'Slow'])).stdout, new RegExp(`^Run ${id} was cancelled\\.`))
  assert.match(
    (await client.run(['cancel', 'Slow'])).stderr,
    /^No run of 'Slow' is waiting or running, so there is nothing to cancel/,
  )
  const over = await client.run(['cancel', id])
  assert.equal(over.code, 1)
  assert.match(over.stderr, /^The run has already ended.* \(status 409, request /)
})

const statusOf = async (id: string) => (await json('show', id)).status
const idOf = (stdout: string) =>
  /\(run ([\w-]{36})\)|cancel ([\w-]{36})|run ([\w-]{36}) was/.exec(stdout)?.slice(1).find(Boolean)

test('Ctrl+C on a terminal asks once: yes cancels the run, and the exit code is 130', async () => {
  const command = client.onTerminal(['run', 'Slow', '--follow'])
  await command.said(/█.*Slow: .*running.* records, .*\/s, \d+/)
  command.child.kill('SIGUSR1')
  await command.said(/Cancel the run of Slow\?.*\[y\/N\]/)
  command.child.stdin!.write('y\r')
  const { code, stdout } = await command.ended
  assert.equal(code, 130, stdout)
  assert.equal(await statusOf(idOf(stdout)!), 'cancelled')
})

test('answered with no, or with Ctrl+C again, the run goes on', async () => {
  for (const answer of ['n\r', '\x03']) {
    const command = client.onTerminal(['run', 'Slow', '--follow'])
    await command.said(/█.*Slow: /)
    command.child.kill('SIGUSR1')
    await command.said(/\[y\/N\]/)
    command.child.stdin!.write(answer)
    const { code, stdout } = await command.ended
    assert.equal(code, 130, stdout)
    const id = /The run goes on\. Cancel it with: sluice cancel (\S{36})/.exec(stdout)?.[1]
    assert.ok(id, stdout)
    assert.ok(['pending', 'running'].includes(await statusOf(id)))
    assert.equal((await client.run(['cancel', id])).code, 0)
  }
})

test('a range of the cursor is read again', async () => {
  const more = {
    destination: { name: 'sqlite', config: { table: 'creatures' } },
    sync: { mode: 'incremental', write: 'upsert', primary_key: ['id'] },
  }
  await make('Kept', { records: 500 }, more)
  const { code, stdout, stderr } = await client.run(['backfill', 'Kept', '--from', '100', '--to', '200', '--follow'])
  assert.equal(code, 0, stderr)
  assert.match(stdout, /^Kept: success, 100 records/m)
  const missing = await client.run(['backfill', 'Kept', '--from', '100'])
  assert.equal(missing.code, 2)
  assert.match(missing.stderr, /^sluice backfill needs --from and --to/)
})
