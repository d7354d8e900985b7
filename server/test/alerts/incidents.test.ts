/** Random sequences of what can happen to pipelines, against a small model of what people are told. */
import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import fc from 'fast-check'
import { removeOldIncidents } from '../../src/alerts/incidents.ts'
import { findLatePipelines } from '../../src/alerts/late.ts'
import { composeMessage } from '../../src/alerts/message.ts'
import { sql } from '../../src/database/database.ts'
import { type Person, registerPerson, startApp } from '../harness/app.ts'
import { untilWaitingForLocks } from '../harness/lock-waits.ts'
import { createAlert, endRun, eventsOf, insertPipeline, type RunEnd, readQueue, slackTo } from './setup.ts'

const app = await startApp()
const { db } = app.services
const channel = slackTo('https://example.com/T0/B0/secret')
let owner: Person

beforeEach(async () => {
  owner = await registerPerson(app, 'Owner')
})

const LATE_MINUTES = 60
const RANGE = { min_records: 5, max_records: 20 }

type Step = RunEnd | { status: 'time passes' } | { status: 'switched off and on' }

const step: fc.Arbitrary<Step> = fc.oneof(
  fc.record({
    status: fc.constantFrom('success' as const, 'failed' as const, 'cancelled' as const),
    records: fc.constantFrom(0, 10, 100),
    triggered_by: fc.constantFrom('schedule', 'manual', 'backfill', 'replay'),
  }),
  fc.constant({ status: 'time passes' as const }),
  fc.constant({ status: 'switched off and on' as const }),
)

/** What a rule that wants everything tells. */
function model(steps: Step[]): string[] {
  const open = { failed: false, late: false, row_count: false }
  const told: string[] = []
  const begin = (kind: keyof typeof open) => {
    if (!open[kind]) told.push(kind)
    open[kind] = true
  }
  const end = (kind: keyof typeof open) => {
    if (open[kind]) told.push('recovered')
    open[kind] = false
  }
  for (const step of steps) {
    if (step.status === 'time passes') begin('late')
    else if (step.status === 'switched off and on') open.failed = open.late = open.row_count = false
    else if (step.status === 'failed') begin('failed')
    else if (step.status === 'success') {
      end('failed')
      end('late')
      const counts = step.triggered_by === 'schedule' || step.triggered_by === 'manual'
      const inside = step.records! >= RANGE.min_records && step.records! <= RANGE.max_records
      if (counts && inside) end('row_count')
      if (counts && !inside) begin('row_count')
    }
  }
  return told
}

/** As if all of it had happened two hours earlier. */
async function passTime(pipelineId: string): Promise<void> {
  await db.execute(sql`
    WITH p AS (UPDATE pipelines SET created_at = created_at - interval '2 hours', expected_since = expected_since - interval '2 hours' WHERE id = ${pipelineId})
    UPDATE runs SET finished_at = finished_at - interval '2 hours' WHERE pipeline_id = ${pipelineId} AND finished_at IS NOT NULL`)
  await db.execute(sql`UPDATE alerts SET late_check_at = now()`)
  await findLatePipelines(db)
}

async function take(pipelineId: string, one: Step): Promise<void> {
  if (one.status === 'time passes') return passTime(pipelineId)
  if (one.status === 'switched off and on') {
    for (const enabled of [false, true])
      await db.execute(sql`UPDATE pipelines SET enabled = ${enabled} WHERE id = ${pipelineId}`)
    return
  }
  await endRun(app, pipelineId, one)
}

test('people are told once when something begins and once when it is over, whatever happens', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 14 }), async (steps) => {
      const pipelineId = await insertPipeline(app, owner.organization_id, { schedule: '0 * * * *' })
      const on = ['failed', 'recovered', 'late', 'row_count', 'schema_changed']
      const alert = await createAlert(app, owner, {
        on,
        channel,
        pipeline_id: pipelineId,
        late_after_minutes: LATE_MINUTES,
        ...RANGE,
      })
      for (const one of steps) await take(pipelineId, one)
      const told = await eventsOf(app, alert)
      await app.call('DELETE', `/api/alerts/${alert.id}`, { as: owner })
      // What one statement queues has the same time.
      assert.deepEqual(told.sort(), model(steps).sort())
    }),
    { numRuns: 60 },
  )
})

