import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { before, describe, test } from 'node:test'
import { MAX_ALERTS } from '../../src/alerts/alerts.ts'
import { sql } from '../../src/database/database.ts'
import { MAX_WAITING } from '../../src/webhooks/queue.ts'
import { type Organization, type Person, registerOrganization, registerPerson, startApp } from '../harness/app.ts'
import { insertPipeline } from './setup.ts'

const app = await startApp()
const { db } = app.services
let acme: Organization
let other: Person

before(async () => {
  acme = await registerOrganization(app, 'Acme')
  other = await registerPerson(app, 'Other')
})

const ADDRESS = 'https://hooks.example.com/services/T0/B0/secret'
const SHOWN = 'https://hooks.example.com/********'
const create = (body: object = {}, as: Person = acme.admin) =>
  app.call('POST', '/api/alerts', {
    as,
    body: { name: 'On call', on: ['failed'], channel: { type: 'slack', url: ADDRESS }, ...body },
  })
const change = (id: string, body: object, as: Person = acme.admin) => app.call('PUT', `/api/alerts/${id}`, { as, body })

describe('an alert', () => {
  test('is created for the whole organization, and its address is stored encrypted and never shown again', async () => {
    const created = await create({ name: '  On call ' })
    assert.equal(created.status, 201, created.text)
    const { id, created_at, ...alert } = created.body
    assert.deepEqual(alert, {
      name: 'On call',
      domain_id: null,
      pipeline_id: null,
      on: ['failed'],
      late_after_minutes: null,
      min_records: null,
      max_records: null,
      channel: { type: 'slack', url: SHOWN },
      quiet_hours: null,
      enabled: true,
      open_incidents: 0,
      updated_at: null,
    })
    assert.ok(Date.parse(created_at))
    const read = await app.call('GET', `/api/alerts/${id}`, { as: acme.owner })
    assert.deepEqual(read.body, created.body)
    const row = await db.first<{ channel_box: Buffer }>(sql`SELECT channel_box FROM alerts WHERE id = ${id}`)
    assert.equal(row!.channel_box.includes('secret'), false)
    const audited = await db.query<{ details: object }>(sql`SELECT details FROM audit_log WHERE object_id = ${id}`)
    assert.ok(!JSON.stringify(audited).includes('secret'))
  })

  test('keeps its address when the mask is sent back, and refuses the mask of another', async () => {
    const { body } = await create()
    const read = async () =>
      (await db.first<{ channel_box: Buffer }>(sql`SELECT channel_box FROM alerts WHERE id = ${body.id}`))!.channel_box
    const opened = async () => {
      const place = { organization_id: acme.id, column: 'alerts.channel_box', row_id: body.id }
      return app.services.box.open(place, await read())
    }
    assert.equal((await change(body.id, { channel: body.channel, name: 'b' })).status, 200)
    assert.deepEqual(await opened(), { type: 'slack', url: ADDRESS })
    const foreign = await change(body.id, { channel: { type: 'slack', url: 'https://evil.example.com/********' } })
    assert.equal(foreign.status, 400)
    assert.equal(foreign.body.detail, 'channel.url: is a mask; give the whole address')
    assert.equal((await create({ channel: { type: 'slack', url: SHOWN } })).status, 400)
  })

  test('is listed newest first with the total', async () => {
    const older = await create()
    const newer = await create()
    const list = await app.call('GET', '/api/alerts?limit=2', { as: acme.admin })
    assert.deepEqual(
      list.body.map(({ id }: { id: string }) => id),
      [newer.body.id, older.body.id],
    )
    assert.ok(Number(list.headers['x-total-count']) >= 2)
  })

  test('changes only given fields, and null clears', async () => {
    const quiet_hours = { from: '22:00', to: '07:00', time_zone: 'Europe/Berlin', days: ['sat'] }
    const { body } = await create({ on: ['failed', 'late'], late_after_minutes: 90, quiet_hours })
    const renamed = await change(body.id, { ...body, name: 'b' })
    assert.equal(renamed.status, 200, renamed.text)
    assert.deepEqual({ ...renamed.body, updated_at: null }, { ...body, name: 'b' })
    const cleared = await change(body.id, {
      on: ['row_count'],
      late_after_minutes: null,
      max_records: 5,
      quiet_hours: null,
    })
    assert.equal(cleared.status, 200, cleared.text)
    assert.equal(cleared.body.quiet_hours, null)
    assert.equal(cleared.body.max_records, 5)
    assert.deepEqual((await change(body.id, {})).body, cleared.body)
  })

  test('is deleted with its deliveries', async () => {
    const { body } = await create()
    assert.equal((await app.call('POST', `/api/alerts/${body.id}/test`, { as: acme.admin })).status, 201)
    assert.equal((await app.call('DELETE', `/api/alerts/${body.id}`, { as: acme.admin })).status, 204)
    assert.equal((await app.call('GET', `/api/alerts/${body.id}`, { as: acme.admin })).status, 404)
    assert.equal((await db.query(sql`SELECT 1 FROM webhook_deliveries WHERE alert_id = ${body.id}`)).length, 0)
  })

  const slack = (url: unknown) => ({ channel: { type: 'slack', url } })
  const quiet = (more: object) => ({ quiet_hours: { from: '22:00', to: '07:00', time_zone: 'UTC', ...more } })
  const refused: [string, object, RegExp][] = [
    ['no event', { on: [] }, /^on: /],
    ['an unknown event', { on: ['succeeded'] }, /^on\.0: must be one of "failed"/],
    ['an event twice', { on: ['failed', 'failed'] }, /^on: /],
    ['recovery alone', { on: ['recovered'] }, /^on: recovered needs at least one of failed, late, row_count/],
    ['late without a time', { on: ['late'] }, /^late_after_minutes: is required with late/],
    ['a time without late', { late_after_minutes: 5 }, /^late_after_minutes: is only for late/],
    ['no time at all', { on: ['late'], late_after_minutes: 0 }, /^late_after_minutes: /],
    ['a range without limits', { on: ['row_count'] }, /^min_records: give min_records, max_records or both/],
    ['limits without row_count', { min_records: 5 }, /are only for row_count/],
    ['an empty range', { on: ['row_count'], min_records: 5, max_records: 4 }, /^max_records: must not be less/],
    ['a negative limit', { on: ['row_count'], min_records: -1 }, /^min_records: /],
    ['both scopes', { domain_id: randomUUID(), pipeline_id: randomUUID() }, /^domain_id: give either/],
    ['a blank name', { name: ' ' }, /^name: must not be blank/],
    ['an unknown field', { onn: ['failed'] }, /onn/],
    ['an unknown field of the channel', { channel: { type: 'slack', url: ADDRESS, uri: 'x' } }, /uri/],
    ['no address', slack(undefined), /^channel\.url: is required/],
    ['another protocol', slack('ftp://example.com'), /^channel\.url: must be an address that begins with https/],
    ['a password', slack('https://a:b@example.com/'), /^channel\.url: must not contain a user name or password/],
    ['a private address', slack('http://10.0.0.1/'), /^channel\.url: connections to 10\.0\.0\.1 .* are not allowed/],
    [
      'metadata',
      slack('http://169.254.169.254/latest'),
      /^channel\.url: connections to 169\.254\.169\.254 .* are not allowed/,
    ],
    ['this service', slack('http://127.0.0.1:8080/'), /^channel\.url: connections to this service itself/],
    [
      'recipients of a chat',
      { channel: { type: 'slack', url: ADDRESS, to: ['a@example.com'] } },
      /^channel\.to: is only for e-mail/,
    ],
    [
      'e-mail where there is none',
      { channel: { type: 'email', to: ['a@example.com'] } },
      /^channel\.type: .*operator has to set SMTP_URL/,
    ],
    [
      'an unknown channel',
      { channel: { type: 'pager', url: ADDRESS } },
      /^channel\.type: must be one of "slack", "email"/,
    ],
    ['a time that is none', quiet({ from: '25:00' }), /^quiet_hours\.from: must be a time such as 22:00/],
    ['a zone that is none', quiet({ time_zone: 'Mars/Base' }), /^quiet_hours\.time_zone: there is no time zone/],
    ['a day that is none', quiet({ days: ['monday'] }), /^quiet_hours\.days\.0: must be one of "mon"/],
    ['an unknown field of quiet hours', quiet({ timezone: 'UTC' }), /timezone/],
    ['text for a boolean', { enabled: 'yes' }, /^enabled: must be a boolean/],
  ]
  for (const [what, body, sentence] of refused)
    test(`is refused with ${what}, at creation and at a change`, async () => {
      const { body: alert } = await create()
      for (const answer of [await create(body), await change(alert.id, body)]) {
        assert.equal(answer.status, 400, answer.text)
        assert.match(answer.body.detail, sentence)
      }
      await app.call('DELETE', `/api/alerts/${alert.id}`, { as: acme.admin })
    })

  test('watches nothing of another organization', async () => {
    const foreign = await insertPipeline(app, other.organization_id)
    const { body: domain } = await app.call('POST', '/api/domains', { as: other, body: { name: 'Theirs' } })
    const { body: alert } = await create()
    for (const scope of [{ pipeline_id: foreign }, { domain_id: domain.id }])
      for (const answer of [await create(scope), await change(alert.id, scope)]) assert.equal(answer.status, 404)
  })

  test('is limited in number', async () => {
    const person = await registerPerson(app, 'Many')
    const answers = []
    for (let index = 0; index <= MAX_ALERTS; index++) answers.push((await create({}, person)).status)
    assert.deepEqual(answers, [...Array.from({ length: MAX_ALERTS }, () => 201), 409])
  })

  test('is tested only while it is enabled and its queue is short', async () => {
    const { body } = await create({ enabled: false })
    const send = () => app.call('POST', `/api/alerts/${body.id}/test`, { as: acme.admin })
    assert.equal((await send()).body.detail, 'The alert is disabled; enable it, then test it')
    await change(body.id, { enabled: true })
    await db.execute(sql`
      INSERT INTO webhook_deliveries (alert_id, organization_id, event, payload)
      SELECT ${body.id}, ${acme.id}, 'test', '{}' FROM generate_series(1, ${MAX_WAITING - 1})`)
    assert.equal((await send()).status, 201)
    const full = await send()
    assert.equal(full.status, 429)
    assert.equal(full.headers['retry-after'], '60')
  })
})
