import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { createRequire } from 'node:module'
import { after, describe, test } from 'node:test'
import { connectDatabase, sql } from '../../src/database/database.ts'
import { registerPerson, startApp } from '../harness/app.ts'
import { cloneDatabase } from '../harness/database.ts'

const loaded = () => Object.keys(createRequire(import.meta.url).cache).some((file) => file.includes('prom-client'))

const off = await startApp()
const loadedWhenOff = loaded()
const TOKEN = 'a token for the metrics'
const app = await startApp({ METRICS_TOKEN: TOKEN })
const { db } = app.services

const scrape = (authorization?: string) =>
  app.call('GET', '/metrics', { headers: authorization === undefined ? {} : { authorization } })

/** The samples of a scrape by name and labels. */
async function read(): Promise<Map<string, number>> {
  const answer = await scrape(`Bearer ${TOKEN}`)
  assert.equal(answer.status, 200)
  return parse(answer.text)
}

const parse = (text: string) =>
  new Map(
    text
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.slice(line.lastIndexOf(' ') + 1))]),
  )

describe('without METRICS_TOKEN', () => {
  test('there are no metrics, and nothing of them is loaded', async () => {
    const answer = await off.call('GET', '/metrics', { headers: { authorization: 'Bearer ' } })
    assert.equal(answer.status, 404)
    assert.equal(loadedWhenOff, false)
    assert.equal(loaded(), true)
  })
})

describe('with METRICS_TOKEN', () => {
  test('metrics are for those who have it', async () => {
    const answer = await scrape(`Bearer ${TOKEN}`)
    assert.equal(answer.status, 200)
    assert.match(String(answer.headers['content-type']), /^text\/plain; version=0\.0\.4/)
    assert.match(answer.text, /^process_cpu_seconds_total /m)
    assert.match(answer.text, /^nodejs_eventloop_lag_seconds /m)
  })

  test('nobody else gets them', async () => {
    const person = await registerPerson(app)
    const others = [
      undefined,
      '',
      'Bearer',
      `Bearer ${TOKEN}x`,
      `Basic ${TOKEN}`,
      TOKEN,
      `Bearer ${person.access_token}`,
    ]
    for (const authorization of others) {
      const answer = await scrape(authorization)
      assert.equal(answer.status, 401, String(authorization))
      assert.equal(answer.headers['www-authenticate'], 'Bearer')
      assert.equal(answer.text.includes('process_cpu'), false)
      assert.equal(answer.text.includes(TOKEN), false)
    }
  })

  test('requests are counted by route, not by address', async () => {
    const person = await registerPerson(app)
    const id = '11111111-2222-4333-8444-555555555555'
    await app.call('GET', `/api/domains/${id}`, { as: person })
    await app.call('GET', `/api/nothing/${id}`)
    const answer = await scrape(`Bearer ${TOKEN}`)
    const samples = parse(answer.text)
    const count = (labels: string) => samples.get(`sluice_http_request_duration_seconds_count{${labels}}`)
    assert.equal(count('method="GET",route="/api/domains/:domain_id",status="404"'), 1)
    assert.equal(count('method="GET",route="none",status="404"'), 1)
    for (const secret of [id, person.id, person.organization_id, person.email])
      assert.equal(answer.text.includes(secret), false)
  })

  test('runs, the queue and the pool are told', async () => {
    const person = await registerPerson(app)
    const insertPipeline = async () =>
      (await db.first<{ id: string }>(sql`
        INSERT INTO pipelines (organization_id, name, config_box, stream)
        VALUES (${person.organization_id}, 'Orders', ${randomBytes(8)}, 'orders') RETURNING id`))!.id
    const before = await read()
    const [first, second, third] = [await insertPipeline(), await insertPipeline(), await insertPipeline()]
    await db.execute(sql`
      INSERT INTO runs (organization_id, pipeline_id, status, triggered_by, ready, created_at, available_at, finished_at)
      SELECT ${person.organization_id}, p::uuid, s, 'manual', r, now() - interval '1 hour', now() + make_interval(secs => d), f
        FROM (VALUES (${first}, 'running', false, 0, NULL::timestamptz),
                     (${first}, 'pending', false, 0, NULL),
                     (${first}, 'success', false, 0, now() - interval '5 seconds'),
                     (${first}, 'success', false, 0, now() - interval '5 seconds'),
                     (${first}, 'failed', false, 0, now() - interval '5 seconds'),
                     (${first}, 'failed', false, 0, now() - interval '1 day'),
                     (${second}, 'pending', true, -90, NULL),
                     (${third}, 'pending', true, 600, NULL)) AS v (p, s, r, d, f)`)
    const scrapes = await Promise.all([read(), read(), read()])
    const samples = scrapes[0]!
    assert.equal(samples.get('sluice_runs{status="pending"}'), 3)
    assert.equal(samples.get('sluice_runs{status="running"}'), 1)
    assert.equal(samples.get('sluice_queue_depth'), 1)
    const oldest = samples.get('sluice_queue_oldest_seconds')!
    assert.ok(oldest >= 90 && oldest < 150, `${oldest} s`)
    await db.execute(sql`UPDATE runs SET pod_class = 'large' WHERE pipeline_id = ${second}`)
    const large = (await read()).get('sluice_pod_queue_oldest_seconds{class="large"}')!
    assert.ok(large >= 90 && large < 150, `${large} s`)
    assert.equal(samples.get('sluice_database_up'), 1)
    assert.ok(samples.get('sluice_database_connections{state="idle"}')! >= 1)
    const last = await read()
    const grown = (status: string) =>
      last.get(`sluice_runs_finished_total{status="${status}"}`)! -
      before.get(`sluice_runs_finished_total{status="${status}"}`)!
    assert.equal(grown('success'), 2, 'each is counted once, however often and at once one looks')
    assert.equal(grown('failed'), 1, 'what ended before is not counted')
    assert.equal(grown('cancelled'), 0)
  })
})

test('metrics are answered without the figures of a database that is away', async () => {
  const { createMetrics } = await import('../../src/metrics.ts')
  const clone = await cloneDatabase()
  after(() => clone.drop())
  const lost = connectDatabase(clone.connection, 1, () => {})
  const metrics = await createMetrics({ db: lost })
  assert.equal(parse((await metrics.render()).text).get('sluice_runs{status="running"}'), 0)
  await lost.close()
  const samples = parse((await metrics.render()).text)
  assert.equal(samples.get('sluice_database_up'), 0)
  assert.equal(samples.has('sluice_runs{status="running"}'), false)
  assert.ok(samples.has('process_cpu_seconds_total'))
})

describe('the details of readiness', () => {
  const ask = (to: typeof app, headers: Record<string, string>) => to.call('GET', '/readyz', { headers })

  test('are for those who bring METRICS_TOKEN', async () => {
    const { status, body } = await ask(app, { authorization: `Bearer ${TOKEN}` })
    assert.equal(status, 200)
    assert.deepEqual([body.status, body.database, body.queue, typeof body.sandbox], ['ready', 'ok', 'ok', 'string'])
  })

  test('are for nobody else, and for nobody where there is no token', async () => {
    const person = await registerPerson(app)
    for (const [to, authorization] of [
      [app, 'Bearer wrong'],
      [app, `Bearer ${person.access_token}`],
      [app, 'Bearer '],
      [off, `Bearer ${TOKEN}`],
      [off, 'Bearer undefined'],
      [off, 'Bearer '],
    ] as const)
      assert.deepEqual((await ask(to, { authorization })).body, { status: 'ready' }, authorization)
  })
})
