import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { createSecretBox } from '../../src/database/secret-box.ts'
import { type Person, registerOrganization, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const { db } = app.services
const acme = await registerOrganization(app)
const stranger = await registerPerson(app, 'Stranger')

const TOKEN = 'tok-5a4b3c2d'
const config = {
  source: { name: 'dummy', stream: 'creatures', authentication: { type: 'api_key', params: { token: TOKEN } } },
  destination: { name: 'file', config: { format: 'jsonl' } },
}

const post = (more: object = {}, as: Person = acme.member) =>
  app.call('POST', '/api/pipelines', { as, body: { name: 'P', config, ...more } })
const create = async (more: object = {}, as: Person = acme.member) => {
  const made = await post(more, as)
  assert.equal(made.status, 201, made.text)
  return made.body
}
const read = (id: string, as: Person = acme.member) => app.call('GET', `/api/pipelines/${id}`, { as })
const put = (id: string, body: object, as: Person = acme.member) =>
  app.call('PUT', `/api/pipelines/${id}`, { as, body })
const nextRun = async (id: string) =>
  (await db.first<{ next_run_at: string | null }>(sql`SELECT next_run_at FROM pipelines WHERE id = ${id}`))!.next_run_at

test('a pipeline is created, read, changed and deleted', async () => {
  const made = await create({ name: 'Nightly', schedule: '30 2 * * *', timezone: 'Europe/Berlin' })
  const { id, created_at, ...rest } = made
  assert.deepEqual(rest, {
    name: 'Nightly',
    schedule: '30 2 * * *',
    timezone: 'Europe/Berlin',
    enabled: true,
    domain_id: null,
  })
  assert.deepEqual((await read(id)).body, { ...made, config, updated_at: null })
  const changed = await put(id, { name: 'Daily', schedule: null, timezone: null, enabled: false })
  assert.equal(changed.status, 200, changed.text)
  assert.deepEqual(changed.body, { ...made, name: 'Daily', schedule: null, timezone: null, enabled: false })
  const after = (await read(id)).body
  assert.deepEqual(after.config, config, 'what is absent stays')
  assert.ok(after.updated_at > after.created_at)
  assert.equal((await app.call('DELETE', `/api/pipelines/${id}`, { as: acme.member })).status, 204)
  assert.equal((await read(id)).status, 404)
  assert.equal((await app.call('DELETE', `/api/pipelines/${id}`, { as: acme.member })).status, 404)
})

test('an empty schedule means manual runs only', async () => {
  for (const schedule of ['', '   ', null]) assert.equal((await create({ schedule })).schedule, null)
})

test('the next time follows schedule, zone and enabled, and stays when the same is sent again', async () => {
  const { id } = await create({ schedule: '0 0 1 1 *' })
  const first = await nextRun(id)
  assert.match(first!, /-01-01T00:00:00\.000000Z$/)
  await db.execute(sql`UPDATE pipelines SET next_run_at = now() - interval '1 minute' WHERE id = ${id}`)
  const due = await nextRun(id)
  await put(id, { schedule: '0 0 1 1 *', name: 'Same' })
  assert.equal(await nextRun(id), due, 'a tick that is due is not skipped')
  await put(id, { timezone: 'Asia/Tokyo' })
  assert.match((await nextRun(id))!, /-12-31T15:00:00\.000000Z$/)
  await put(id, { enabled: false })
  assert.equal(await nextRun(id), null)
  await put(id, { enabled: true })
  assert.match((await nextRun(id))!, /-12-31T15:00:00\.000000Z$/)
  await put(id, { schedule: null })
  assert.equal(await nextRun(id), null)
})

test('an invalid change changes nothing', async () => {
  const made = await create()
  for (const body of [
    { config: { ...config, source: { name: 'dummy', stream: 'crea' } } },
    { schedule: '0 0 31 2 *' },
    { timezone: 'Mars/Olympus' },
    { name: 'New', enabled: 1 },
    { name: null },
    { name: 'New', domain_id: '00000000-0000-4000-8000-000000000000' },
  ]) {
    const answer = await put(made.id, body)
    assert.ok([400, 404].includes(answer.status), JSON.stringify(body))
  }
  assert.deepEqual((await read(made.id)).body, { ...made, config, updated_at: null })
  assert.equal((await app.call('PUT', `/api/pipelines/${made.id}`, { as: acme.member })).status, 400)
})

test('secrets are masked for callers without write permission, and a mask that is sent back keeps them', async () => {
  const { id } = await create()
  const seen = await read(id, acme.viewer)
  assert.equal(seen.text.includes(TOKEN), false)
  assert.equal(seen.body.config.source.authentication.params.token, '********')
  const masked = { ...seen.body.config, destination: { name: 'file', config: { format: 'csv' } } }
  assert.equal((await put(id, { config: masked })).status, 200)
  const kept = (await read(id)).body.config
  assert.equal(kept.source.authentication.params.token, TOKEN)
  assert.equal(kept.destination.config.format, 'csv')
  const lists = await app.call('GET', '/api/pipelines', { as: acme.viewer })
  assert.equal(lists.text.includes(TOKEN), false)
})

test('a viewer may not write', async () => {
  const { id } = await create()
  for (const [method, path, body] of [
    ['POST', '', { name: 'P', config }],
    ['POST', '/bulk', { config, streams: ['plants'] }],
    ['PUT', `/${id}`, { name: 'X' }],
    ['DELETE', `/${id}`],
    ['POST', `/${id}/copy`],
    ['PUT', `/${id}/state`, { cursor: { position: 1 } }],
    ['DELETE', `/${id}/state`],
  ] as const)
    assert.equal(
      (await app.call(method, `/api/pipelines${path}`, { as: acme.viewer, body })).status,
      403,
      `${method} ${path}`,
    )
})

test('it is not visible to another organization', async () => {
  const { id } = await create()
  for (const [method, path, body] of [
    ['GET', ''],
    ['PUT', '', { name: 'Mine' }],
    ['DELETE', ''],
    ['POST', '/copy'],
    ['POST', '/duplicate'],
    ['GET', '/state'],
    ['PUT', '/state', { cursor: 1 }],
    ['DELETE', '/state'],
    ['GET', '/schema'],
  ] as const)
    assert.equal(
      (await app.call(method, `/api/pipelines/${id}${path}`, { as: stranger, body })).status,
      404,
      `${method} ${path}`,
    )
  assert.deepEqual((await app.call('GET', '/api/pipelines', { as: stranger })).body, [])
  assert.equal((await read(id)).status, 200)
})

test('a role in a domain lets a viewer write there, and nowhere else', async () => {
  const domain = async (name: string) =>
    (await app.call('POST', '/api/domains', { as: acme.owner, body: { name } })).body.id as string
  const [sales, other] = [await domain('Sales'), await domain('Other')]
  const granted = await app.call('POST', `/api/users/${acme.viewer.id}/domain-roles`, {
    as: acme.owner,
    body: { domain_id: sales, role: 'member' },
  })
  assert.equal(granted.status, 201, granted.text)
  const raised = acme.viewer
  const mine = await create({ domain_id: sales }, raised)
  assert.equal((await post({}, raised)).status, 403)
  assert.equal((await post({ domain_id: other }, raised)).status, 403)
  assert.equal((await post({ domain_id: '00000000-0000-4000-8000-000000000000' }, raised)).status, 404)
  assert.equal((await read(mine.id, raised)).body.config.source.authentication.params.token, TOKEN)
  const elsewhere = await create({ domain_id: other })
  assert.equal((await read(elsewhere.id, raised)).body.config.source.authentication.params.token, '********')

  assert.equal((await put(mine.id, { name: 'Renamed' }, raised)).status, 200)
  assert.equal((await put(mine.id, { domain_id: other }, raised)).status, 403, 'no right where it would go')
  assert.equal((await put(mine.id, { domain_id: null }, raised)).status, 403, 'outside every domain counts too')
  assert.equal((await put(elsewhere.id, { domain_id: sales }, raised)).status, 403, 'no right where it comes from')
  assert.equal((await put(elsewhere.id, { name: 'X' }, raised)).status, 403)
  assert.equal((await app.call('DELETE', `/api/pipelines/${elsewhere.id}`, { as: raised })).status, 403)
  assert.equal((await app.call('POST', `/api/pipelines/${elsewhere.id}/copy`, { as: raised })).status, 403)
  assert.equal((await put(mine.id, { domain_id: other })).body.domain_id, other)
  assert.equal((await put(mine.id, { domain_id: sales })).body.domain_id, sales)
  assert.equal((await app.call('POST', `/api/pipelines/${mine.id}/copy`, { as: raised })).body.domain_id, sales)
  assert.equal((await app.call('DELETE', `/api/pipelines/${mine.id}`, { as: raised })).status, 204)
})

test('a lost key affects one pipeline: the list works, and a new config fixes it', async () => {
  const { id } = await create({ name: 'Lost' })
  const place = { organization_id: acme.id, column: 'pipelines.config_box', row_id: id }
  const sealed = createSecretBox(['another key that nobody has any more']).seal(place, config)
  await db.execute(sql`UPDATE pipelines SET config_box = ${sealed} WHERE id = ${id}`)
  const answer = await read(id)
  assert.equal(answer.status, 409)
  assert.match(answer.body.detail, /cannot be decrypted.*ENCRYPTION_KEY/)
  assert.equal((await app.call('POST', `/api/pipelines/${id}/copy`, { as: acme.member })).status, 409)
  assert.equal((await app.call('GET', '/api/pipelines?search=lost', { as: acme.member })).body.length, 1)
  assert.equal((await put(id, { name: 'Lost still' })).status, 200)
  assert.equal((await put(id, { config })).status, 200)
  assert.deepEqual((await read(id)).body.config, config)
})

test('deleting a pipeline cancels its running runs and removes all its runs', async () => {
  const { id } = await create()
  await db.execute(sql`
    INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, started_at, worker, lease_until)
    VALUES (${acme.id}, ${id}, 'manual', true, 'running', now(), 'w', now() + interval '15 s')`)
  const heard: string[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  const stop = await db.listen('sluice', (message) => {
    heard.push(message)
    if (message.startsWith('cancel')) resolve()
  })
  assert.equal((await app.call('DELETE', `/api/pipelines/${id}`, { as: acme.member })).status, 204)
  await promise
  await stop()
  const left = await db.first<{ n: number }>(sql`SELECT count(*) AS n FROM runs WHERE pipeline_id = ${id}`)
  assert.equal(left!.n, 0)
})

test('a manually set state has its place in the order of all runs, and removing it stores a newer null', async () => {
  const { id } = await create()
  const state = (method: string, body?: object, as: Person = acme.member) =>
    app.call(method, `/api/pipelines/${id}/state`, { as, body })
  assert.deepEqual((await state('GET')).body, { cursor: null, updated_at: null })
  const written = await state('PUT', { cursor: { position: 5 } })
  assert.deepEqual(written.body.cursor, { position: 5 })
  assert.deepEqual((await state('GET', undefined, acme.viewer)).body, written.body)
  const seq = async () =>
    (await db.first<{ seq: number }>(sql`SELECT seq FROM pipeline_state WHERE pipeline_id = ${id}`))!.seq
  const first = await seq()
  assert.equal((await state('DELETE')).status, 204)
  assert.ok((await seq()) > first)
  assert.equal((await state('GET')).body.cursor, null)
  assert.equal((await state('PUT', {})).status, 400)
})

test('a state that its source could not start from is refused with the form that it has', async () => {
  const put = async (source: object, cursor: unknown) => {
    const { id } = await create({ config: { source, destination: config.destination } })
    return app.call('PUT', `/api/pipelines/${id}/state`, { as: acme.member, body: { cursor } })
  }
  const dummy = { name: 'dummy', stream: 'creatures' }
  for (const wrong of ['x', 5, { position: -1 }, { cursor: 5 }, []]) {
    const { status, body } = await put(dummy, wrong)
    assert.equal(status, 400, JSON.stringify(wrong))
    assert.match(
      body.detail,
      /^cursor: This is not a state of the dummy source; it has the form \{"position": 100\}\.$/,
    )
  }
  const postgres = { name: 'postgres', stream: 'public.a', config: { host: 'db.example.com', user: 'u' } }
  assert.match((await put(postgres, { since: 1 })).body.detail, /it has the form \{"cursor": "2024-01-31"\}/)
  for (const right of [{ cursor: '2024-01-31' }, { cursor: 7 }, '2024-01-31'])
    assert.equal((await put(postgres, right)).status, 200)
  const file = { name: 'file', stream: 'rows', config: { url: 'https://example.com/a.csv' } }
  assert.equal((await put(file, 'x')).body.detail, 'cursor: file reads everything each time, so it has no state')
  assert.equal((await put(file, null)).status, 200)
})

test('the schema of the destination is read', async () => {
  const { id } = await create()
  const schema = () => app.call('GET', `/api/pipelines/${id}/schema`, { as: acme.viewer })
  assert.deepEqual((await schema()).body, { columns: [], changes: [], updated_at: null })
  await db.execute(sql`
    INSERT INTO pipeline_schemas (pipeline_id, columns, changes)
    VALUES (${id}, '[{"name": "id", "type": "int64"}, {"name": "net", "type": "text", "native": {"system": "postgres", "type": "inet"}}]', '["added id"]')`)
  const { body } = await schema()
  assert.deepEqual(body.columns, [
    { name: 'id', type: 'int64', native_type: null },
    { name: 'net', type: 'text', native_type: 'inet' },
  ])
  assert.deepEqual(body.changes, ['added id'])
})

test('a schema stored with PostgreSQL type names is converted when read', async () => {
  const { id } = await create()
  await db.execute(sql`
    INSERT INTO pipeline_schemas (pipeline_id, columns)
    VALUES (${id}, '[{"name": "id", "type": "int8"}, {"name": "price", "type": "numeric(10,2)"}, {"name": "at", "type": "timestamp(3) without time zone"}, {"name": "span", "type": "int4range"}]')`)
  const { body } = await app.call('GET', `/api/pipelines/${id}/schema`, { as: acme.viewer })
  assert.deepEqual(body.columns, [
    { name: 'id', type: 'int64', native_type: 'int8' },
    { name: 'price', type: 'decimal(10,2)', native_type: 'numeric(10,2)' },
    { name: 'at', type: 'timestamp', native_type: 'timestamp(3)' },
    { name: 'span', type: 'text', native_type: 'int4range' },
  ])
})

test('the preview of a schedule lists its next five times', async () => {
  const preview = (body: object) => app.call('POST', '/api/pipelines/schedule-preview', { as: acme.viewer, body })
  const { body, status } = await preview({ schedule: '0 0 1 * *' })
  assert.equal(status, 200)
  assert.equal(body.next_times.length, 5)
  assert.ok(body.next_times.every((time: string) => /-01T00:00:00\.000000Z$/.test(time)))
  const tokyo = await preview({ schedule: '0 9 * * *', timezone: 'Asia/Tokyo' })
  assert.match(tokyo.body.next_times[0], /T00:00:00/)
  assert.equal((await preview({ schedule: '0 0 31 2 *' })).status, 400)
  assert.equal((await preview({ schedule: '' })).status, 400)
  assert.equal((await preview({ schedule: '* * * * *', timezone: 'X/Y' })).status, 400)
})
