import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { beforeEach, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { sql } from '../../src/database/database.ts'
import { notifyRun } from '../../src/database/notifications.ts'
import { type Person, registerPerson, SECRET, startApp } from '../harness/app.ts'
import { startReceiver } from '../webhooks/receiver.ts'
import { createAlert, endRun, insertPipeline, type Queued, readQueue, settled, slackTo, whileSending } from './setup.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.0/8', PUBLIC_URL: 'https://sluice.example.com' })
const { db } = app.services
const chat = await startReceiver()
const url = `${chat.url}/T0/B0/secret-of-the-chat`
let owner: Person
let pipelineId: string

beforeEach(async () => {
  await db.execute(sql`DELETE FROM webhook_deliveries`)
  owner = await registerPerson(app, 'Owner')
  pipelineId = await insertPipeline(app, owner.organization_id)
})

const watch = (more: object = {}) =>
  createAlert(app, owner, { on: ['failed', 'recovered'], channel: slackTo(url), ...more })

async function makeDue({ id }: Queued): Promise<void> {
  await db.execute(sql`UPDATE webhook_deliveries SET next_attempt_at = now() WHERE id = ${id}`)
  await db.execute(notifyRun('delivery'))
}

describe('in a chat', () => {
  test('a failure and its end are read with reason and link', async () => {
    const alert = await watch()
    await whileSending(app, async () => {
      const runId = await endRun(app, pipelineId, { status: 'failed', error: 'source: the server answered 500' })
      const failed = await chat.next()
      failed.answer(200, {}, 'ok')
      assert.equal(failed.body.text, '✕ Orders failed')
      const [section, context] = failed.body.blocks
      assert.match(
        section.text.text,
        /^\*✕ Orders failed\*\nsource: the server answered 500\nSince \d{4}-\d\d-\d\d \d\d:\d\d UTC\./,
      )
      assert.equal(
        context.elements[0].text,
        `<https://sluice.example.com/runs/${runId}|Open the run> · Sent by the alert "Tell us".`,
      )
      await endRun(app, pipelineId, { status: 'failed' })
      await endRun(app, pipelineId, { status: 'success', records: 1234 })
      const recovered = await chat.next()
      recovered.answer(200, {}, 'ok')
      assert.match(
        recovered.body.blocks[0].text.text,
        /^\*● Orders recovered\*\nA run succeeded at .* with 1,234 records; it had failed since/,
      )
    })
    const sent = await readQueue(app, alert)
    assert.deepEqual(
      sent.map(({ event, status, attempts }) => [event, status, attempts]),
      [
        ['failed', 'delivered', 1],
        ['recovered', 'delivered', 1],
      ],
    )
  })

  test('what tenants wrote calls nobody and hides nothing', async () => {
    await app.services.db.execute(sql`
      UPDATE pipelines SET name = ${'<!channel> & <https://evil.example|x> @here\n\u202e'} WHERE id = ${pipelineId}`)
    await watch({ name: '@channel <!here>' })
    await whileSending(app, async () => {
      await endRun(app, pipelineId, { status: 'failed', error: `@everyone <!here> ${'x'.repeat(50_000)}` })
      const { text, body, answer } = await chat.next()
      answer(200)
      assert.equal(body.text, '✕ &lt;!channel&gt; &amp; &lt;https://evil.example|x&gt; @\u200bhere failed')
      assert.ok(!/@(?!\u200b)|<!|\u202e/.test(text))
      assert.ok(body.blocks[0].text.text.length <= 3000)
      assert.ok(body.blocks[0].text.verbatim && body.blocks[1].elements[0].verbatim)
    })
  })

  test('what tenants wrote calls nobody in a message for many either', async () => {
    const more = Array.from({ length: 11 }, () =>
      insertPipeline(app, owner.organization_id, { name: `<!channel> @here\n\u202e${'&'.repeat(250)}` }),
    )
    const alert = await watch()
    for (const id of await Promise.all(more))
      await endRun(app, id, { status: 'failed', error: `@everyone\n<!here> ${'<'.repeat(50_000)}` })
    await whileSending(app, async () => {
      const { text, body, answer } = await chat.next()
      answer(200)
      assert.match(body.text, /^✕ 11 pipelines failed: &lt;!channel&gt; @\u200bhere &amp;/)
      assert.ok(!/@(?!\u200b)|<!|\u202e/.test(text))
      assert.ok(body.blocks[0].text.text.length <= 3000)
      await settled(app, alert)
    })
    const list = await app.call('GET', `/api/alerts/${alert.id}/deliveries?limit=1`, { as: owner })
    assert.ok(JSON.stringify(list.body[0].payload).length < 50_000)
  })

  test('a test is sent at once, in quiet hours too', async () => {
    const alert = await watch({ quiet_hours: alwaysQuiet() })
    await whileSending(app, async () => {
      const queued = await app.call('POST', `/api/alerts/${alert.id}/test`, { as: owner })
      assert.equal(queued.status, 201)
      const request = await chat.next()
      request.answer(200)
      assert.equal(request.body.text, 'A test of this alert')
      assert.equal(request.headers['x-sluice-delivery'], queued.body.id)
      await settled(app, alert)
    })
    const list = await app.call('GET', `/api/alerts/${alert.id}/deliveries`, { as: owner })
    assert.equal(list.body[0].status, 'delivered')
    assert.equal(list.body[0].response_status, 200)
  })

  test('a refusal is told without the address, and tried again', async () => {
    const alert = await watch()
    await whileSending(app, async () => {
      await endRun(app, pipelineId, { status: 'failed' })
      const request = await chat.next()
      request.answer(500, {}, `no_service for ${request.path}`)
    })
    const [row] = await readQueue(app, alert)
    assert.equal(row!.status, 'pending')
    assert.equal(row!.attempts, 1)
    assert.equal(row!.error, 'The receiver answered 500: no_service for ********')
  })

  test('a refusal that repeats only a part of the address is told without it', async () => {
    const alert = await watch()
    await whileSending(app, async () => {
      await endRun(app, pipelineId, { status: 'failed' })
      ;(await chat.next()).answer(404, {}, 'there is no token secret-of-the-chat')
      await settled(app, alert)
    })
    const list = await app.call('GET', `/api/alerts/${alert.id}/deliveries`, { as: owner })
    assert.equal(list.body[0].error, 'The receiver answered 404: there is no token ********')
  })

  test('a redirect is not followed, wherever it goes', async () => {
    const alert = await watch()
    const inside = await startReceiver()
    await whileSending(app, async () => {
      await endRun(app, pipelineId, { status: 'failed' })
      ;(await chat.next()).answer(307, { location: inside.url })
      await settled(app, alert)
    })
    assert.equal(inside.count(), 0)
    assert.match((await readQueue(app, alert))[0]!.error!, /^The receiver answered 307; redirects are not followed/)
  })

  test('nothing is sent to a private address behind a name', async () => {
    const strict = await startApp()
    const person = await registerPerson(strict, 'Strict')
    const alert = await createAlert(strict, person, {
      on: ['failed'],
      channel: slackTo(`http://localhost:${chat.port}/`),
    })
    await endRun(strict, await insertPipeline(strict, person.organization_id), { status: 'failed' })
    const before = chat.count()
    await whileSending(strict, () => settled(strict, alert))
    const [row] = await readQueue(strict, alert)
    assert.deepEqual([row!.status, row!.attempts], ['failed', 1])
    assert.match(row!.error!, /^Connections to localhost \(loopback\) are not allowed/)
    assert.equal(chat.count(), before)
  })

  test('an alert that is disabled meanwhile sends nothing', async () => {
    const alert = await watch()
    await endRun(app, pipelineId, { status: 'failed' })
    await app.call('PUT', `/api/alerts/${alert.id}`, { as: owner, body: { enabled: false } })
    const before = chat.count()
    await whileSending(app, () => settled(app, alert))
    assert.equal(chat.count(), before)
    const [row] = await readQueue(app, alert)
    assert.deepEqual(
      [row!.status, row!.attempts, row!.error],
      ['failed', 0, 'The alert was disabled before this was sent'],
    )
  })

  test('an alert about a pipeline that is gone is not sent', async () => {
    const alert = await watch()
    await endRun(app, pipelineId, { status: 'failed' })
    await app.call('DELETE', `/api/pipelines/${pipelineId}`, { as: owner })
    await whileSending(app, () => settled(app, alert))
    assert.match((await readQueue(app, alert))[0]!.error!, /^The pipeline was deleted/)
  })
})

