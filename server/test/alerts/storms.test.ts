/** Many pipelines at once: few messages, and each incident is told by one of them. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { beforeEach, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { MESSAGES_PER_WINDOW, NAMED, WINDOW_SECONDS } from '../../src/alerts/gather.ts'
import { findLatePipelines } from '../../src/alerts/late.ts'
import { type Database, type Queryable, type Statement, sql } from '../../src/database/database.ts'
import { notifyRun } from '../../src/database/notifications.ts'
import { startWebhookDeliveries } from '../../src/webhooks/deliveries.ts'
import { type Person, registerPerson, SECRET, startApp } from '../harness/app.ts'
import { untilWaitingForLocks } from '../harness/lock-waits.ts'
import { startReceiver } from '../webhooks/receiver.ts'
import { createAlert, endRun, insertPipeline, type Queued, readQueue, settled, slackTo, whileSending } from './setup.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.0/8', PUBLIC_URL: 'https://sluice.example.com' })
const { db } = app.services
const chat = await startReceiver()
const channel = slackTo(chat.url)
let owner: Person

beforeEach(async () => {
  await db.execute(sql`DELETE FROM webhook_deliveries`)
  owner = await registerPerson(app, 'Owner')
})

interface Shown {
  id: string
  event: string
  incident_id: string | null
  told_with: string | null
  status: string
  attempts: number
  error: string | null
}

const listed = async ({ id }: { id: string }): Promise<Shown[]> =>
  (await app.call('GET', `/api/alerts/${id}/deliveries?limit=200`, { as: owner })).body
const watch = (more: object = {}) => createAlert(app, owner, { on: ['failed', 'recovered'], channel, ...more })
const insertPipelines = (count: number, more: object = {}) =>
  Promise.all(
    Array.from({ length: count }, (_, n) => insertPipeline(app, owner.organization_id, { name: `P${n + 1}`, ...more })),
  )

async function endAll(ids: string[], status: 'failed' | 'success'): Promise<void> {
  for (const id of ids) await endRun(app, id, { status })
}

async function answerNext() {
  const request = await chat.next()
  request.answer(200)
  return request
}

/** As if a window had passed since the last message. */
async function passWindow(alert: { id: string }): Promise<void> {
  await db.execute(sql`
    UPDATE webhook_deliveries SET told_at = told_at - make_interval(secs => ${WINDOW_SECONDS}), next_attempt_at = least(next_attempt_at, now()) WHERE alert_id = ${alert.id}`)
  await db.execute(notifyRun('delivery'))
}

