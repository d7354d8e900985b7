import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { createCustomSource, MAX_SOURCES } from '../../src/connections/custom-sources.ts'
import { sql } from '../../src/database/database.ts'
import type { CallPool } from '../../src/executors/call-pool.ts'
import { resolveConfig } from '../../src/pipelines/resolve.ts'
import type { Actor } from '../../src/tenancy/actor.ts'
import { registerOrganization, registerPerson, startApp } from '../harness/app.ts'
import { untilWaitingForLocks } from '../harness/lock-waits.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.1' })
const acme = await registerOrganization(app)
const stranger = await registerPerson(app, 'Stranger')

const code = (streams = "['planets', 'moons']", extra = '') => `
from svc.source.base import AbstractSource
from svc.source.models import SourceRecord, SourceConfig


class Sky(AbstractSource):
    name = 'sky'

    def get_streams(self) -> list:
        return ${streams}

    def check_connection(self) -> bool:
        return self.authentication.params.get('token') == 'right'

    def get_records(self, stream: str):
        self.log.info('reading ' + stream)
        for number in range(5):
            yield SourceRecord(id=str(number), data={'stream': stream, 'number': number})
${extra}`

let made = 0
const create = (more: object = {}, as = acme.member) =>
  app.call('POST', '/api/custom-sources', {
    as,
    body: { name: 'Sky', source_name: `sky_${++made}`, code: code(), description: 'Up there', ...more },
  })

test('a custom source is validated, created, listed, read, changed and deleted', async () => {
  const valid = await app.call('POST', '/api/custom-sources/validate', { as: acme.member, body: { code: code() } })
  assert.equal(valid.status, 200, valid.text)
  assert.equal(valid.body.valid, true, valid.text)
  assert.equal(valid.body.extracted_source_name, 'sky')
  assert.deepEqual(valid.body.extracted_streams, ['planets', 'moons'])
  const answer = await create({ source_name: 'sky' })
  assert.equal(answer.status, 201, answer.text)
  const { id, created_at, ...rest } = answer.body
  assert.deepEqual(rest, {
    name: 'Sky',
    source_name: 'sky',
    streams: ['planets', 'moons'],
    description: 'Up there',
    code: code(),
  })
  const list = await app.call('GET', '/api/custom-sources', { as: acme.viewer })
  assert.deepEqual(Object.keys(list.body[0]).includes('code'), false)
  const read = await app.call('GET', `/api/custom-sources/${id}`, { as: acme.viewer })
  assert.deepEqual(read.body, { ...answer.body, updated_at: null })
  const newer = code("['stars']")
  const put = await app.call('PUT', `/api/custom-sources/${id}`, { as: acme.member, body: { code: newer } })
  assert.equal(put.status, 200, put.text)
  assert.deepEqual([put.body.streams, put.body.code], [['stars'], newer])
  assert.ok(put.body.updated_at)
  const same = await app.call('PUT', `/api/custom-sources/${id}`, {
    as: acme.member,
    body: { code: newer, name: 'Night' },
  })
  assert.equal(same.body.name, 'Night')
  const versions = await app.call('GET', `/api/custom-sources/${id}/versions`, { as: acme.viewer })
  assert.deepEqual(
    versions.body.map((each: { version: number }) => each.version),
    [2, 1],
  )
  const first = await app.call('GET', `/api/custom-sources/${id}/versions/1`, { as: acme.viewer })
  assert.equal(first.body.code, code())
  assert.equal((await app.call('GET', `/api/custom-sources/${id}/versions/3`, { as: acme.viewer })).status, 404)
  assert.equal((await app.call('DELETE', `/api/custom-sources/${id}`, { as: acme.member })).status, 204)
  assert.equal((await app.call('GET', `/api/custom-sources/${id}`, { as: acme.member })).status, 404)
})

