/**
 * The API's pool with processes that lie, flood, hang, stop or die: each causes an error for its own caller, and
 * nothing else.
 */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { type CallPoolOptions, createCallPool } from '../../src/executors/call-pool.ts'
import { findTree, isAlive, waitUntilGone } from '../harness/processes.ts'

const entry = path.join(import.meta.dirname, 'hostile-executor.ts')
const complaints: string[] = []

function openPool(options: Partial<CallPoolOptions> = {}) {
  const pool = createCallPool({
    settings: () => ({ serves: 'calls', cell: { python: 'python3', sandbox: 'kernel', limits: {}, modules: [] } }),
    egress: () => ({ allow: [], self: [] }),
    memoryMb: 256,
    concurrency: 4,
    perOrganization: 2,
    warn: (complaint) => void complaints.push(complaint),
    deadlineMs: 1000,
    entry,
    ...options,
  })
  after(() => pool.close())
  /** Resolves with the answer's source name, or the kind of the failure. */
  const run = async (organization: string, code: string, signal?: AbortSignal): Promise<string> => {
    const result = await pool.run(organization, 'validate', { code, source_name: null }, { ...(signal && { signal }) })
    return result.ok ? (result.answer.extracted_source_name ?? '') : result.kind
  }
  return { pool, run }
}

const { pool, run } = openPool()
const PID = "say('begun'); answer({ extracted_source_name: String(pid) })"
const livesNot = (pid: string) => waitUntilGone(() => findTree(Number(pid)).filter(isAlive), 5000)

test('a process is reused by its own organization, and by no other', async () => {
  const first = await run('a', PID)
  assert.equal(await run('a', PID), first)
  const other = await run('b', PID)
  assert.notEqual(other, first)
  assert.deepEqual([await run('a', PID), await run('b', PID)], [first, other])
})

test('an expected failure keeps the process, everything else ends it', async () => {
  const failing = (reusable: boolean) =>
    `say('begun'); say('failure', { kind: 'auth', message: 'no', reusable: ${reusable} })`
  const first = await run('c', PID)
  assert.equal(await run('c', failing(true)), 'auth')
  assert.equal(await run('c', PID), first)
  assert.equal(await run('c', failing(false)), 'auth')
  assert.notEqual(await run('c', PID), first)
  assert.deepEqual(await livesNot(first), [])
})

test('an invalid answer is refused, and its process killed', async () => {
  const long = "'x'.repeat(100_000)"
  for (const lie of [
    'answer({ valid: 1 })',
    'answer({ more: true })',
    `answer({ extracted_source_name: ${long} })`,
    'answer({ extracted_streams: Array(1001).fill("a") })',
    'answer({ extracted_streams: "a" })',
    'answer({ errors: Array(1001).fill({ line: 1, column: 0, message: "", severity: "error" }) })',
    'answer({ errors: [{ line: -1, column: 0, message: "", severity: "error" }] })',
    'answer({ errors: [{ line: 1.5, column: 0, message: "", severity: "error" }] })',
    `answer({ errors: [{ line: 1, column: 0, message: ${long}, severity: "error" }] })`,
    'answer({ errors: [{ line: 1, column: 0, message: "", severity: "fatal" }] })',
    'answer({ extracted_schema: null })',
    'answer({ extracted_schema: [] })',
    "say('answer', { answer: null, reusable: true })",
    "say('answer', { reusable: true })",
    "say('failure', { kind: 'toString', message: 'x', reusable: true })",
    `say('failure', { kind: 'auth', message: ${long}, reusable: true })`,
    "say('failure', { kind: 'auth', message: {}, reusable: true })",
    "say('success', {})",
    "say('begun')",
    "say('constructor')",
    'raw(Buffer.from([4, 0, 0, 0, 0, 0, 0, 0, 110, 117, 108, 108]))',
    'raw(Buffer.from([2, 0, 0, 0, 0, 0, 0, 0, 123, 123]))',
    'raw(Buffer.alloc(8))',
  ])
    assert.equal(await run('liar', `say('begun'); ${lie}`), 'internal', lie)
  assert.equal(await run('liar', 'answer()'), 'internal', 'an answer before it has begun')
  assert.match(await run('liar', PID), /^\d+$/)
})

