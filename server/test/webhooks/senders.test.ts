import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { beforeEach, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { sql } from '../../src/database/database.ts'
import { BACK_OFF_MS, delayAfter, startWebhookDeliveries } from '../../src/webhooks/deliveries.ts'
import { claimDeliveries, noteDelivered, noteFailed, removeOldDeliveries } from '../../src/webhooks/queue.ts'
import { type Person, registerPerson, SECRET, startApp } from '../harness/app.ts'
import { type Received, startReceiver } from './receiver.ts'
import { createHook, type Hook, makeDue, readDeliveries, sendTest, whileSending } from './setup.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.0/8' })
const { db } = app.services
const receiver = await startReceiver()
let owner: Person

beforeEach(async () => {
  owner = await registerPerson(app, 'Owner')
  await db.execute(sql`DELETE FROM webhook_deliveries`)
})

const queue = (hook: Hook, person: Person, count: number) =>
  db.execute(sql`
    INSERT INTO webhook_deliveries (webhook_id, organization_id, event, payload)
    SELECT ${hook.id}, ${person.organization_id}, 'test', '{}' FROM generate_series(1, ${count})`)

describe('a sender', () => {
  test('that is killed loses nothing: the next one sends the delivery again, under the same id', async () => {
    const hook = await createHook(app, owner, receiver.url)
    const { id } = await sendTest(app, owner, hook)
    const { name } = (await db.first<{ name: string }>(sql`SELECT current_database() AS name`))!
    const program = fileURLToPath(new URL('./send-until-killed.ts', import.meta.url))
    const sender = spawn(process.execPath, [program, name, SECRET], { stdio: ['ignore', 'inherit', 'inherit'] })
    const first = await receiver.next()
    sender.kill('SIGKILL')
    await once(sender, 'exit')

    const [left] = await readDeliveries(app, owner, hook)
    assert.equal(left!.status, 'pending')
    assert.ok(Date.parse(left!.next_attempt_at!) > Date.now() + 30_000, 'it is on lease')
    await makeDue(app, id)
    await whileSending(app, async () => {
      const second = await receiver.next()
      assert.equal(second.headers['x-sluice-delivery'], id)
      assert.equal(first.headers['x-sluice-delivery'], id)
      assert.equal(second.text, first.text)
      second.answer(200)
    })
    const [row] = await readDeliveries(app, owner, hook)
    assert.equal(row!.status, 'delivered')
    assert.equal(row!.attempts, 2)
  })

  test('that stops aborts at its deadline and leaves its deliveries to others, uncounted', async () => {
    const hook = await createHook(app, owner, receiver.url)
    await sendTest(app, owner, hook)
    const sender = await startWebhookDeliveries(app.services)
    await receiver.next()
    await sender.stop(AbortSignal.abort())
    const [row] = await readDeliveries(app, owner, hook)
    assert.equal(row!.status, 'pending')
    assert.equal(row!.attempts, 0)
    assert.ok(Date.parse(row!.next_attempt_at!) <= Date.now() + 1000)
  })

  test('that lost its lease changes nothing', async () => {
    const hook = await createHook(app, owner, receiver.url)
    const { id } = await sendTest(app, owner, hook)
    const limits = { free: 1, perOrganization: 1, busy: new Map() }
    const [paused] = await claimDeliveries(db, limits)
    assert.deepEqual(await claimDeliveries(db, limits), [])
    await makeDue(app, id)
    const [current] = await claimDeliveries(db, limits)
    assert.equal(current!.id, paused!.id)
    assert.equal(await noteFailed(db, paused!, { response_status: 500, error: 'late' }), 0)
    assert.equal(await noteDelivered(db, paused!, 200), 0)
    assert.equal(await noteDelivered(db, current!, 200), 1)
    assert.equal(await noteFailed(db, current!, { response_status: 500, error: 'after its end' }), 0)
  })

  test('shares with others: what two of them send arrives once', async () => {
    const hook = await createHook(app, owner, receiver.url)
    const people = await Promise.all(['A', 'B', 'C'].map((name) => registerPerson(app, name)))
    const hooks = await Promise.all(people.map((person) => createHook(app, person, receiver.url)))
    const count = 40
    await queue(hook, owner, count)
    for (const [index, person] of people.entries()) await queue(hooks[index]!, person, count)
    const ids: string[] = []
    await whileSending(app, () =>
      whileSending(app, async () => {
        for (let index = 0; index < 4 * count; index++) {
          const request = await receiver.next()
          ids.push(String(request.headers['x-sluice-delivery']))
          request.answer(200)
        }
      }),
    )
    assert.equal(new Set(ids).size, 4 * count)
    const rows = await db.query<{ status: string; attempts: number }>(
      sql`SELECT DISTINCT status, attempts FROM webhook_deliveries`,
    )
    assert.deepEqual(rows, [{ status: 'delivered', attempts: 1 }])
  })

  test('gives every organization its turn, whatever another has pending', async () => {
    const hook = await createHook(app, owner, `${receiver.url}/slow`)
    await queue(hook, owner, 2000)
    const other = await registerPerson(app, 'Other')
    const quick = await createHook(app, other, `${receiver.url}/quick`)
    await whileSending(app, async () => {
      const hanging: Received[] = []
      for (let index = 0; index < 4; index++) hanging.push(await receiver.next())
      await sendTest(app, other, quick)
      const request = await receiver.next()
      assert.equal(request.path, '/hook/quick')
      request.answer(200)
      await db.execute(sql`DELETE FROM webhook_deliveries WHERE webhook_id = ${hook.id} AND attempts = 0`)
      for (const { path, answer } of hanging) {
        assert.equal(path, '/hook/slow')
        answer(200)
      }
    })
    const [row] = await readDeliveries(app, other, quick)
    assert.equal(row!.status, 'delivered')
  })

  test('removes deliveries that ended 30 days ago', async () => {
    const hook = await createHook(app, owner, receiver.url)
    const statuses = ['delivered', 'failed']
    for (const [index, days] of [31, 29].entries())
      await db.execute(sql`
        INSERT INTO webhook_deliveries (webhook_id, organization_id, event, payload, status, created_at, finished_at)
        SELECT ${hook.id}, ${owner.organization_id}, 'test', '{}', ${statuses[index]}, now() - make_interval(days => 40), now() - make_interval(days => ${days})
          FROM generate_series(1, 3)`)
    assert.equal(await removeOldDeliveries(db), 3)
    const left = await readDeliveries(app, owner, hook)
    assert.deepEqual(
      left.map(({ status }) => status),
      ['failed', 'failed', 'failed'],
    )
  })
})

describe('the time until the next attempt', () => {
  test('grows, with 20% jitter', () => {
    for (const [index, backOff] of BACK_OFF_MS.entries())
      for (let round = 0; round < 100; round++) {
        const delay = delayAfter(index + 1, 0)
        assert.ok(delay >= backOff * 0.8 && delay <= backOff * 1.2, `${delay} after ${index + 1}`)
      }
  })

  test('is at least what the receiver asks for', () => {
    assert.ok(delayAfter(1, 600_000) >= 600_000)
  })
})