describe('pipelines that fail at once', () => {
  test('are told in one message with how many, the first names and reasons, and a link to the list', async () => {
    const ids = await insertPipelines(27)
    const alert = await watch()
    for (const [n, id] of ids.entries()) await endRun(app, id, { status: 'failed', error: `no answer ${n + 1}` })
    const before = chat.count()
    await whileSending(app, async () => {
      const { body } = await answerNext()
      assert.equal(body.text, '✕ 27 pipelines failed: P1, P2, P3 and 24 more')
      const [section, context] = body.blocks
      const lines = section.text.text.split('\n')
      assert.equal(lines.length, NAMED + 2)
      assert.equal(lines[1], '– P1: no answer 1')
      assert.equal(lines.at(-1), 'and 17 more')
      assert.equal(
        context.elements[0].text,
        '<https://sluice.example.com/pipelines?status=failed|Open the pipelines> · Sent by the alert "Tell us".',
      )
      await settled(app, alert)
    })
    assert.equal(chat.count(), before + 1)
  })

  test('are listed one by one, with what became of their message', async () => {
    const { body: domain } = await app.call('POST', '/api/domains', { as: owner, body: { name: 'Finance' } })
    const ids = await insertPipelines(4, { domain_id: domain.id })
    const alert = await watch({ domain_id: domain.id })
    await endAll(ids, 'failed')
    await whileSending(app, async () => {
      const refused = await chat.next()
      assert.match(refused.body.blocks[1].elements[0].text, new RegExp(`\\?status=failed&domain_id=${domain.id}\\|`))
      refused.answer(503)
    })
    const waiting = await listed(alert)
    const message = waiting.find(({ incident_id }) => incident_id === null)!
    const incidents = waiting.filter(({ incident_id }) => incident_id !== null)
    assert.equal(incidents.length, 4)
    for (const { told_with, status, attempts, error } of incidents)
      assert.deepEqual([told_with, status, attempts, error], [message.id, 'pending', 1, 'The receiver answered 503'])
    await passWindow(alert)
    await whileSending(app, async () => {
      const { headers } = await answerNext()
      assert.equal(headers['x-sluice-delivery'], message.id)
    })
    for (const { status, attempts } of await listed(alert)) assert.deepEqual([status, attempts], ['delivered', 2])
  })

  test(`are told by ${MESSAGES_PER_WINDOW} messages a minute at most, the first of them at once and alone`, async () => {
    const ids = await insertPipelines(MESSAGES_PER_WINDOW + 5)
    const alert = await watch()
    await whileSending(app, async () => {
      for (const [n, id] of ids.slice(0, MESSAGES_PER_WINDOW).entries()) {
        await endRun(app, id, { status: 'failed' })
        assert.equal((await answerNext()).body.text, `✕ P${n + 1} failed`)
        await settled(app, alert)
      }
      await endAll(ids.slice(MESSAGES_PER_WINDOW), 'failed')
      await settled(app, alert)
      const held = (await listed(alert)).filter(({ status }) => status === 'pending')
      assert.equal(held.length, 5)
      for (const { attempts, error } of held) assert.deepEqual([attempts, error], [0, null])
      await passWindow(alert)
      assert.equal((await answerNext()).body.text, '✕ 5 pipelines failed: P4, P5, P6 and 2 more')
      await settled(app, alert)
    })
    assert.equal((await listed(alert)).filter(({ status }) => status !== 'delivered').length, 0)
  })

  test('are told together when they recover', async () => {
    const ids = await insertPipelines(5)
    const alert = await watch()
    await endAll(ids, 'failed')
    await endAll(ids, 'success')
    await whileSending(app, async () => {
      assert.equal((await answerNext()).body.text, '✕ 5 pipelines failed: P1, P2, P3 and 2 more')
      const { body } = await answerNext()
      assert.equal(body.text, '● 5 pipelines recovered: P1, P2, P3 and 2 more')
      assert.match(body.blocks[0].text.text, /\n– P1: it had failed since \d{4}-/)
      assert.match(body.blocks[1].elements[0].text, /\/pipelines\|Open the pipelines>/)
      await settled(app, alert)
    })
    assert.equal((await readQueue(app, alert)).length, 12)
  })

  test('are not said to have recovered before anybody knows that they failed', async () => {
    const ids = await insertPipelines(MESSAGES_PER_WINDOW + 2)
    const alert = await watch()
    const before = chat.count() + MESSAGES_PER_WINDOW
    await whileSending(app, async () => {
      for (const id of ids.slice(0, MESSAGES_PER_WINDOW)) {
        await endRun(app, id, { status: 'failed' })
        await answerNext()
        await settled(app, alert)
      }
      await endAll(ids.slice(MESSAGES_PER_WINDOW), 'failed')
      await endAll(ids.slice(MESSAGES_PER_WINDOW), 'success')
      await settled(app, alert)
      assert.equal(chat.count(), before)
      await passWindow(alert)
      assert.equal((await answerNext()).body.text, '✕ 2 pipelines failed: P4, P5')
      assert.equal((await answerNext()).body.text, '● 2 pipelines recovered: P4, P5')
      await settled(app, alert)
    })
  })

  test('are told by each rule to its own people, and stay apart by event', async () => {
    const ids = await insertPipelines(3)
    const other = await startReceiver()
    const narrow = await watch({ on: ['row_count'], min_records: 100 })
    const wide = await watch({ on: ['failed', 'row_count'], max_records: 5, channel: slackTo(other.url) })
    await endAll(ids, 'success')
    await endAll(ids, 'failed')
    await whileSending(app, async () => {
      const { body } = await answerNext()
      assert.equal(body.text, '! 3 pipelines wrote too few or too many records: P1, P2, P3')
      assert.match(body.blocks[0].text.text, /\n– P2: 10 records, expected at least 100 records\n/)
      const texts = []
      for (let n = 0; n < 2; n++) {
        const request = await other.next()
        request.answer(200)
        texts.push(request.body.text)
      }
      assert.deepEqual(texts.sort(), [
        '! 3 pipelines wrote too few or too many records: P1, P2, P3',
        '✕ 3 pipelines failed: P1, P2, P3',
      ])
      for (const alert of [narrow, wide]) await settled(app, alert)
    })
  })

  test('or whose columns change, or that are late, are told together too', async () => {
    const ids = await insertPipelines(3, { schedule: '0 * * * *' })
    const alert = await watch({ on: ['late', 'schema_changed'], late_after_minutes: 60 })
    for (const id of ids)
      await endRun(app, id, { status: 'success', changes: ['adds a', 'adds b', 'adds c', 'adds d'] })
    await db.execute(sql`
      UPDATE runs SET finished_at = finished_at - interval '2 hours' WHERE organization_id = ${owner.organization_id}`)
    await db.execute(sql`
      UPDATE pipelines SET created_at = created_at - interval '2 hours' WHERE organization_id = ${owner.organization_id}`)
    await db.execute(sql`UPDATE alerts SET late_check_at = now()`)
    assert.equal(await findLatePipelines(db), 3)
    await whileSending(app, async () => {
      const bodies = [(await answerNext()).body, (await answerNext()).body]
      const [columns, late] = bodies.sort((a, b) => (a.text < b.text ? -1 : 1))
      assert.equal(columns.text, '! The columns of 3 pipelines changed: P1, P2, P3')
      assert.match(columns.blocks[0].text.text, /\n– P1: adds a, adds b, adds c and 1 more\n/)
      assert.match(late.text, /^○ 3 pipelines are late: P\d, P\d, P\d$/)
      assert.match(late.blocks[0].text.text, /\n– P1: no run has succeeded since \d{4}-/)
      await settled(app, alert)
    })
  })
})