test('a question about a token is answered only if the call has one, in a valid form and a limited number of times', async () => {
  const began: string[] = []
  const tokens = {
    begin: async (held: string) => {
      began.push(held)
      return 'stored'
    },
    end: async (_used: string, rotated: string | null) => rotated ?? '',
  }
  const begin = (held: string) => `say('begun'); say('refresh_begin', { id: 1, held: ${held} })`
  const ask = (code: string) => pool.run('asking', 'validate', { code, source_name: null }, { tokens })
  assert.equal(await run('asking', begin("'a'")), 'internal', 'nothing is stored for this call')
  for (const lie of [
    begin('5'),
    begin("'x'.repeat(1 << 20)"),
    begin("'\\0'"),
    "say('begun'); say('refresh_end', { id: 1, used: 'a' })",
  ]) {
    const result = await ask(lie)
    assert.ok(!result.ok && result.kind === 'internal', lie)
  }
  assert.deepEqual(began, [])
  const flood = await ask(`${begin("'a'")}; for (let n = 0; n < 1000; n++) say('refresh_begin', { id: n, held: 'a' })`)
  assert.ok(!flood.ok && flood.kind === 'internal')
  assert.ok(began.length <= 100)
  const honest = await ask(`${begin("'a'")}; setTimeout(answer, 50)`)
  assert.ok(honest.ok)
})

test("a flood is cut off before it fills the service's memory", async () => {
  const before = process.memoryUsage().rss
  const endless = 'flood(Buffer.alloc(1 << 20, 120))'
  for (const flood of [
    // A head, and a body, of four gigabytes.
    `say('begun'); raw(Buffer.from([255, 255, 255, 255, 0, 0, 0, 0])); ${endless}`,
    `say('begun'); raw(Buffer.from([2, 0, 0, 0, 255, 255, 255, 255])); ${endless}`,
    `say('begun'); ${endless}`,
    "say('begun'); flood(frame({ type: 'begun' }))",
    "flood(frame({ type: 'ready' }))",
    "say('begun'); process.stderr.on('error', () => {}); const go = () => { process.stderr.write('x'.repeat(1 << 20)); setImmediate(go) }; go()",
  ])
    assert.match(await run('flood', flood), /^(internal|timeout)$/, flood)
  const grown = (process.memoryUsage().rss - before) / 1024 / 1024
  assert.ok(grown < 64, `${grown} MB more`)
  assert.match(await run('flood', PID), /^\d+$/)
})

test('a process that hangs, or is stopped, is killed at the deadline with everything it started', async () => {
  for (const hang of ['for (;;);', "process.kill(pid, 'SIGSTOP')", '', "process.on('SIGTERM', () => {})"]) {
    const first = await run('slow', PID)
    const tree = findTree(Number(first))
    const started = performance.now()
    assert.equal(await run('slow', `say('begun'); setImmediate(() => { ${hang} })`), 'timeout', hang)
    assert.ok(performance.now() - started < 5000)
    assert.deepEqual(await waitUntilGone(() => tree.filter(isAlive), 5000), [])
  }
})

test('a process that was stopped while idle delays the next call a moment, but causes no error', async () => {
  const patient = openPool({ beginMs: 300 })
  const first = await patient.run('a', PID)
  process.kill(Number(first), 'SIGSTOP')
  const second = await patient.run('a', PID)
  assert.match(second, /^\d+$/)
  assert.notEqual(second, first)
  assert.deepEqual(await livesNot(first), [])
})

test('a process that dies causes an error that does not reveal its last output', async () => {
  for (const death of [
    'process.exit(0)',
    "process.kill(pid, 'SIGKILL')",
    "throw new Error('the secret')",
    'process.abort()',
  ]) {
    const code = `say('begun'); setImmediate(() => { ${death} })`
    const result = await pool.run('dying', 'validate', { code, source_name: null })
    assert.ok(!result.ok && result.kind === 'internal', death)
    assert.doesNotMatch(result.message, /secret/)
  }
  assert.doesNotMatch(complaints.join(), /secret/)
  const first = await run('dying', PID)
  process.kill(Number(first), 'SIGKILL')
  assert.match(await run('dying', PID), /^\d+$/, 'killed while it waited')
})

test('a call that never starts is tried once more in another process, then it is an error', async () => {
  const { run } = openPool({ beginMs: 200 })
  await run('a', PID)
  assert.equal(await run('a', 'process.exit(1)'), 'internal')
  assert.match(await run('a', PID), /^\d+$/)
})