/** All but a minute of the day, which is not this one. */
function alwaysQuiet() {
  const minute = (offset: number) => new Date(Date.now() + offset * 60_000).toISOString().slice(11, 16)
  return { from: minute(-60), to: minute(-120), time_zone: 'UTC' }
}

describe('in quiet hours', () => {
  test('an alert waits, says until when, and is sent when they are taken away', async () => {
    const alert = await watch({ quiet_hours: alwaysQuiet() })
    const before = chat.count()
    await whileSending(app, async () => {
      await endRun(app, pipelineId, { status: 'failed' })
      await settled(app, alert)
      const [held] = await readQueue(app, alert)
      assert.deepEqual([held!.status, held!.attempts], ['pending', 0])
      assert.ok(Date.parse(held!.next_attempt_at) > Date.now() + 20 * 3600_000)
      assert.equal(chat.count(), before)
      await app.call('PUT', `/api/alerts/${alert.id}`, { as: owner, body: { quiet_hours: null } })
      const request = await chat.next()
      request.answer(200)
      assert.equal(request.headers['x-sluice-delivery'], held!.id)
    })
  })

  test('what is over before they end is not sent', async () => {
    const alert = await watch({ quiet_hours: alwaysQuiet() })
    const before = chat.count()
    await whileSending(app, async () => {
      await endRun(app, pipelineId, { status: 'failed' })
      await settled(app, alert)
      await endRun(app, pipelineId, { status: 'success' })
      for (const row of await readQueue(app, alert)) await makeDue(row)
      await settled(app, alert)
    })
    assert.equal(chat.count(), before)
    const rows = await readQueue(app, alert)
    assert.equal(rows.length, 2)
    for (const { status, error } of rows)
      assert.deepEqual([status, error], ['failed', 'It began and ended within quiet hours'])
  })
})

test('a sender that is killed loses no alert: the next one sends it again, under the same id', async () => {
  const alert = await watch()
  await endRun(app, pipelineId, { status: 'failed' })
  const { name } = (await db.first<{ name: string }>(sql`SELECT current_database() AS name`))!
  const program = fileURLToPath(new URL('../webhooks/send-until-killed.ts', import.meta.url))
  const sender = spawn(process.execPath, [program, name, SECRET], { stdio: ['ignore', 'inherit', 'inherit'] })
  const first = await chat.next()
  sender.kill('SIGKILL')
  await once(sender, 'exit')
  const [left] = await readQueue(app, alert)
  assert.deepEqual([left!.status, left!.attempts], ['pending', 1])
  await makeDue(left!)
  await whileSending(app, async () => {
    const second = await chat.next()
    second.answer(200)
    assert.equal(second.headers['x-sluice-delivery'], left!.id)
    assert.equal(first.headers['x-sluice-delivery'], left!.id)
  })
  assert.deepEqual(
    (await readQueue(app, alert)).map(({ status, attempts }) => [status, attempts]),
    [['delivered', 2]],
  )
})