test('what one organization, domain or pipeline does concerns no other', async () => {
  const other = await registerPerson(app, 'Other')
  const { body: domain } = await app.call('POST', '/api/domains', { as: owner, body: { name: 'Finance' } })
  const inside = await insertPipeline(app, owner.organization_id, { name: 'Inside', domain_id: domain.id })
  const outside = await insertPipeline(app, owner.organization_id, { name: 'Outside' })
  const foreign = await insertPipeline(app, other.organization_id)
  const on = ['failed']
  const rules = {
    all: await createAlert(app, owner, { on, channel }),
    domain: await createAlert(app, owner, { on, channel, domain_id: domain.id }),
    pipeline: await createAlert(app, owner, { on, channel, pipeline_id: outside }),
    other: await createAlert(app, other, { on, channel }),
  }
  for (const id of [inside, outside, foreign]) await endRun(app, id, { status: 'failed' })
  const told = async (rule: { id: string }) => (await readQueue(app, rule)).map(({ payload }) => payload.pipeline.id)
  assert.deepEqual(new Set(await told(rules.all)), new Set([inside, outside]))
  assert.deepEqual(await told(rules.domain), [inside])
  assert.deepEqual(await told(rules.pipeline), [outside])
  assert.deepEqual(await told(rules.other), [foreign])
})

describe('an incident', () => {
  const watch = { on: ['failed', 'recovered'], channel }

  test('tells why, of which run, and since when', async () => {
    const pipelineId = await insertPipeline(app, owner.organization_id)
    const alert = await createAlert(app, owner, watch)
    const failed = await endRun(app, pipelineId, { status: 'failed', error: 'source: no such table' })
    const succeeded = await endRun(app, pipelineId, { status: 'success', records: 7 })
    const [begin, end] = await readQueue(app, alert)
    assert.equal(begin!.payload.run.id, failed)
    assert.equal(begin!.payload.run.error, 'source: no such table')
    assert.deepEqual(begin!.payload.pipeline, { id: pipelineId, name: 'Orders' })
    assert.equal(begin!.payload.closed_at, null)
    assert.equal(end!.event, 'recovered')
    assert.equal(end!.payload.kind, 'failed')
    assert.equal(end!.payload.run.id, succeeded)
    assert.equal(end!.payload.opened_at, begin!.payload.opened_at)
    assert.equal(end!.incident_id, begin!.incident_id)
  })

  test('is counted on its rule until it is over', async () => {
    const pipelineId = await insertPipeline(app, owner.organization_id)
    const alert = await createAlert(app, owner, watch)
    const open = async () =>
      (await app.call('GET', `/api/alerts/${alert.id}`, { as: owner })).body.open_incidents as number
    await endRun(app, pipelineId, { status: 'failed' })
    assert.equal(await open(), 1)
    await endRun(app, pipelineId, { status: 'success' })
    assert.equal(await open(), 0)
  })

  for (const change of [{ enabled: false }, { on: ['failed'] }])
    test(`is over without a word after ${JSON.stringify(change)}`, async () => {
      const pipelineId = await insertPipeline(app, owner.organization_id)
      const alert = await createAlert(app, owner, watch)
      await endRun(app, pipelineId, { status: 'failed' })
      const { body } = await app.call('PUT', `/api/alerts/${alert.id}`, { as: owner, body: change })
      assert.equal(body.open_incidents, 0)
      await app.call('PUT', `/api/alerts/${alert.id}`, { as: owner, body: { ...watch, enabled: true } })
      await endRun(app, pipelineId, { status: 'success' })
      assert.deepEqual(await eventsOf(app, alert), ['failed'])
    })

  test('is forgotten with its rule: another one begins anew', async () => {
    const pipelineId = await insertPipeline(app, owner.organization_id)
    const alert = await createAlert(app, owner, watch)
    await endRun(app, pipelineId, { status: 'failed' })
    await app.call('DELETE', `/api/alerts/${alert.id}`, { as: owner })
    const next = await createAlert(app, owner, watch)
    await endRun(app, pipelineId, { status: 'success' })
    assert.deepEqual(await eventsOf(app, next), [])
    await endRun(app, pipelineId, { status: 'failed' })
    await endRun(app, pipelineId, { status: 'success' })
    assert.deepEqual(await eventsOf(app, next), ['failed', 'recovered'])
  })

  test('of records is neither opened nor closed by a run that failed', async () => {
    const pipelineId = await insertPipeline(app, owner.organization_id)
    const on = ['row_count', 'recovered']
    const alert = await createAlert(app, owner, { on, channel, min_records: 5 })
    await endRun(app, pipelineId, { status: 'failed' })
    assert.deepEqual(await eventsOf(app, alert), [])
    await endRun(app, pipelineId, { status: 'success', records: 1 })
    await endRun(app, pipelineId, { status: 'failed' })
    assert.deepEqual(await eventsOf(app, alert), ['row_count'])
    await endRun(app, pipelineId, { status: 'success', records: 5 })
    assert.deepEqual(await eventsOf(app, alert), ['row_count', 'recovered'])
  })

  test('goes on when only its name or channel changes', async () => {
    const pipelineId = await insertPipeline(app, owner.organization_id)
    const alert = await createAlert(app, owner, watch)
    await endRun(app, pipelineId, { status: 'failed' })
    const body = { name: 'Another', channel: slackTo('https://example.com/T0/B0/another') }
    assert.equal((await app.call('PUT', `/api/alerts/${alert.id}`, { as: owner, body })).body.open_incidents, 1)
    await endRun(app, pipelineId, { status: 'success' })
    assert.deepEqual(await eventsOf(app, alert), ['failed', 'recovered'])
  })

  test('disappears with its pipeline, and a rule with the pipeline or domain that it watches', async () => {
    const { body: domain } = await app.call('POST', '/api/domains', { as: owner, body: { name: 'Gone' } })
    const pipelineId = await insertPipeline(app, owner.organization_id)
    const all = await createAlert(app, owner, watch)
    const one = await createAlert(app, owner, { ...watch, pipeline_id: pipelineId })
    const inDomain = await createAlert(app, owner, { ...watch, domain_id: domain.id })
    await endRun(app, pipelineId, { status: 'failed' })
    await app.call('DELETE', `/api/pipelines/${pipelineId}`, { as: owner })
    await app.call('DELETE', `/api/domains/${domain.id}`, { as: owner })
    const read = async ({ id }: { id: string }) => (await app.call('GET', `/api/alerts/${id}`, { as: owner })).status
    assert.deepEqual([await read(all), await read(one), await read(inDomain)], [200, 404, 404])
    assert.equal((await db.query(sql`SELECT 1 FROM alert_incidents WHERE alert_id = ${all.id}`)).length, 0)
  })

  test('is not opened by a pipeline that is disabled', async () => {
    const pipelineId = await insertPipeline(app, owner.organization_id)
    const alert = await createAlert(app, owner, watch)
    await db.execute(sql`UPDATE pipelines SET enabled = false WHERE id = ${pipelineId}`)
    await endRun(app, pipelineId, { status: 'failed' })
    assert.deepEqual(await eventsOf(app, alert), [])
  })

  test('is forgotten 30 days after it ended', async () => {
    const pipelineId = await insertPipeline(app, owner.organization_id)
    await createAlert(app, owner, watch)
    await endRun(app, pipelineId, { status: 'failed' })
    await endRun(app, pipelineId, { status: 'success' })
    await endRun(app, pipelineId, { status: 'failed' })
    await db.execute(sql`
      UPDATE alert_incidents SET opened_at = opened_at - interval '31 days', closed_at = closed_at - interval '31 days' WHERE pipeline_id = ${pipelineId}`)
    await removeOldIncidents(db)
    const left = await db.query<{ closed_at: string | null }>(
      sql`SELECT closed_at FROM alert_incidents WHERE pipeline_id = ${pipelineId}`,
    )
    assert.deepEqual(left, [{ closed_at: null }])
  })
})

