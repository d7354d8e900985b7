/** What the first page of the console shows: the timeline and the figures per day. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { type Queryable, sql } from '../../src/database/database.ts'
import { readRunDays } from '../../src/runs/days.ts'
import { readTimeline } from '../../src/runs/timeline.ts'
import type { Actor } from '../../src/tenancy/actor.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
const { call, person, services } = engine
const { db } = services

interface Past {
  status: string
  /** How long ago it began. */
  minutes: number
  lasted?: number
  records?: number
  error?: string | null
}

/** A run that is over, or still goes on. */
async function addRun(pipeline: string, { status, minutes, lasted = 1, records = 0, error = null }: Past) {
  const began = sql`now() - make_interval(mins => ${minutes})`
  const ended = status === 'running' ? sql`NULL` : sql`${began} + make_interval(mins => ${lasted})`
  const row = await db.first<{ id: string }>(sql`
    INSERT INTO runs (organization_id, pipeline_id, status, triggered_by, ready, created_at, started_at, finished_at, records_written, error)
    SELECT organization_id, id, ${status}, 'manual', true, ${began}, ${began}, ${ended}, ${records}, ${error} FROM pipelines WHERE id = ${pipeline}
    RETURNING id`)
  return row!.id
}

async function addPipeline(name: string, fields: object = {}, as = person): Promise<string> {
  const config = { source: { name: 'dummy', stream: 'creatures' }, destination: { name: 'file' } }
  const answer = await call('POST', '/api/pipelines', { as, body: { name, config, ...fields } })
  assert.equal(answer.status, 201, answer.text)
  return answer.body.id
}

const timeline = async (as: object = person, query = '') =>
  (await call('GET', `/api/runs/timeline${query}`, { as })).body
const namesOf = (body: { pipelines: { name: string }[] }) => body.pipelines.map(({ name }) => name)

test('pipelines that failed last come first, with the reason and how often since their last success', async () => {
  const fine = await addPipeline('fine')
  const older = await addPipeline('failed before')
  const newer = await addPipeline('failed just now')
  await addPipeline('has nothing to show')
  await addRun(fine, { status: 'failed', minutes: 200, error: 'source: gone' })
  await addRun(fine, { status: 'success', minutes: 2 })
  await addRun(older, { status: 'failed', minutes: 3000, error: 'auth: refused' })
  await addRun(newer, { status: 'success', minutes: 90 })
  await addRun(newer, { status: 'failed', minutes: 60, error: 'source: first' })
  const last = await addRun(newer, { status: 'failed', minutes: 30, error: 'source: second' })
  const body = await timeline()
  assert.deepEqual(namesOf(body), ['failed just now', 'failed before', 'fine'])
  const [first, second, third] = body.pipelines
  assert.deepEqual(
    [first.last_run_id, first.last_error, first.failures, first.runs.length],
    [last, 'source: second', 2, 3],
  )
  assert.deepEqual([second.failures, second.runs], [1, []], 'it failed before the time that is shown')
  assert.deepEqual([third.failures, third.last_run_status], [0, 'success'])
  assert.deepEqual(namesOf(await timeline(person, '?pipelines=1')), ['failed just now'])
})

test('runs of the same ten minutes are one entry, with the one that matters most', async () => {
  const as = await registerPerson(engine, 'Frequent')
  const pipeline = await addPipeline('every minute', {}, as)
  await db.execute(sql`
    INSERT INTO runs (organization_id, pipeline_id, status, triggered_by, ready, created_at, started_at, finished_at)
    SELECT ${as.organization_id}, ${pipeline}, CASE n WHEN 4 THEN 'failed' ELSE 'success' END, 'schedule', true, at, at, at + interval '5 seconds'
      FROM (SELECT n, to_timestamp(floor(extract(epoch FROM now()) / 600) * 600) - interval '1 hour' + n * interval '1 minute' AS at FROM generate_series(0, 19) n) x`)
  const [{ runs }] = (await timeline(as)).pipelines
  assert.deepEqual(
    runs.map(({ status, runs }: { status: string; runs: number }) => [status, runs]),
    [
      ['failed', 10],
      ['success', 10],
    ],
  )
})

