import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createRedact } from '../../src/connectors/settings/redact.ts'
import { type Queryable, sql } from '../../src/database/database.ts'
import { createRunLogWriter } from '../../src/runs/log.ts'
import { packLogs } from '../../src/runs/log-packing.ts'
import { searchLog } from '../../src/runs/log-search.ts'
import type { Actor } from '../../src/tenancy/actor.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
const { call, person, services } = engine
const { db, blobs } = services
const fail = (error: Error) => {
  throw error
}

test('a long log keeps its beginning and end, and says what is missing', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  const log = createRunLogWriter(db, { id: run, attempt: 0 }, { redact: (text) => text, maxBytes: 1e6 })
  for (let line = 1; line <= 20_000; line++) log.write('info', `line ${line} ${'x'.repeat(100)}`)
  await log.flush()
  const { logs } = (await call('GET', `/api/pipelines/runs/${run}/logs`, { as: person })).body
  assert.ok(logs.length < 1_300_000, `${logs.length} bytes`)
  assert.match(logs, /line 1 x/)
  assert.match(logs, /line 20000 x/)
  assert.match(logs, /… [\d,]+ lines were omitted here/)
  const tail = (await call('GET', `/api/pipelines/runs/${run}/logs?tail=3`, { as: person })).body.logs
  assert.deepEqual(
    tail
      .trimEnd()
      .split('\n')
      .map((line: string) => / line (\d+) /.exec(line)![1]),
    ['19998', '19999', '20000'],
  )
})

test('the output of a run that has not ended is not there yet', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  const { status, body } = await call('GET', `/api/pipelines/runs/${run}/output`, { as: person })
  assert.deepEqual([status, body.detail], [404, 'This run has no output file yet: it is pending'])
})

test('the limit applies to all attempts of a run together', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  for (let attempt = 1; attempt <= 4; attempt++) {
    const log = createRunLogWriter(db, { id: run, attempt: 0 }, { redact: (text) => text, maxBytes: 1e6 })
    for (let line = 1; line <= 8000; line++) log.write('info', `attempt ${attempt} line ${line} ${'x'.repeat(100)}`)
    await log.flush()
  }
  const logs = await engine.logs(run)
  assert.ok(logs.length < 1_300_000, `${logs.length} bytes`)
  assert.match(logs, /attempt 1 line 1 x/)
  assert.match(logs, /attempt 4 line 8000 x/)
})

test('lines wait for a database that is away, and arrive in order', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  let away = true
  const unsteady: Queryable = {
    ...db,
    first: (statement) =>
      away ? Promise.reject(Object.assign(new Error('gone'), { code: 'ECONNREFUSED' })) : db.first(statement),
  }
  const log = createRunLogWriter(unsteady, { id: run, attempt: 0 }, { redact: (text) => text, maxBytes: 1e7 })
  log.write('info', 'before')
  await log.flush()
  log.write('info', 'meanwhile')
  await log.flush()
  const rest = (await log.rest())!
  assert.deepEqual([rest.line_count, /before\n.*meanwhile\n$/.test(rest.lines)], [2, true], rest.lines)
  for (let line = 1; line <= 200; line++) log.write('info', `${line} ${'x'.repeat(32_000)}`)
  await log.flush()
  away = false
  const written: string[] = []
  for (let chunk = await log.rest(); chunk !== null; chunk = await log.rest()) written.push(chunk.lines)
  const numbers = written
    .join('')
    .match(/(?<=INFO {2})\d+/g)!
    .map(Number)
  assert.deepEqual(
    numbers,
    Array.from({ length: numbers.length }, (_, index) => index + 1),
  )
  assert.match(written.at(-1)!, new RegExp(`WARN {2}… ${200 - numbers.length} lines were lost here`))
})

test('lines that the database refuses are counted, and the log says so', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  let refuses = true
  const refusing: Queryable = {
    ...db,
    first: (statement) =>
      refuses ? Promise.reject(Object.assign(new Error('refused'), { code: '22021' })) : db.first(statement),
  }
  const log = createRunLogWriter(refusing, { id: run, attempt: 0 }, { redact: (text) => text, maxBytes: 1e7 })
  for (const line of ['one', 'two', 'three']) log.write('info', line)
  await log.flush()
  log.write('info', 'four')
  await log.flush()
  refuses = false
  log.write('info', 'five')
  await log.flush()
  assert.match(await engine.logs(run), /^\S+ INFO {2}five\n\S+ WARN {2}… 4 lines were lost here/)
  refuses = true
  log.write('info', 'six')
  await log.flush()
  assert.match((await log.rest())!.lines, /… 1 line was lost here/, 'also where it was the last one')
  assert.equal(await log.rest(), null)
})

