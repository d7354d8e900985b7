import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'node:test'
import { pino } from 'pino'
import { sql } from '../../src/database/database.ts'
import { MAX_ATTEMPTS, startWebhookDeliveries } from '../../src/webhooks/deliveries.ts'
import type { DeliveryRow } from '../../src/webhooks/webhooks.ts'
import { type Person, registerPerson, startApp } from '../harness/app.ts'
import { type Received, startReceiver, verify } from './receiver.ts'
import { createHook, endRun, insertPipeline, makeDue, readDeliveries, sendTest, whileSending } from './setup.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.0/8' })
const { db } = app.services
const receiver = await startReceiver()
/** A separate organization for each test; otherwise events would also go to the webhooks of others. */
let owner: Person

beforeEach(async () => {
  owner = await registerPerson(app, 'Owner')
})

/** One test delivery, answered once; returns the row afterwards. */
async function attemptOnce(answer: (request: Received) => void, url = receiver.url): Promise<DeliveryRow> {
  const hook = await createHook(app, owner, url)
  await whileSending(app, async () => {
    await sendTest(app, owner, hook)
    answer(await receiver.next())
  })
  return (await readDeliveries(app, owner, hook))[0]!
}

const secondsUntil = (row: DeliveryRow) => (Date.parse(row.next_attempt_at!) - Date.now()) / 1000

describe('a delivery', () => {
  test('is signed, named and recorded', async () => {
    const hook = await createHook(app, owner, `${receiver.url}?a=b`)
    let queued!: DeliveryRow
    await whileSending(app, async () => {
      const asked = performance.now()
      queued = await sendTest(app, owner, hook)
      const request = await receiver.next()
      assert.ok(performance.now() - asked < 10_000, 'it is sent when it is told, not when the loop looks by itself')
      assert.equal(request.path, '/hook?a=b')
      assert.equal(request.headers['content-type'], 'application/json')
      assert.equal(request.headers['x-sluice-event'], 'test')
      assert.equal(request.headers['x-sluice-delivery'], queued.id)
      assert.equal(request.headers['x-sluice-attempt'], '1')
      assert.equal(request.body.id, queued.id)
      assert.equal(request.body.event, 'test')
      assert.equal(request.body.created_at, queued.created_at)
      assert.ok(verify(request, hook.secret))
      assert.equal(verify(request, `${hook.secret}x`), false)
      assert.equal(verify({ ...request, text: `${request.text} ` }, hook.secret), false)
      request.answer(204)
    })
    const [row] = await readDeliveries(app, owner, hook)
    assert.equal(row!.id, queued.id)
    assert.equal(row!.status, 'delivered')
    assert.equal(row!.attempts, 1)
    assert.equal(row!.response_status, 204)
    assert.equal(row!.error, null)
    assert.equal(row!.next_attempt_at, null)
    assert.notEqual(row!.finished_at, null)
  })

  test('is sent for a failed run, then for a success that is also a recovery', async () => {
    const events = ['run.failed', 'run.succeeded', 'run.recovered']
    const hook = await createHook(app, owner, receiver.url, events)
    const pipelineId = await insertPipeline(app, owner.organization_id)
    const take = async (count: number) => {
      const requests = []
      for (let index = 0; index < count; index++) {
        const request = await receiver.next()
        assert.ok(verify(request, hook.secret))
        request.answer(200)
        requests.push(request)
      }
      return requests
    }
    await whileSending(app, async () => {
      const failedId = await endRun(app, owner.organization_id, pipelineId, 'failed')
      const [failed] = await take(1)
      assert.equal(failed!.headers['x-sluice-event'], 'run.failed')
      assert.equal(failed!.body.event, 'run.failed')
      assert.equal(failed!.body.run.id, failedId)
      assert.equal(failed!.body.run.pipeline_id, pipelineId)
      assert.equal(failed!.body.run.pipeline_name, 'Orders')
      assert.equal(failed!.body.run.error, 'source: the server answered 500')

      await endRun(app, owner.organization_id, pipelineId, 'success')
      const succeeded = await take(2)
      assert.deepEqual(succeeded.map(({ body }) => body.event).sort(), ['run.recovered', 'run.succeeded'])
      await endRun(app, owner.organization_id, pipelineId, 'success')
      const [again] = await take(1)
      assert.equal(again!.body.event, 'run.succeeded')
    })
    const rows = await readDeliveries(app, owner, hook)
    assert.deepEqual(new Set(rows.map(({ status }) => status)), new Set(['delivered']))
    assert.equal(rows.length, 4)
  })

  test('is signed with the current secret', async () => {
    const hook = await createHook(app, owner, receiver.url)
    const secret = 'another secret by now'
    await whileSending(app, async () => {
      const delivery = await sendTest(app, owner, hook)
      const first = await receiver.next()
      await app.call('PUT', `/api/webhooks/${hook.id}`, { as: owner, body: { secret } })
      first.answer(500)
      await makeDueWhenNoted(delivery.id)
      const second = await receiver.next()
      assert.ok(verify(first, hook.secret))
      assert.ok(verify(second, secret))
      second.answer(200)
    })
  })
})