test('a run that goes on has no end, and one that began earlier is shown if it ended in the last day', async () => {
  const as = await registerPerson(engine, 'Long')
  const pipeline = await addPipeline('long', {}, as)
  await addRun(pipeline, { status: 'success', minutes: 30 * 60, lasted: 10 })
  await addRun(pipeline, { status: 'success', minutes: 25 * 60, lasted: 120 })
  await addRun(pipeline, { status: 'running', minutes: 5 })
  const [{ runs }] = (await timeline(as)).pipelines
  assert.deepEqual(
    runs.map((run: { status: string; finished_at: string | null }) => [run.status, run.finished_at === null]),
    [
      ['success', false],
      ['running', true],
    ],
  )
})

test('the next times are those of the schedule in its own zone, and a disabled pipeline has none', async () => {
  const as = await registerPerson(engine, 'Scheduled')
  await addPipeline('daily', { schedule: '30 6 * * *', timezone: 'Asia/Kolkata' }, as)
  await addPipeline('often', { schedule: '* * * * *' }, as)
  const disabled = await addPipeline('disabled', { schedule: '0 * * * *', enabled: false }, as)
  await addRun(disabled, { status: 'failed', minutes: 5 })
  const body = await timeline(as)
  const byName = Object.fromEntries(body.pipelines.map((lane: { name: string }) => [lane.name, lane]))
  assert.match(byName.daily.next_times.join(), /^\S+T01:00:00.000000Z$/)
  assert.equal(byName.often.next_times.length, 24)
  assert.equal(byName.often.more_times, true)
  assert.deepEqual([byName.disabled.next_times, byName.disabled.more_times], [[], false])
  assert.equal(namesOf(body).at(0), 'disabled', 'it ran last, and comes before what never ran')
})

test('others get their turn between the schedules of many lanes, which are searched once a minute', async () => {
  const as = await registerPerson(engine, 'Lanes')
  const actor = { organization_id: as.organization_id, scope: null } as Actor
  for (let at = 0; at < 20; at += 1)
    await addPipeline(`lane ${at}`, { schedule: `${at} * * * *`, timezone: 'Europe/Berlin' }, as)
  let turns = 0
  let ticking = true
  const tick = () => {
    turns += 1
    if (ticking) setImmediate(tick)
  }
  setImmediate(tick)
  // The turns since the last answer of the database are those between lanes.
  const watched: Queryable = {
    ...db,
    query: async (statement) => {
      const rows = await db.query(statement)
      turns = 0
      return rows as never
    },
    first: (statement) => db.first(statement),
    execute: (statement) => db.execute(statement),
  }
  const turnsOf = async () => {
    const { pipelines } = await readTimeline(watched, actor, 100)
    assert.equal(pipelines.length, 20)
    assert.ok(pipelines.every(({ next_times }) => next_times.length === 24))
    return turns
  }
  try {
    assert.ok((await turnsOf()) >= 19)
    // Unless the minute ends in between.
    assert.ok(Math.min(await turnsOf(), await turnsOf()) < 10)
  } finally {
    ticking = false
  }
})

test('an organization is counted once for all who ask at the same time, however they write the zone', async () => {
  const as = await registerPerson(engine, 'Crowd')
  await addRun(await addPipeline('busy', {}, as), { status: 'running', minutes: 1 })
  const actor = { organization_id: as.organization_id, scope: null } as Actor
  let counts = 0
  const watched: Queryable = {
    query: (statement) => {
      if (statement.text.includes('unfinished')) counts += 1
      return db.query(statement)
    },
    first: (statement) => db.first(statement),
    execute: (statement) => db.execute(statement),
  }
  const ask = (timezone: string) => readRunDays(watched, actor, { days: 7, timezone })
  const zones = ['Europe/Berlin', 'europe/berlin', 'EUROPE/BERLIN', 'Europe/berlin']
  const answers = await Promise.all([...zones, ...zones].map(ask))
  for (const days of answers) assert.deepEqual(days, answers[0])
  assert.equal(
    answers[0]!.reduce((sum, { runs }) => sum + runs, 0),
    1,
  )
  assert.equal(counts, 1)
  // A failure of one does not fail those who wait.
  const broken = { ...watched, query: () => Promise.reject(new Error('gone')) }
  const [failed, fine] = await Promise.allSettled([
    readRunDays(broken, actor, { days: 7, timezone: 'UTC' }),
    ask('UTC'),
  ])
  assert.deepEqual([failed.status, fine.status], ['rejected', 'fulfilled'])
})