test('code that is not valid is refused with all its errors, and nothing is stored', async () => {
  const before = await counted()
  const bad = await create({ code: code("['a']", '\nimport os\nimport socket\n') })
  assert.equal(bad.status, 400)
  assert.match(bad.body.detail, /^code: is not valid\.\nline \d+, column \d+: .*os/)
  assert.match(bad.body.detail, /socket/)
  assert.equal((await create({ code: 'def (' })).status, 400)
  const large = await create({ code: `# ${'x'.repeat(600_000)}` })
  assert.equal(large.status, 400)
  assert.match(large.body.detail, /code: is too large/)
  for (const source_name of ['', '1abc', 'with space', 'ü', '../x', 'x'.repeat(101)])
    assert.equal((await create({ source_name })).status, 400, source_name)
  assert.equal(await counted(), before)
  const { body } = await create()
  const put = await app.call('PUT', `/api/custom-sources/${body.id}`, { as: acme.member, body: { code: 'import os' } })
  assert.equal(put.status, 400)
  const versions = await app.call('GET', `/api/custom-sources/${body.id}/versions`, { as: acme.member })
  assert.equal(versions.body.length, 1)
})

test('a source_name that is taken or built in is a conflict, even with concurrent requests', async () => {
  assert.equal((await create({ source_name: 'dummy' })).status, 409)
  const answers = await Promise.all(Array.from({ length: 6 }, () => create({ source_name: 'wanted' })))
  assert.deepEqual(answers.map((each) => each.status).sort(), [201, 409, 409, 409, 409, 409])
  assert.equal((await create({ source_name: 'wanted' }, stranger)).status, 201, 'another organization may have it')
})

test('a preview of saved and of unsaved code answers with records and logs', async () => {
  const { body: source } = await create()
  const preview = (body: object, as = acme.member) => app.call('POST', '/api/custom-sources/preview', { as, body })
  const saved = await preview({ source_id: source.id, stream: 'moons', max_records: 2 })
  assert.equal(saved.status, 200, saved.text)
  const { execution_time_ms, logs, ...rest } = saved.body
  assert.deepEqual(rest, {
    success: true,
    records: [
      { id: '0', data: { stream: 'moons', number: 0 } },
      { id: '1', data: { stream: 'moons', number: 1 } },
    ],
    partial_records: [],
    total_count: 2,
    error: null,
  })
  assert.ok(Number.isInteger(execution_time_ms))
  assert.match(logs.join('\n'), /reading moons/)
  const unsaved = await preview({ code: code("['x']"), stream: 'x' })
  assert.equal(unsaved.body.total_count, 5, unsaved.text)
  const both = await preview({ source_id: source.id, code: code("['new']"), stream: 'new' })
  assert.equal(both.body.success, true, both.text)
  for (const body of [
    { source_id: source.id, stream: 'none' },
    { code: 'import os', stream: 'x' },
  ]) {
    const failed = await preview(body)
    assert.equal(failed.status, 200)
    assert.deepEqual([failed.body.success, failed.body.records, failed.body.total_count], [false, [], 0])
    assert.ok(failed.body.error)
  }
  const breaking = code("['x']").replace(/yield .*/, "$&; raise ValueError('no luck')")
  const broken = await preview({ code: breaking, stream: 'x', max_records: 5 })
  assert.deepEqual([broken.body.success, broken.body.records, broken.body.total_count], [false, [], 0])
  assert.equal(broken.body.error, 'ValueError: no luck')
  assert.deepEqual(broken.body.partial_records, [{ id: '0', data: { stream: 'x', number: 0 } }])
  for (const body of [
    { stream: 'x' },
    { code: code() },
    { code: code(), stream: 'moons', max_records: 0 },
    { code: code(), stream: 'moons', max_records: 1001 },
    { code: code(), stream: 'moons', max_records: '5' },
    { code: code(), stream: 'moons', authentication: { token: 'x' } },
  ])
    assert.equal((await preview(body)).status, 400, JSON.stringify(body).slice(-60))
  assert.equal((await preview({ source_id: source.id, stream: 'moons' }, stranger)).status, 404)
})