/** A test cannot see when an answer is recorded; afterwards the row's attempt is no longer leased. */
async function makeDueWhenNoted(deliveryId: string): Promise<void> {
  for (;;) {
    const row = await db.first(
      sql`SELECT 1 FROM webhook_deliveries WHERE id = ${deliveryId} AND response_status IS NOT NULL`,
    )
    if (row) return makeDue(app, deliveryId)
    await new Promise(setImmediate)
  }
}

describe('a failed delivery', () => {
  test('is retried after a while, with the same id and the same body', async () => {
    const hook = await createHook(app, owner, receiver.url)
    const body = `no ${'x'.repeat(300)}`
    const first = await whileSending(app, async () => {
      await sendTest(app, owner, hook)
      const request = await receiver.next()
      request.answer(500, {}, body)
      return request
    })
    const [failed] = await readDeliveries(app, owner, hook)
    assert.equal(failed!.status, 'pending')
    assert.equal(failed!.attempts, 1)
    assert.equal(failed!.response_status, 500)
    assert.equal(failed!.error, `The receiver answered 500: ${body.slice(0, 200)}`)
    assert.equal(failed!.finished_at, null)
    assert.ok(secondsUntil(failed!) > 6 && secondsUntil(failed!) < 12.5, `in ${secondsUntil(failed!)} s`)

    await makeDue(app, failed!.id)
    await whileSending(app, async () => {
      const second = await receiver.next()
      assert.equal(second.headers['x-sluice-delivery'], failed!.id)
      assert.equal(second.headers['x-sluice-attempt'], '2')
      assert.equal(second.text, first.text)
      assert.ok(verify(second, hook.secret))
      second.answer(200)
    })
    const [delivered] = await readDeliveries(app, owner, hook)
    assert.equal(delivered!.status, 'delivered')
    assert.equal(delivered!.attempts, 2)
    assert.equal(delivered!.error, null)
  })

  test("is not retried before the receiver's Retry-After", async () => {
    const row = await attemptOnce((request) => request.answer(503, { 'retry-after': '600' }))
    assert.equal(row.status, 'pending')
    assert.ok(secondsUntil(row) > 595 && secondsUntil(row) < 665, `in ${secondsUntil(row)} s`)
  })

  test('is retried after a day at the latest, whatever the receiver asks for', async () => {
    const row = await attemptOnce((request) => request.answer(503, { 'retry-after': '99999999999' }))
    assert.ok(secondsUntil(row) > 86_000 && secondsUntil(row) < 96_000, `in ${secondsUntil(row)} s`)
  })

  test('is given up after the last attempt', async () => {
    const hook = await createHook(app, owner, receiver.url)
    const { id } = await sendTest(app, owner, hook)
    await db.execute(sql`UPDATE webhook_deliveries SET attempts = ${MAX_ATTEMPTS - 1} WHERE id = ${id}`)
    await whileSending(app, async () => (await receiver.next()).answer(500))
    const [row] = await readDeliveries(app, owner, hook)
    assert.equal(row!.status, 'failed')
    assert.equal(row!.attempts, MAX_ATTEMPTS)
    assert.equal(row!.error, 'The receiver answered 500')
    assert.notEqual(row!.finished_at, null)
  })

  test('is given up at once if the receiver answers 410', async () => {
    const row = await attemptOnce((request) => request.answer(410))
    assert.equal(row.status, 'failed')
    assert.equal(row.attempts, 1)
  })

  test('does not follow a redirect of the receiver', async () => {
    const before = receiver.count()
    const row = await attemptOnce((request) => request.answer(307, { location: `${receiver.url}/elsewhere` }))
    assert.equal(row.status, 'pending')
    assert.equal(row.response_status, 307)
    assert.match(row.error!, /redirects are not followed/)
    assert.equal(receiver.count(), before + 1)
  })

  test('is explained if nothing listens', async () => {
    const hook = await createHook(app, owner, 'http://127.0.0.1:1/')
    const { id } = await sendTest(app, owner, hook)
    await whileSending(app, async () => {
      for (let row: { error: string | null } | null = null; !row?.error; await new Promise(setImmediate))
        row = await db.first(sql`SELECT error FROM webhook_deliveries WHERE id = ${id}`)
    })
    const [row] = await readDeliveries(app, owner, hook)
    assert.equal(row!.status, 'pending')
    assert.equal(row!.response_status, null)
    assert.match(row!.error!, /127\.0\.0\.1/)
  })

  test('counts as delivered although the body of the answer is endless', async () => {
    const began = performance.now()
    const row = await attemptOnce((request) => request.answer(200, { 'content-length': '1000000000' }, 'much'))
    assert.equal(row.status, 'delivered')
    assert.ok(performance.now() - began < 9000, 'nobody waits for it')
  })

  test('leaves neither the secret nor control characters in the row or the log', async () => {
    const lines: string[] = []
    const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })
    const hook = await createHook(app, owner, receiver.url)
    const sender = await startWebhookDeliveries({ ...app.services, log })
    await sendTest(app, owner, hook)
    ;(await receiver.next()).answer(400, {}, `your secret is\r\n\u0000\u001b[31m${hook.secret}`)
    await sender.stop()
    const [row] = await readDeliveries(app, owner, hook)
    assert.equal(row!.error, 'The receiver answered 400: your secret is [31m********')
    assert.equal(lines.join('').includes(hook.secret), false)
  })
})