test('lines that wait for a lock for too long are written later', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  let busy = true
  const slow: Queryable = {
    ...db,
    first: (statement) =>
      busy ? Promise.reject(Object.assign(new Error('lock timeout'), { code: '55P03' })) : db.first(statement),
  }
  const log = createRunLogWriter(slow, { id: run, attempt: 0 }, { redact: (text) => text, maxBytes: 1e7 })
  log.write('info', 'patient')
  await log.flush()
  busy = false
  await log.flush()
  assert.match(await engine.logs(run), /^\S+ INFO {2}patient\n$/)
})

test('following ends with the session', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  const reader = await registerPerson(engine, 'Reader')
  await db.execute(
    sql`INSERT INTO memberships (organization_id, user_id, role) VALUES (${person.organization_id}, ${reader.id}, 'viewer')`,
  )
  const body = { organization_id: person.organization_id }
  const as = (await call('POST', '/api/auth/switch', { as: reader, body })).body
  const { follow } = services.runMessages
  const begun = new Promise<void>((resolve) => {
    services.runMessages.follow = (runId) => {
      resolve()
      return follow(runId)
    }
  })
  const following = call('GET', `/api/pipelines/runs/${run}/logs/stream`, { as })
  await begun
  services.runMessages.follow = follow
  assert.equal((await call('DELETE', `/api/users/${reader.id}`, { as: person })).status, 204)
  const { status, text } = await following
  assert.equal(status, 200)
  assert.doesNotMatch(text, /event: end/)
  await db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE id = ${run}`)
})

/** A run that ended an hour ago, and its log. */
async function finishRun(): Promise<{ run: string; before: string }> {
  const worker = await engine.work()
  const run = await engine.trigger(await engine.createPipeline({}))
  await engine.finished(run)
  await worker.stop(AbortSignal.abort())
  const before = await engine.logs(run)
  await db.execute(sql`UPDATE runs SET finished_at = now() - interval '1 hour' WHERE id = ${run}`)
  return { run, before }
}

test('the log of a finished run is packed into a blob and reads the same', async () => {
  const { run, before } = await finishRun()
  assert.ok((await packLogs(db, blobs, fail)) >= 1)
  assert.equal((await db.query(sql`SELECT 1 FROM run_log_chunks WHERE run_id = ${run}`)).length, 0)
  assert.equal(await engine.logs(run), before)
})

test('two schedulers that pack the same log keep it', async () => {
  const { run, before } = await finishRun()
  // The other one packs everything between the moment this one finds the run and the moment it reads its lines.
  const late: Queryable = {
    ...db,
    async query(statement) {
      const rows = await db.query<never>(statement)
      if (rows.length > 0) await packLogs(db, blobs, fail)
      return rows
    },
  }
  await packLogs(late, blobs, fail)
  assert.equal(await engine.logs(run), before)
})

test('a follower gets every line once, even after reconnecting', async () => {
  const worker = await engine.work()
  const run = await engine.trigger(await engine.createPipeline({ dummy: { records: 10, delay_ms: 30 } }))
  const first = await call('GET', `/api/pipelines/runs/${run}/logs/stream`, { as: person })
  assert.match(String(first.headers['content-type']), /^text\/event-stream/)
  const events = first.text.split('\n\n').filter((event) => event.includes('event: line'))
  const logs = (await engine.logs(run)).trimEnd().split('\n')
  assert.deepEqual(
    events.map((event) => /^data: (.*)$/m.exec(event)![1]),
    logs,
  )
  assert.match(first.text, /event: end\ndata: \{"status":"success"\}/)
  const rest = await call('GET', `/api/pipelines/runs/${run}/logs/stream`, {
    as: person,
    headers: { 'last-event-id': '2' },
  })
  assert.equal(rest.text.split('\n\n').filter((event) => event.includes('event: line')).length, logs.length - 2)
  await worker.stop(AbortSignal.abort())
})

test('known secrets are hidden in every encoding in which they travel', () => {
  const secret = 'p+ss/w=rd "quoted"\nsecond line of it'
  const redact = createRedact([secret, 'abc'])
  const basic = Buffer.from(`user:${secret}`).toString('base64')
  for (const text of [
    secret,
    encodeURIComponent(secret),
    JSON.stringify(secret),
    Buffer.from(secret).toString('base64'),
    Buffer.from(secret).toString('base64url'),
    Buffer.from(secret).toString('hex'),
    `Basic ${basic}`,
    'and here is the second line of it',
  ])
    assert.ok(redact(`before ${text} after`).includes('********'), text)
  assert.equal(redact('abc is too short to hide'), 'abc is too short to hide')
})

test('a log is searched as a whole, by text and level, and paged backwards; packed or not', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  const log = createRunLogWriter(db, { id: run, attempt: 0 }, { redact: (text) => text, maxBytes: 1e8 })
  const levels = ['debug', 'info', 'warn', 'error'] as const
  for (let line = 1; line <= 20_000; line++)
    log.write(levels[line % 4]!, `line ${line} ${line % 1000 === 0 ? 'Needle (50%)' : 'x'.repeat(80)}`)
  await log.flush()
  const read = async (search: string) =>
    (await call('GET', `/api/pipelines/runs/${run}/logs${search}`, { as: person })).body
  const check = async () => {
    const last = await read('?limit=2')
    assert.deepEqual([last.numbers, last.more], [[19_999, 20_000], true])
    assert.match(last.logs, /ERROR line 19999 .*\n.*DEBUG line 20000 Needle \(50%\)\n$/)
    assert.deepEqual((await read('?limit=2&before=19999')).numbers, [19_997, 19_998])
    const needles = await read('?q=needle%20(50%25)')
    assert.deepEqual([needles.numbers.length, needles.numbers[0], needles.more], [20, 1000, false])
    assert.deepEqual((await read('?q=NEEDLE&limit=1&before=1001')).numbers, [1000])
    assert.deepEqual((await read('?level=error&limit=2')).numbers, [19_995, 19_999])
    assert.deepEqual((await read('?level=warn&limit=3')).numbers, [19_995, 19_998, 19_999])
    assert.equal((await read('?level=warn')).numbers.length, 1000)
    assert.deepEqual((await read('?q=nowhere')).numbers, [])
    assert.deepEqual((await read('?before=1')).numbers, [])
    assert.deepEqual((await read('?tail=1')).numbers, [20_000])
  }
  await check()
  const whole = await read('')
  assert.deepEqual([whole.numbers, whole.more], [null, false])
  await db.execute(
    sql`UPDATE runs SET status = 'success', finished_at = now() - interval '3 minutes' WHERE id = ${run}`,
  )
  await packLogs(db, blobs, fail)
  await check()
  for (const search of ['?limit=0', '?limit=10001', '?before=0', '?level=fatal', '?q=', '?tail=1&limit=1'])
    assert.equal((await call('GET', `/api/pipelines/runs/${run}/logs${search}`, { as: person })).status, 400, search)
  const stranger = await registerPerson(engine, 'Searcher')
  assert.equal((await call('GET', `/api/pipelines/runs/${run}/logs?q=x`, { as: stranger })).status, 404)
})

test('the tail of a log at its limit is read without the rest of it', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  const lines = `${'x'.repeat(64 * 1024 - 1)}\n`
  await db.execute(sql`
    INSERT INTO run_log_chunks (run_id, number, first_line, line_count, lines)
    SELECT ${run}, n, n + CASE WHEN n > 128 THEN 1000 ELSE 0 END, 1, ${lines} FROM generate_series(1, 256) AS n`)
  const read: number[] = []
  const counting: Queryable = {
    ...db,
    query: async (statement) => {
      const rows = await db.query(statement)
      read.push(rows.length)
      return rows as never
    },
  }
  const actor = { organization_id: person.organization_id, scope: null } as Actor
  const { numbers } = await searchLog({ db: counting, blobs }, actor, run, { limit: 5 })
  assert.deepEqual(numbers, [1252, 1253, 1254, 1255, 1256])
  assert.deepEqual(read, [16])
  const gap = await searchLog({ db, blobs }, actor, run, { limit: 3, before: 1130 })
  assert.deepEqual(gap.numbers, [128, 1128, 1129])
  assert.match(gap.logs, /… 1,000 lines were omitted here/)
})