test('days are those of the given zone, today last, and count what was written', async () => {
  const as = await registerPerson(engine, 'Daily')
  const pipeline = await addPipeline('daily', {}, as)
  const add = (at: string, status: string, records: number) =>
    db.execute(sql`
      INSERT INTO runs (organization_id, pipeline_id, status, triggered_by, ready, created_at, started_at, finished_at, records_written, bytes_written)
      VALUES (${as.organization_id}, ${pipeline}, ${status}, 'manual', true, ${at}, ${at}, ${at}, ${records}, 7)`)
  const now = new Date((await db.first<{ now: string }>(sql`SELECT now() AS now`))!.now)
  const dayOf = (time: Date, timeZone: string) => new Intl.DateTimeFormat('sv', { timeZone }).format(time)
  const before = new Date(now.getTime() - 86_400_000)
  await add(before.toISOString(), 'success', 5)
  await add(before.toISOString(), 'failed', 0)
  await add(now.toISOString(), 'success', 2)
  for (const zone of ['UTC', 'Asia/Tokyo', 'America/Los_Angeles']) {
    const { body } = await call('GET', `/api/runs/days?days=3&timezone=${zone}`, { as })
    assert.equal(body.length, 3)
    assert.equal(body.at(-1).day, dayOf(now, zone))
    const yesterday = body.find(({ day }: { day: string }) => day === dayOf(before, zone))
    assert.deepEqual(yesterday, {
      day: dayOf(before, zone),
      runs: 2,
      succeeded: 1,
      failed: 1,
      cancelled: 0,
      records: 5,
      bytes: 14,
    })
  }
  await add(now.toISOString(), 'success', 40)
  const deadline = Date.now() + 30_000
  const today = async () => (await call('GET', '/api/runs/days?days=1', { as })).body[0].records
  while ((await today()) !== 42) {
    assert.ok(Date.now() < deadline, 'today is counted anew')
    await delay(100)
  }
  const wrong = await call('GET', '/api/runs/days?timezone=Europe/Berlinn', { as })
  assert.equal(wrong.status, 400)
  assert.match(wrong.body.detail, /Europe\/Berlin/)
})

test('nothing of another organization is in either of them, nor of another domain with the key of one', async () => {
  const stranger = await registerPerson(engine, 'Stranger')
  assert.deepEqual((await timeline(stranger)).pipelines, [])
  const days = (await call('GET', '/api/runs/days?days=2', { as: stranger })).body
  assert.equal(days.at(-1).runs, 0)

  const as = await registerPerson(engine, 'Domains')
  const domain = (await call('POST', '/api/domains', { as, body: { name: 'Sales' } })).body.id
  const inside = await addPipeline('inside', { domain_id: domain, schedule: '0 * * * *' }, as)
  const outside = await addPipeline('outside', { schedule: '0 * * * *' }, as)
  for (const pipeline of [inside, outside])
    await addRun(pipeline, { status: 'failed', minutes: 1, records: 3, error: 'source: no' })
  const body = { name: 'one domain', scopes: { permissions: ['pipelines:read'], domain_id: domain } }
  const { key } = (await call('POST', '/api/api-keys', { as, body })).body
  assert.deepEqual(namesOf(await timeline({ key })), ['inside'])
  assert.deepEqual(namesOf(await timeline(as)).sort(), ['inside', 'outside'])
  const sum = async (who: object) =>
    (await call('GET', '/api/runs/days?days=2', { as: who })).body.reduce(
      (total: number, day: { runs: number }) => total + day.runs,
      0,
    )
  assert.deepEqual([await sum({ key }), await sum(as)], [1, 2])
})