describe('a forbidden delivery', () => {
  test('is not sent to a private address behind a name', async () => {
    const strict = await startApp()
    const person = await registerPerson(strict, 'Strict')
    const hook = await createHook(strict, person, `http://localhost:${receiver.port}/`)
    const before = receiver.count()
    const { id } = await sendTest(strict, person, hook)
    await whileSending(strict, async () => {
      for (let row: unknown = null; !row; await new Promise(setImmediate))
        row = await strict.services.db.first(
          sql`SELECT 1 FROM webhook_deliveries WHERE id = ${id} AND status = 'failed'`,
        )
    })
    const [row] = await readDeliveries(strict, person, hook)
    assert.equal(row!.attempts, 1)
    assert.match(row!.error!, /^Connections to localhost \(loopback\) are not allowed/)
    assert.equal(receiver.count(), before)
  })

  test('is not sent if the webhook was disabled meanwhile, nor afterwards', async () => {
    const hook = await createHook(app, owner, receiver.url)
    const { id } = await sendTest(app, owner, hook)
    const at = `/api/webhooks/${hook.id}`
    await app.call('PUT', at, { as: owner, body: { enabled: false } })
    const pipelineId = await insertPipeline(app, owner.organization_id)
    await endRun(app, owner.organization_id, pipelineId, 'failed')
    const before = receiver.count()
    await whileSending(app, async () => {
      for (let row: unknown = null; !row; await new Promise(setImmediate))
        row = await db.first(sql`SELECT 1 FROM webhook_deliveries WHERE id = ${id} AND status = 'failed'`)
    })
    const rows = await readDeliveries(app, owner, hook)
    assert.equal(rows.length, 1, 'the run queued nothing')
    assert.equal(rows[0]!.attempts, 0)
    assert.match(rows[0]!.error!, /disabled before this was sent/)
    assert.equal(receiver.count(), before)
  })
})