test('a storm that has to wait costs the sender a few statements, not some for each pipeline', async () => {
  const ids = await insertPipelines(60)
  const minute = (offset: number) => new Date(Date.now() + offset * 60_000).toISOString().slice(11, 16)
  const quiet = await watch({ on: ['failed'], quiet_hours: { from: minute(-60), to: minute(-120), time_zone: 'UTC' } })
  const busy = await watch({ on: ['failed'] })
  await db.execute(sql`
    INSERT INTO webhook_deliveries (alert_id, organization_id, event, payload, status, told_at)
    SELECT ${busy.id}, ${owner.organization_id}, 'failed', '{}', 'delivered', now() FROM generate_series(1, ${MESSAGES_PER_WINDOW})`)
  await endAll(ids, 'failed')
  const before = chat.count()
  const { mortal, used } = dyingAfter(db, Number.POSITIVE_INFINITY)
  const sender = await startWebhookDeliveries({ ...app.services, db: mortal })
  for (const alert of [quiet, busy]) await settled(app, alert)
  await sender.stop()
  assert.equal(chat.count(), before)
  assert.ok(used() < 120, `${used()} statements`)
})

test('nothing is lost or told twice by two senders, while pipelines fail, recover and fail again', async () => {
  const ids = await insertPipelines(30)
  const receiver = await startReceiver()
  const alert = await watch({ channel: slackTo(receiver.url) })
  const received = new Set<string>()
  const serving = new AbortController()
  void (async () => {
    while (!serving.signal.aborted) {
      const { headers, answer } = await receiver.next()
      received.add(String(headers['x-sluice-delivery']))
      answer(200)
    }
  })()
  await whileSending(app, () =>
    whileSending(app, async () => {
      await Promise.all(
        ids.map(async (id, n) => {
          for (let round = 0; round < 3; round++)
            for (const status of ['failed', 'success'] as const)
              if ((n + round) % 5 !== 0) await endRun(app, id, { status })
        }),
      )
      for (;;) {
        await settled(app, alert)
        if ((await listed(alert)).every(({ status }) => status !== 'pending')) break
        await passWindow(alert)
      }
    }),
  )
  serving.abort()
  const shown = await listed(alert)
  const incidents = shown.filter(({ incident_id }) => incident_id !== null)
  const opened = await db.query(
    sql`SELECT 1 FROM alert_incidents WHERE alert_id = ${alert.id} AND closed_at IS NOT NULL`,
  )
  assert.equal(incidents.length, 2 * opened.length)
  assert.equal(new Set(incidents.map(({ incident_id, event }) => `${incident_id} ${event}`)).size, incidents.length)
  for (const { status, attempts } of shown) assert.deepEqual([status, attempts], ['delivered', 1])
  assert.deepEqual(received, new Set(incidents.map(({ id, told_with }) => told_with ?? id)))
  assert.equal(receiver.count(), received.size)
})