test('a check says whether the credentials are accepted', async () => {
  const { body: source } = await create()
  const check = (token: string) =>
    app.call('POST', `/api/custom-sources/${source.id}/check`, {
      as: acme.member,
      body: { authentication: { type: 'api_key', params: { token } } },
    })
  assert.equal((await check('right')).body.success, true)
  const wrong = await check('wrong')
  assert.equal(wrong.status, 200)
  assert.equal(wrong.body.success, false)
  const bare = await app.call('POST', `/api/custom-sources/${source.id}/check`, { as: acme.member })
  assert.equal(bare.body.success, false)
})

test('a check takes the code in place of the saved one, and saves nothing', async () => {
  const { body: source } = await create()
  const changed = code().replace(
    /def check_connection[\s\S]*?(?=\n\n|\n {4}def )/,
    'def check_connection(self) -> bool:\n        return True\n',
  )
  const check = (body: object) => app.call('POST', `/api/custom-sources/${source.id}/check`, { as: acme.member, body })
  assert.equal((await check({ code: changed })).body.success, true)
  assert.equal((await check({})).body.success, false)
})

test('a viewer can read, but not validate, preview, check or write', async () => {
  const { body: source } = await create()
  const body = { code: code(), stream: 'moons', name: 'N', source_name: 'viewers' }
  for (const [method, path] of [
    ['POST', '/validate'],
    ['POST', '/preview'],
    ['POST', ''],
    ['POST', `/${source.id}/check`],
    ['PUT', `/${source.id}`],
    ['DELETE', `/${source.id}`],
  ] as const) {
    const answer = await app.call(method, `/api/custom-sources${path}`, {
      as: acme.viewer,
      body: method === 'DELETE' ? undefined : body,
    })
    assert.equal(answer.status, 403, `${method} ${path}`)
  }
})

test('it is not visible to another organization', async () => {
  const { body: source } = await create()
  for (const [method, path] of [
    ['GET', ''],
    ['PUT', ''],
    ['DELETE', ''],
    ['POST', '/check'],
    ['GET', '/versions'],
    ['GET', '/versions/1'],
    ['GET', '/pipelines'],
  ] as const) {
    const answer = await app.call(method, `/api/custom-sources/${source.id}${path}`, {
      as: stranger,
      ...(['PUT', 'POST'].includes(method) && { body: {} }),
    })
    assert.equal(answer.status, 404, `${method} ${path}`)
  }
})

test('it is a source like any other: in discovery, in pipelines, saved, checked', async () => {
  const { body: source } = await create({ source_name: 'sky_used' })
  const found = (await app.call('GET', '/api/connectors/sources', { as: acme.viewer })).body.find(
    (each: { name: string }) => each.name === 'sky_used',
  )
  assert.deepEqual([found.display_name, found.streams], ['Sky', ['planets', 'moons']])
  assert.equal((await app.call('GET', '/api/connectors/sources', { as: stranger })).text.includes('sky_used'), false)
  const config = { source: found.example_config, destination: { name: 'file' } }
  const pipeline = await app.call('POST', '/api/pipelines', { as: acme.member, body: { name: 'P', config } })
  assert.equal(pipeline.status, 201, pipeline.text)
  const bad = await app.call('POST', '/api/pipelines', {
    as: acme.member,
    body: { name: 'P', config: { ...config, source: { name: 'sky_used', stream: 'suns' } } },
  })
  assert.equal(bad.body.detail, "config.source.stream: sky_used has no stream 'suns'; it has planets, moons")
  const theirs = await app.call('POST', '/api/pipelines', { as: stranger, body: { name: 'P', config } })
  assert.equal(theirs.status, 400)
  const used = await app.call('GET', `/api/custom-sources/${source.id}/pipelines`, { as: acme.viewer })
  assert.deepEqual(
    used.body.map((each: { id: string }) => each.id),
    [pipeline.body.id],
  )

  const savedConfig = { authentication: { type: 'api_key', params: { token: 'right' } } }
  const saved = await app.call('POST', '/api/saved/sources', {
    as: acme.member,
    body: { name: 'S', connector_name: 'sky_used', config: savedConfig },
  })
  assert.equal(saved.status, 201, saved.text)
  const checked = await app.call('POST', '/api/connectors/check', {
    as: acme.member,
    body: { source: { saved_connector_id: saved.body.id } },
  })
  assert.deepEqual(checked.body, { success: true, message: 'The connection works' })
  const streams = await app.call('POST', '/api/connectors/streams', {
    as: acme.member,
    body: { source: { name: 'sky_used' } },
  })
  assert.deepEqual(streams.body.streams, ['planets', 'moons'])
})