describe('changed columns', () => {
  test('are told once per run that changed them, also of one that failed', async () => {
    const pipelineId = await insertPipeline(app, owner.organization_id)
    const alert = await createAlert(app, owner, { on: ['schema_changed'], channel })
    await endRun(app, pipelineId, { status: 'success', changes: ['adds the column price', 'adds the column vat'] })
    await endRun(app, pipelineId, { status: 'success' })
    await endRun(app, pipelineId, { status: 'failed', changes: ['adds the column note'] })
    const told = (await readQueue(app, alert)).map(({ event, payload }) => [event, payload.changes])
    assert.deepEqual(told, [
      ['schema_changed', ['adds the column price', 'adds the column vat']],
      ['schema_changed', ['adds the column note']],
    ])
  })
})

test('a run ends while the rule and the webhook that watch it are being deleted', async () => {
  const pipelineId = await insertPipeline(app, owner.organization_id)
  const alert = await createAlert(app, owner, { on: ['failed'], channel, pipeline_id: pipelineId })
  const webhook = { url: 'https://example.com/', events: ['run.failed'] }
  const { body } = await app.call('POST', '/api/webhooks', { as: owner, body: webhook })
  const ending = await db.transaction(async (tx) => {
    await tx.execute(sql`DELETE FROM alerts WHERE id = ${alert.id}`)
    await tx.execute(sql`DELETE FROM webhooks WHERE id = ${body.id}`)
    const ended = endRun(app, pipelineId, { status: 'failed' })
    await untilWaitingForLocks(db)
    return [ended]
  })
  const run = await db.first<{ status: string }>(sql`SELECT status FROM runs WHERE id = ${await ending[0]!}`)
  assert.equal(run!.status, 'failed')
})