for (const [what, method, body, status] of [
  ['deleted', 'DELETE', undefined, 204],
  ['given other quiet hours', 'PUT', { quiet_hours: null }, 200],
] as const)
  test(`a rule can be ${what} while its messages are gathered`, async () => {
    const alert = await watch({ on: ['failed'], channel: slackTo((await startReceiver()).url) })
    await endAll(await insertPipelines(5), 'failed')
    const { promise: gathering, resolve: pause } = Promise.withResolvers<void>()
    const { promise: waited, resolve: goOn } = Promise.withResolvers<void>()
    const pausing: Database = {
      ...db,
      transaction: (work) =>
        db.transaction((tx) =>
          work({
            ...tx,
            query: async <Row>(statement: Statement) => {
              const rows = await tx.query<Row>(statement)
              if (statement.text.includes('FOR UPDATE OF d')) {
                pause()
                await waited
              }
              return rows
            },
          }),
        ),
    }
    const sender = await startWebhookDeliveries({ ...app.services, db: pausing })
    await gathering
    const changing = app.call(method, `/api/alerts/${alert.id}`, { as: owner, ...(body && { body }) })
    await untilWaitingForLocks(db)
    goOn()
    assert.equal((await changing).status, status)
    await sender.stop(AbortSignal.abort())
    assert.equal((await readQueue(app, alert)).length, body ? 6 : 0)
  })

test('a pipeline that fails and recovers all the time is named once, with how often', async () => {
  const [id] = (await insertPipelines(1)) as [string]
  const alert = await watch()
  for (let n = 0; n < 4; n++) await endAll([id, id], n % 2 ? 'success' : 'failed')
  await endAll([id], 'failed')
  await whileSending(app, async () => {
    const { body } = await answerNext()
    assert.equal(body.text, '✕ P1 failed 3 times')
    assert.match(body.blocks[1].elements[0].text, new RegExp(`/pipelines/${id}\\|Open the pipeline>`))
    assert.equal((await answerNext()).body.text, '● P1 recovered 2 times')
    await settled(app, alert)
  })
})

test('what is over within quiet hours, or deleted, is not counted among the others', async () => {
  const ids = await insertPipelines(5)
  const minute = (offset: number) => new Date(Date.now() + offset * 60_000).toISOString().slice(11, 16)
  const alert = await watch({ quiet_hours: { from: minute(-180), to: minute(-60), time_zone: 'UTC' } })
  await endAll(ids, 'failed')
  await endAll(ids.slice(0, 1), 'success')
  // As if all of it had happened two hours ago.
  await db.execute(sql`
    UPDATE alert_incidents SET opened_at = opened_at - interval '2 hours', closed_at = closed_at - interval '2 hours' WHERE alert_id = ${alert.id}`)
  await app.call('DELETE', `/api/pipelines/${ids[1]}`, { as: owner })
  await whileSending(app, async () => {
    assert.equal((await answerNext()).body.text, '✕ 3 pipelines failed: P3, P4, P5')
    await settled(app, alert)
  })
  const dropped = (await listed(alert)).filter(({ status }) => status === 'failed').map(({ error }) => error)
  assert.deepEqual(dropped.sort(), [
    'It began and ended within quiet hours',
    'It began and ended within quiet hours',
    'The pipeline was deleted before this was sent',
  ])
})

test('a message for many outlives the pipeline that was first, and not the alert', async () => {
  const ids = await insertPipelines(3)
  const [kept, disabled] = [await watch({ on: ['failed'] }), await watch({ on: ['failed'] })]
  await endAll(ids, 'failed')
  await whileSending(app, async () => {
    for (let n = 0; n < 2; n++) (await chat.next()).answer(503)
  })
  await app.call('DELETE', `/api/pipelines/${ids[0]}`, { as: owner })
  await app.call('PUT', `/api/alerts/${disabled.id}`, { as: owner, body: { enabled: false } })
  for (const alert of [kept, disabled]) await passWindow(alert)
  await whileSending(app, async () => {
    assert.match((await answerNext()).body.text, /^✕ 3 pipelines failed/)
    for (const alert of [kept, disabled]) await settled(app, alert)
  })
  for (const { status, error } of await listed(disabled))
    assert.deepEqual([status, error], ['failed', 'The alert was disabled before this was sent'])
})