test('a process that exceeds its memory is killed', async () => {
  const { run } = openPool({ deadlineMs: 60_000 })
  const growing = "say('begun'); const held = []; setInterval(() => held.push(Buffer.alloc(16 << 20, 1)), 1)"
  assert.equal(await run('large', growing), 'memory')
  const heap = "say('begun'); const held = []; for (;;) held.push(new Array(10_000).fill(held.length))"
  assert.equal(await run('large', heap), 'memory')
})

for (const [when, more] of [
  ['later', 'setTimeout(() => answer(), 20)'],
  ['together with its answer', 'answer()'],
])
  test(`a process that sends an unsolicited message ${when} is not reused`, async () => {
    complaints.length = 0
    const first = await run('eager', `${PID}; ${more}`)
    assert.deepEqual(await livesNot(first), [])
    assert.ok(complaints.includes('an executor sent an unsolicited message'))
    assert.notEqual(await run('eager', PID), first)
  })

test('a caller that disconnects ends the call, whether it is waiting or running', async () => {
  const { pool, run } = openPool({ concurrency: 2, perOrganization: 1 })
  const first = await run('a', PID)
  const gone = new AbortController()
  const running = run('a', "say('begun')", gone.signal)
  const waitingGone = new AbortController()
  const waiting = run('a', PID, waitingGone.signal)
  waitingGone.abort()
  await assert.rejects(waiting, { code: 'invalid_input' })
  gone.abort()
  await assert.rejects(running, { code: 'invalid_input' })
  assert.deepEqual(await livesNot(first), [])
  await assert.rejects(run('a', PID, gone.signal), { code: 'invalid_input' })
  assert.match(await run('a', PID), /^\d+$/)
  await pool.close()
  await assert.rejects(run('a', PID), { code: 'unavailable' })
})

test('a hundred calls of one organization do not delay another', async () => {
  const busy = openPool({ concurrency: 4, perOrganization: 2 })
  await busy.run('other', PID)
  const slow = "say('begun'); setTimeout(answer, 100)"
  let done = 0
  const flood = Array.from({ length: 100 }, () =>
    busy.run('crowd', slow).then(
      () => {
        done++
        return 200
      },
      (error) => error.status,
    ),
  )
  await busy.run('other', PID)
  assert.ok(done < 20, `${done} of the crowd were served first`)
  const answers = await Promise.all(flood)
  assert.equal(answers.filter((status) => status === 200).length, 62, 'two at work and sixty in the line')
  assert.ok(answers.every((status) => status === 200 || status === 429))
})

test('there is never more than one process beyond the number of allowed calls', async () => {
  const small = openPool({ concurrency: 2, perOrganization: 2 })
  const pids = new Set<string>()
  for (let round = 0; round < 2; round++)
    for (const organization of ['a', 'b', 'c', 'd']) pids.add(await small.run(organization, PID))
  const living = () => [...pids].flatMap((pid) => findTree(Number(pid)).filter(isAlive))
  await waitUntilGone(() => living().slice(3), 5000)
  assert.ok(living().length <= 3, `${living().length} of ${pids.size}`)
})

test('without space for temporary files a call fails, and the next one works again', async () => {
  const folder = process.env.TMPDIR
  const { run, pool } = openPool()
  try {
    // Like a full disk, a file in place of the folder prevents creating a folder in it.
    process.env.TMPDIR = entry
    assert.equal(await run('a', PID), 'internal')
  } finally {
    if (folder === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = folder
  }
  assert.match(await run('a', PID), /^\d+$/)
  await pool.close()
})

test('the temporary files of a process are removed with it', async () => {
  const { run, pool } = openPool()
  const made = `require = process.getBuiltinModule; const file = require('path').join(require('os').tmpdir(), 'left'); require('fs').writeFileSync(file, ''); say('begun'); answer({ extracted_source_name: file })`
  const file = await run('a', made)
  assert.equal(existsSync(file), true)
  await pool.close()
  assert.equal(existsSync(path.dirname(file)), false)
  assert.equal(readdirSync(tmpdir()).includes(path.basename(path.dirname(file))), false)
})

test('closing kills what is in progress, without a warning', async () => {
  const heard: string[] = []
  const { run, pool } = openPool({ warn: (complaint) => void heard.push(complaint) })
  const begun = path.join(tmpdir(), `begun-${process.pid}`)
  const running = run('a', `say('begun'); process.getBuiltinModule('fs').writeFileSync(${JSON.stringify(begun)}, '')`)
  while (!existsSync(begun)) await delay(5)
  rmSync(begun)
  await pool.close()
  assert.equal(await running, 'internal')
  assert.deepEqual(heard, [])
})