describe('a late pipeline', () => {
  const watch = { on: ['late', 'recovered'], channel, late_after_minutes: LATE_MINUTES }

  test('is expected by a rule of the organization only if it has a schedule', async () => {
    const scheduled = await insertPipeline(app, owner.organization_id, { schedule: '0 * * * *' })
    const manual = await insertPipeline(app, owner.organization_id)
    const alert = await createAlert(app, owner, watch)
    const named = await createAlert(app, owner, { ...watch, pipeline_id: manual })
    for (const id of [scheduled, manual]) await passTime(id)
    const told = async (rule: { id: string }) => (await readQueue(app, rule)).map(({ payload }) => payload.pipeline.id)
    assert.deepEqual(await told(alert), [scheduled])
    assert.deepEqual(await told(named), [manual])
  })

  test('that never ran is told with what to look at', async () => {
    const pipelineId = await insertPipeline(app, owner.organization_id, { schedule: '0 * * * *' })
    const alert = await createAlert(app, owner, watch)
    await passTime(pipelineId)
    const [late] = await readQueue(app, alert)
    const { title, lines, link } = composeMessage(late!.payload)
    assert.equal(title, '○ Orders is late')
    assert.match(
      lines.join(),
      /^No run has succeeded within 60 minutes, since \d{4}-.* UTC\.,Check whether its schedule/,
    )
    assert.deepEqual(link, { label: 'Open the pipeline', path: `/pipelines/${pipelineId}` })
  })

  test('has all of its minutes when it gets a schedule or another domain', async () => {
    const alert = await createAlert(app, owner, watch)
    const pipelineId = await insertPipeline(app, owner.organization_id)
    await passTime(pipelineId)
    await db.execute(sql`UPDATE pipelines SET schedule = '0 * * * *' WHERE id = ${pipelineId}`)
    await db.execute(sql`UPDATE alerts SET late_check_at = now()`)
    await findLatePipelines(db)
    assert.deepEqual(await eventsOf(app, alert), [])
    await passTime(pipelineId)
    assert.deepEqual(await eventsOf(app, alert), ['late'])
  })

  test('is found when it is due: the rule is looked at then, and not before', async () => {
    const pipelineId = await insertPipeline(app, owner.organization_id, { schedule: '0 * * * *' })
    const alert = await createAlert(app, owner, watch)
    await findLatePipelines(db)
    const { seconds } = (await db.first<{ seconds: number }>(sql`
      SELECT extract(epoch FROM a.late_check_at - p.created_at)::float8 AS seconds FROM alerts a, pipelines p WHERE a.id = ${alert.id} AND p.id = ${pipelineId}`))!
    assert.equal(Math.round(seconds), LATE_MINUTES * 60)
    assert.deepEqual(await eventsOf(app, alert), [])
  })

  test('that is being changed is passed over and found at the next look', async () => {
    const pipelineId = await insertPipeline(app, owner.organization_id, { schedule: '0 * * * *' })
    const alert = await createAlert(app, owner, watch)
    await db.execute(sql`UPDATE pipelines SET created_at = now() - interval '2 hours' WHERE id = ${pipelineId}`)
    await db.transaction(async (tx) => {
      await tx.execute(sql`SELECT 1 FROM pipelines WHERE id = ${pipelineId} FOR NO KEY UPDATE`)
      assert.equal(await findLatePipelines(db), 0)
    })
    const { again } = (await db.first<{ again: boolean }>(
      sql`SELECT late_check_at < now() + interval '1 minute' AS again FROM alerts WHERE id = ${alert.id}`,
    ))!
    assert.ok(again)
    await db.execute(sql`UPDATE alerts SET late_check_at = now() WHERE id = ${alert.id}`)
    assert.equal(await findLatePipelines(db), 1)
  })

  test('is told once by any number of schedulers', async () => {
    const ids = await Promise.all(
      Array.from({ length: 20 }, () => insertPipeline(app, owner.organization_id, { schedule: '0 * * * *' })),
    )
    const alert = await createAlert(app, owner, watch)
    await db.execute(sql`UPDATE pipelines SET created_at = now() - interval '2 hours' WHERE id = ANY (${ids}::uuid[])`)
    const found = await Promise.all([findLatePipelines(db), findLatePipelines(db), findLatePipelines(db)])
    assert.equal(
      found.reduce((sum, count) => sum + count),
      20,
    )
    assert.equal((await readQueue(app, alert)).length, 20)
  })
})