test('a run uses the code of the time it was triggered, and reports what was deleted', async () => {
  const { body: source } = await create({ source_name: 'sky_gone' })
  const config = { source: { name: 'sky_gone', stream: 'moons' }, destination: { name: 'file' } }
  const { db, box } = app.services
  const resolved = await resolveConfig(db, box, acme.id, config)
  assert.deepEqual(resolved.source.custom, { id: source.id, version: 1, code: code(), language: 'python' })
  await app.call('PUT', `/api/custom-sources/${source.id}`, { as: acme.member, body: { code: code("['suns']") } })
  await assert.rejects(resolveConfig(db, box, acme.id, config), {
    kind: 'config',
    message: "The source 'sky_gone' no longer has the stream 'moons'; it has suns.",
  })
  await app.call('DELETE', `/api/custom-sources/${source.id}`, { as: acme.member })
  await assert.rejects(resolveConfig(db, box, acme.id, config), { kind: 'config', message: /'sky_gone' was deleted/ })
})

test('concurrent creations do not exceed the number of sources that an organization may have', async () => {
  const owner = await registerPerson(app, 'Collector')
  const { db } = app.services
  await db.execute(sql`
    INSERT INTO custom_sources (organization_id, name, source_name)
    SELECT ${owner.organization_id}, 'S', 'source_' || n FROM generate_series(1, ${MAX_SOURCES - 1}::int) AS n`)
  // Validated once, so that both arrive at the same time on a slow machine too.
  const validated = app.services.calls.run(owner.organization_id, 'validate', { code: code(), source_name: null }, {})
  await validated
  const services = { db, calls: { ...app.services.calls, run: (() => validated) as CallPool['run'] } }
  const actor = { ...owner, user_id: owner.id, api_key_id: null, request_id: 'test', client_address: 'test' }
  const createDirectly = (source_name: string) =>
    createCustomSource(
      services,
      actor as unknown as Actor,
      { name: 'S', source_name, code: code() },
      AbortSignal.timeout(30_000),
    )
  const { creations } = await db.transaction(async (tx) => {
    // Neither can insert its row yet.
    await tx.execute(sql`SELECT 1 FROM organizations WHERE id = ${owner.organization_id} FOR UPDATE`)
    const creations = Promise.allSettled([createDirectly('one'), createDirectly('other')])
    await untilWaitingForLocks(db, 2)
    return { creations }
  })
  const refused = (await creations).filter((each) => each.status === 'rejected')
  assert.equal(refused.length, 1)
  assert.match(String(refused[0]!.reason), /already has 1000 custom sources/)
  assert.equal((await create({}, owner)).status, 409)
})

test('too many concurrent previews of one organization get 429, and the others are answered', async () => {
  const AT_ONCE = 64
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const server = createServer(async (_request, response) => {
    await released
    response.end('{}')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  const waiting = code("['x']").replace('for number', `self.http.get('http://127.0.0.1:${port}/')\n        for number`)
  let refused = 0
  const answers = await Promise.all(
    Array.from({ length: AT_ONCE + 3 }, async () => {
      const body = { code: waiting, stream: 'x', max_records: 1 }
      const answer = await app.call('POST', '/api/custom-sources/preview', { as: acme.member, body })
      if (answer.status === 429 && ++refused === 3) release()
      return answer
    }),
  )
  server.close()
  const [late, served] = [answers.filter((each) => each.status === 429), answers.filter((each) => each.status === 200)]
  assert.deepEqual([late.length, served.length], [3, AT_ONCE])
  assert.ok(Number(late[0]!.headers['retry-after']) > 0)
  assert.ok(
    served.every((each) => each.body.success),
    served.find((each) => !each.body.success)?.text,
  )
})

const counted = async () =>
  (await app.services.db.first<{ n: number }>(sql`SELECT count(*) AS n FROM custom_source_versions`))!.n
