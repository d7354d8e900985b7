/** Webhooks whose receiver does not answer, and deliveries that are sent again. */
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { registerPerson, startApp } from '../harness/app.ts'
import { startReceiver } from './receiver.ts'
import { createHook, type Hook, readDeliveries, sendTest, whileSending } from './setup.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.0/8' })
const { db } = app.services
const owner = await registerPerson(app, 'Owner')
const receiver = await startReceiver()
const read = async (hook: Hook) => (await app.call('GET', `/api/webhooks/${hook.id}`, { as: owner })).body
const failSince = (hook: Hook, days: number) =>
  db.execute(sql`UPDATE webhooks SET failing_since = now() - make_interval(days => ${days}) WHERE id = ${hook.id}`)

/** Sends one delivery, which is answered with this status. */
async function deliver(hook: Hook, status: number): Promise<void> {
  await whileSending(app, async () => {
    await sendTest(app, owner, hook)
    const request = await receiver.next()
    request.answer(status)
  })
}

describe('a webhook', () => {
  test('without a successful delivery for three days is disabled with a reason; enabling it resets this', async () => {
    const hook = await createHook(app, owner, receiver.url)
    await deliver(hook, 500)
    assert.deepEqual([(await read(hook)).enabled, (await read(hook)).disabled_reason], [true, null])
    await failSince(hook, 4)
    await deliver(hook, 500)
    const disabled = await read(hook)
    assert.equal(disabled.enabled, false)
    assert.match(disabled.disabled_reason, /no delivery succeeded for 3 days; the last attempt: .*500/)
    const enabled = await app.call('PUT', `/api/webhooks/${hook.id}`, { as: owner, body: { enabled: true } })
    assert.deepEqual([enabled.body.enabled, enabled.body.disabled_reason], [true, null])
    await deliver(hook, 500)
    assert.equal((await read(hook)).enabled, true, 'one failure more is only the first of a new count')
  })

  test('with a successful delivery in between is counted from there', async () => {
    const hook = await createHook(app, owner, receiver.url)
    await failSince(hook, 4)
    await deliver(hook, 200)
    await deliver(hook, 500)
    assert.equal((await read(hook)).enabled, true)
  })
})

describe('a delivery', () => {
  test('is resent under a new id, with the same payload', async () => {
    const hook = await createHook(app, owner, receiver.url)
    await deliver(hook, 410)
    const [first] = await readDeliveries(app, owner, hook)
    assert.equal(first!.status, 'failed')
    const at = `/api/webhooks/${hook.id}/deliveries`
    await whileSending(app, async () => {
      const again = await app.call('POST', `${at}/${first!.id}/resend`, { as: owner })
      assert.equal(again.status, 201)
      assert.notEqual(again.body.id, first!.id)
      assert.deepEqual([again.body.event, again.body.payload], [first!.event, first!.payload])
      const request = await receiver.next()
      request.answer(200)
    })
    assert.deepEqual(
      (await readDeliveries(app, owner, hook)).map(({ status }) => status),
      ['delivered', 'failed'],
    )
  })

  test('that is still pending, is unknown, or belongs to a disabled webhook is not resent', async () => {
    const hook = await createHook(app, owner, receiver.url)
    const pending = await sendTest(app, owner, hook)
    const resend = async (id: string) =>
      (await app.call('POST', `/api/webhooks/${hook.id}/deliveries/${id}/resend`, { as: owner })).status
    assert.equal(await resend(pending.id), 409)
    assert.equal(await resend(hook.id), 404)
    await db.execute(sql`UPDATE webhook_deliveries SET status = 'failed', finished_at = now() WHERE id = ${pending.id}`)
    await app.call('PUT', `/api/webhooks/${hook.id}`, { as: owner, body: { enabled: false } })
    assert.equal(await resend(pending.id), 409)
  })
})
