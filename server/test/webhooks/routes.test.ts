import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { pino } from 'pino'
import { sql } from '../../src/database/database.ts'
import { createApp } from '../../src/http/app.ts'
import { MAX_WAITING } from '../../src/webhooks/queue.ts'
import { MAX_WEBHOOKS } from '../../src/webhooks/webhooks.ts'
import { type Organization, type Person, registerOrganization, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.0/8' })
const { db } = app.services
let acme: Organization
let other: Person

before(async () => {
  acme = await registerOrganization(app, 'Acme')
  other = await registerPerson(app, 'Other')
})

const ADDRESS = 'https://example.com/hook?channel=1'
const create = (body: object = {}, as: Person = acme.admin) =>
  app.call('POST', '/api/webhooks', { as, body: { url: ADDRESS, events: ['run.failed'], ...body } })

const shown = ['created_at', 'description', 'disabled_reason', 'enabled', 'events', 'id', 'updated_at', 'url']

describe('a webhook', () => {
  test('is created with a secret that is shown once and stored encrypted', async () => {
    const created = await create({ description: 'Chat' })
    assert.equal(created.status, 201)
    const { secret, ...webhook } = created.body
    assert.match(secret, /^whsec_[\w-]{43}$/)
    assert.deepEqual(Object.keys(webhook).sort(), shown)
    assert.equal(webhook.url, ADDRESS)
    assert.equal(webhook.enabled, true)
    assert.equal(webhook.updated_at, null)

    const read = await app.call('GET', `/api/webhooks/${webhook.id}`, { as: acme.owner })
    assert.equal(read.status, 200)
    assert.deepEqual(read.body, webhook)
    const row = await db.first<{ secret_box: Buffer }>(sql`SELECT secret_box FROM webhooks WHERE id = ${webhook.id}`)
    assert.equal(row!.secret_box.includes(secret), false)
  })

  test('accepts a secret from the caller', async () => {
    const secret = 'a secret of my own'
    const created = await create({ secret, enabled: false, events: ['run.succeeded', 'run.recovered'] })
    assert.equal(created.status, 201)
    assert.equal(created.body.secret, secret)
    assert.equal(created.body.enabled, false)
    assert.deepEqual(created.body.events, ['run.succeeded', 'run.recovered'])
  })

  test('is listed newest first with the total', async () => {
    const older = await create()
    const newer = await create()
    const list = await app.call('GET', '/api/webhooks?limit=2', { as: acme.admin })
    assert.equal(list.status, 200)
    assert.deepEqual(
      list.body.map((webhook: { id: string }) => webhook.id),
      [newer.body.id, older.body.id],
    )
    assert.deepEqual(Object.keys(list.body[0]).sort(), shown)
    const all = await app.call('GET', '/api/webhooks', { as: acme.admin })
    assert.equal(list.headers['x-total-count'], String(all.body.length))
  })

  test('changes only given fields', async () => {
    const { body: webhook } = await create({ description: 'Chat' })
    const at = `/api/webhooks/${webhook.id}`
    const changed = await app.call('PUT', at, { as: acme.admin, body: { events: ['run.succeeded'], enabled: false } })
    assert.equal(changed.status, 200)
    assert.deepEqual(changed.body.events, ['run.succeeded'])
    assert.equal(changed.body.enabled, false)
    assert.equal(changed.body.description, 'Chat')
    assert.notEqual(changed.body.updated_at, null)
    const cleared = await app.call('PUT', at, { as: acme.admin, body: { description: null, secret: 'x'.repeat(16) } })
    assert.equal(cleared.body.description, null)
    assert.deepEqual(Object.keys(cleared.body).sort(), shown)
    const same = await app.call('PUT', at, { as: acme.admin, body: {} })
    assert.deepEqual(same.body, cleared.body)
  })

  test('is deleted with its deliveries', async () => {
    const { body: webhook } = await create()
    await app.call('POST', `/api/webhooks/${webhook.id}/test`, { as: acme.admin })
    const deleted = await app.call('DELETE', `/api/webhooks/${webhook.id}`, { as: acme.admin })
    assert.equal(deleted.status, 204)
    assert.equal(deleted.text, '')
    assert.equal((await app.call('GET', `/api/webhooks/${webhook.id}`, { as: acme.admin })).status, 404)
    const left = await db.query(sql`SELECT 1 FROM webhook_deliveries WHERE webhook_id = ${webhook.id}`)
    assert.equal(left.length, 0)
  })

  const refused: [string, object, RegExp][] = [
    ['another protocol', { url: 'ftp://example.com' }, /^url: must be an address that begins with https/],
    ['no address', { url: 'example.com' }, /^url: must be an address that begins with https/],
    ['credentials', { url: 'https://user:pass@example.com' }, /^url: must not contain a user name or password/],
    ['a private address', { url: 'http://10.0.0.1/' }, /^url: connections to 10\.0\.0\.1 .* are not allowed/],
    ['metadata', { url: 'http://169.254.169.254/' }, /^url: connections to 169\.254\.169\.254 .* are not allowed/],
    ['an address in disguise', { url: 'http://0x0a000001/' }, /^url: connections to 10\.0\.0\.1 .* are not allowed/],
    ['this service', { url: 'http://127.0.0.1:8080/' }, /^url: connections to this service itself/],
    ['a short secret', { secret: 'fifteen letters' }, /^secret: must be at least 16 characters long/],
    ['no events', { events: [] }, /^events: /],
    ['unknown events', { events: ['run.started'] }, /^events\.0: must be one of "run\.failed"/],
    ['an event twice', { events: ['run.failed', 'run.failed'] }, /^events: /],
    ['text for a boolean', { enabled: 'yes' }, /^enabled: must be a boolean/],
  ]
  for (const [what, body, sentence] of refused) {
    test(`is refused with ${what}, at creation and at a change`, async () => {
      const { body: webhook } = await create()
      for (const answer of [
        await create(body),
        await app.call('PUT', `/api/webhooks/${webhook.id}`, { as: acme.admin, body }),
      ]) {
        assert.equal(answer.status, 400)
        assert.match(answer.body.detail, sentence)
      }
    })
  }

  test('cannot be added beyond the limit, even concurrently', async () => {
    const crowd = await registerPerson(app, 'Crowd')
    const answers = await Promise.all(Array.from({ length: MAX_WEBHOOKS + 5 }, () => create({}, crowd)))
    const statuses = answers.map((answer) => answer.status)
    assert.equal(statuses.filter((status) => status === 201).length, MAX_WEBHOOKS)
    assert.equal(statuses.filter((status) => status === 409).length, 5)
  })
})

describe('a test', () => {
  test('queues a delivery and returns it', async () => {
    const { body: webhook } = await create()
    const at = `/api/webhooks/${webhook.id}`
    const first = await app.call('POST', `${at}/test`, { as: acme.admin })
    assert.equal(first.status, 201)
    assert.equal(first.body.event, 'test')
    assert.equal(first.body.status, 'pending')
    assert.equal(first.body.attempts, 0)
    assert.equal(first.body.payload.webhook_id, webhook.id)
    const second = await app.call('POST', `${at}/test`, { as: acme.admin })
    const page = await app.call('GET', `${at}/deliveries?limit=1&offset=1`, { as: acme.admin })
    assert.equal(page.status, 200)
    assert.equal(page.headers['x-total-count'], '2')
    assert.deepEqual(page.body, [first.body])
    const newest = await app.call('GET', `${at}/deliveries?limit=1`, { as: acme.admin })
    assert.deepEqual(newest.body, [second.body])
  })

  test('and a repetition are refused while a hundred deliveries wait, even concurrently', async () => {
    const { body: webhook } = await create()
    const at = `/api/webhooks/${webhook.id}`
    const send = (path = 'test') => app.call('POST', `${at}/${path}`, { as: acme.admin })
    const answers = await Promise.all(Array.from({ length: MAX_WAITING + 5 }, () => send()))
    const refused = answers.filter(({ status }) => status === 429)
    assert.equal(answers.filter(({ status }) => status === 201).length, MAX_WAITING)
    assert.equal(refused.length, 5)
    assert.match(refused[0]!.body.detail, /^100 deliveries of this webhook are waiting/)
    assert.equal(refused[0]!.headers['retry-after'], '60')
    const ended = await db.first<{ id: string }>(sql`
      UPDATE webhook_deliveries SET status = 'delivered', finished_at = now()
       WHERE id = (SELECT id FROM webhook_deliveries WHERE webhook_id = ${webhook.id} LIMIT 1) RETURNING id`)
    const again = () => send(`deliveries/${ended!.id}/resend`)
    assert.equal((await again()).status, 201, 'there is room for one')
    assert.equal((await again()).status, 429)
    const { body: other } = await create()
    assert.equal((await app.call('POST', `/api/webhooks/${other.id}/test`, { as: acme.admin })).status, 201)
  })

  test('of a disabled webhook is refused', async () => {
    const { body: webhook } = await create({ enabled: false })
    const answer = await app.call('POST', `/api/webhooks/${webhook.id}/test`, { as: acme.admin })
    assert.equal(answer.status, 409)
    assert.match(answer.body.detail, /disabled; enable it/)
  })
})

describe('access', () => {
  const requests = (id: string): [string, string, object?][] => [
    ['GET', '/api/webhooks'],
    ['POST', '/api/webhooks', { url: ADDRESS, events: ['run.failed'] }],
    ['GET', `/api/webhooks/${id}`],
    ['PUT', `/api/webhooks/${id}`, { enabled: false }],
    ['DELETE', `/api/webhooks/${id}`],
    ['GET', `/api/webhooks/${id}/deliveries`],
    ['POST', `/api/webhooks/${id}/test`],
  ]

  test('is for admins and owners only', async () => {
    const { body: webhook } = await create()
    for (const [method, url, body] of requests(webhook.id)) {
      assert.equal((await app.call(method, url, { body })).status, 401, `${method} ${url}`)
      for (const as of [acme.member, acme.viewer]) {
        const answer = await app.call(method, url, { as, body })
        assert.equal(answer.status, 403, `${method} ${url}`)
        assert.match(answer.body.detail, /webhooks:write/)
      }
    }
    const read = await app.call('GET', `/api/webhooks/${webhook.id}`, { as: acme.owner })
    assert.equal(read.body.enabled, true)
  })

  test("to another organization's webhook is answered as if it did not exist", async () => {
    const { body: webhook } = await create()
    const unknown = requests(randomUUID()).slice(2)
    for (const [index, [method, url, body]] of requests(webhook.id).slice(2).entries()) {
      const answer = await app.call(method, url, { as: other, body })
      const nothing = await app.call(method, unknown[index]![1], { as: other, body })
      assert.equal(answer.status, 404, `${method} ${url}`)
      assert.deepEqual(answer.body, nothing.body)
    }
    const list = await app.call('GET', '/api/webhooks', { as: other })
    assert.deepEqual(list.body, [])
    const read = await app.call('GET', `/api/webhooks/${webhook.id}`, { as: acme.owner })
    const { secret: _, ...kept } = webhook
    assert.deepEqual(read.body, kept)
  })

  test('leaves no secret and no path of the URL in the audit log or in the log', async () => {
    const lines: string[] = []
    const log = pino({ level: 'trace' }, { write: (line: string) => void lines.push(line) })
    const logged = await createApp({ ...app.services, log })
    const send = async (method: 'POST' | 'PUT', url: string, payload: object) => {
      const headers = { authorization: `Bearer ${acme.admin.access_token}` }
      const answer = await logged.inject({ method, url, payload, headers })
      return { status: answer.statusCode, body: answer.json() }
    }
    const secrets = ['first-secret-of-mine', 'second-secret-of-mine', 'path-of-the-address', 'too-short-one']
    const [first, second, path, short] = secrets
    const url = `https://example.com/${path}`
    const created = await send('POST', '/api/webhooks', { url, secret: first, events: ['run.failed'] })
    assert.equal(created.status, 201)
    assert.equal((await send('PUT', `/api/webhooks/${created.body.id}`, { secret: second })).status, 200)
    assert.equal((await send('PUT', `/api/webhooks/${created.body.id}`, { secret: short })).status, 400)
    await logged.close()

    const audited = await db.query<{ action: string; details: object }>(
      sql`SELECT action, details FROM audit_log WHERE object_id = ${created.body.id} ORDER BY id`,
    )
    assert.deepEqual(
      audited.map(({ action }) => action),
      ['webhook.created', 'webhook.updated'],
    )
    assert.deepEqual(audited[0]!.details, { host: 'example.com', events: ['run.failed'] })
    assert.ok(lines.length >= 3, 'requests are logged')
    for (const secret of secrets) {
      assert.equal(JSON.stringify(audited).includes(secret), false)
      assert.equal(lines.join('').includes(secret), false)
    }
  })
})