describe('a sender that dies', () => {
  const expire = ({ id }: { id: string }) =>
    db.execute(sql`UPDATE webhook_deliveries SET next_attempt_at = now() WHERE alert_id = ${id} AND status = 'pending'`)

  /** Each incident is told by one message, and each message has one id and one text, however often it comes. */
  function assertToldOnce(rows: Queued[], shown: Shown[], texts: Map<string, Set<string>>, pipelines: number): void {
    assert.equal(rows.filter(({ incident_id }) => incident_id !== null).length, pipelines)
    const messages = new Set(shown.map(({ id, told_with }) => told_with ?? id))
    assert.deepEqual(new Set(texts.keys()), messages)
    const told = [...texts.values()].map((same) => {
      assert.equal(same.size, 1)
      return [...same].join()
    })
    for (let n = 1; n <= pipelines; n++)
      assert.equal(told.filter((text) => new RegExp(`\\bP${n}\\b`).test(text)).length, 1, `P${n} in ${told}`)
    for (const { status } of shown) assert.equal(status, 'delivered')
  }

  test('with kill -9 while its message is on the way, sends it again as it was', async () => {
    const ids = await insertPipelines(6)
    const alert = await watch({ on: ['failed'] })
    await endAll(ids, 'failed')
    const { name } = (await db.first<{ name: string }>(sql`SELECT current_database() AS name`))!
    const program = fileURLToPath(new URL('../webhooks/send-until-killed.ts', import.meta.url))
    const sender = spawn(process.execPath, [program, name, SECRET], { stdio: ['ignore', 'inherit', 'inherit'] })
    const first = await chat.next()
    sender.kill('SIGKILL')
    await once(sender, 'exit')
    await insertPipeline(app, owner.organization_id, { name: 'P7' }).then((id) => endAll([id], 'failed'))
    await expire(alert)
    const texts = new Map<string, Set<string>>([
      [String(first.headers['x-sluice-delivery']), new Set([first.body.text])],
    ])
    await whileSending(app, async () => {
      for (let n = 0; n < 2; n++) {
        const { headers, body } = await answerNext()
        const id = String(headers['x-sluice-delivery'])
        texts.set(id, (texts.get(id) ?? new Set()).add(body.text))
      }
      await settled(app, alert)
    })
    assert.equal(first.body.text, '✕ 6 pipelines failed: P1, P2, P3 and 3 more')
    const rows = (await readQueue(app, alert)).filter(({ incident_id }) => incident_id !== null)
    assert.equal(rows.length, 7)
    assert.deepEqual([...texts.values()].flatMap((same) => [...same]).sort(), [
      '✕ 6 pipelines failed: P1, P2, P3 and 3 more',
      '✕ P7 failed',
    ])
  })

  test('after any of its statements, loses nothing and tells nothing twice', async () => {
    const receiver = await startReceiver()
    let received = new Map<string, Set<string>>()
    let serving = true
    const serve = async () => {
      while (serving) {
        const { headers, body, answer } = await receiver.next()
        const id = String(headers['x-sluice-delivery'])
        received.set(id, (received.get(id) ?? new Set()).add(body.blocks[0].text.text))
        answer(200)
      }
    }
    void serve()
    const ids = await insertPipelines(4)
    let survived = false
    for (let statements = 0; !survived; statements++) {
      received = new Map()
      const alert = await watch({ on: ['failed'], channel: slackTo(receiver.url) })
      await endAll(ids, 'failed')
      const { mortal, dead } = dyingAfter(db, statements)
      const sender = await startWebhookDeliveries({ ...app.services, db: mortal })
      survived = await Promise.race([dead.then(() => false), settled(app, alert).then(() => true)])
      await sender.stop()
      await expire(alert)
      await whileSending(app, () => settled(app, alert))
      assertToldOnce(await readQueue(app, alert), await listed(alert), received, 4)
      await app.call('DELETE', `/api/alerts/${alert.id}`, { as: owner })
    }
    serving = false
  })
})

/** A database that is lost for its user after so many statements; a commit is one too. */
function dyingAfter(real: Database, statements: number) {
  const { promise: dead, resolve } = Promise.withResolvers<void>()
  let used = 0
  const live = <T>(act: () => T): T => {
    if (used++ < statements) return act()
    resolve()
    throw new Error('this sender is dead')
  }
  const wrap = (some: Queryable): Queryable => ({
    query: async (statement) => live(() => some.query(statement)),
    first: async (statement) => live(() => some.first(statement)),
    execute: async (statement) => live(() => some.execute(statement)),
  })
  const mortal: Database = {
    ...real,
    ...wrap(real),
    transaction: (work) =>
      real.transaction(async (tx) => {
        const result = await work(wrap(tx))
        return live(() => result)
      }),
  }
  return { mortal, dead, used: () => used }
}
