import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { csvLine } from '../../src/http/csv.ts'
import { registerOrganization, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const { call, services } = app
const acme = await registerOrganization(app)

interface Line {
  id: number
  at: string
  action: string
  actor_id: string
  object_type: string
}

/** An organization whose log is `count` known lines, one second apart, below those of its registration. */
async function withLog(count: number) {
  const owner = await registerPerson(app)
  await services.db.execute(sql`DELETE FROM audit_log WHERE organization_id = ${owner.organization_id}`)
  await services.db.execute(sql`
    INSERT INTO audit_log (organization_id, at, actor_id, actor_email, action, object_type, object_id)
    SELECT ${owner.organization_id}, timestamptz '2026-01-01T00:00:00Z' + n * interval '1 second', ${owner.id}, 'a@example.com',
           CASE WHEN n % 2 = 0 THEN 'thing.even' ELSE 'thing.odd' END, 'domain', 'object-' || n % 10 FROM generate_series(1, ${count}) n`)
  return { owner, read: (query = '') => call('GET', `/api/audit${query}`, { as: owner }) }
}

const seconds = (lines: Line[]) => lines.map((line) => (Date.parse(line.at) - Date.UTC(2026, 0, 1)) / 1000)

test('every change is recorded with actor, object and origin', async () => {
  const created = await call('POST', '/api/domains', {
    as: acme.admin,
    body: { name: 'Logged' },
    headers: { 'x-request-id': 'request-7' },
  })
  const { body, headers } = await call('GET', '/api/audit?limit=1', { as: acme.owner })
  const { id, at, ...line } = body[0]
  assert.deepEqual(line, {
    actor_id: acme.admin.id,
    actor_email: acme.admin.email,
    api_key_id: null,
    action: 'domain.created',
    object_type: 'domain',
    object_id: created.body.id,
    details: { name: 'Logged' },
    request_id: 'request-7',
    client_address: '127.0.0.1',
  })
  assert.ok(id > 0 && at)
  assert.ok(Number(headers['x-total-count']) > 1)
})

test('a change by API key names the key', async () => {
  const key = (await call('POST', '/api/api-keys', { as: acme.admin, body: { name: 'k' } })).body
  await call('POST', '/api/domains', { as: key, body: { name: 'By key' } })
  const { body } = await call('GET', '/api/audit?action=domain.created&limit=1', { as: acme.owner })
  assert.deepEqual([body[0].actor_id, body[0].api_key_id], [acme.admin.id, key.id])
})

test('a refused change leaves no line', async () => {
  const before = (await call('GET', '/api/audit', { as: acme.owner })).headers['x-total-count']
  await call('POST', '/api/domains', { as: acme.admin, body: { name: 'Logged' } })
  await call('PUT', `/api/users/${acme.owner.id}/role`, { as: acme.admin, body: { role: 'member' } })
  await call('POST', '/api/users/invite', { as: acme.admin, body: { email: acme.viewer.email, role: 'member' } })
  assert.equal((await call('GET', '/api/audit', { as: acme.owner })).headers['x-total-count'], before)
})

test('pages follow each other by cursor, even when lines are added meanwhile', async () => {
  const { owner, read } = await withLog(250)
  const seen: number[] = []
  for (let query = '?limit=100'; ; ) {
    const { body, headers } = await read(query)
    if (seen.length === 0) assert.equal(headers['x-total-count'], '250')
    seen.push(...seconds(body))
    if (body.length < 100) break
    query = `?limit=100&before=${body.at(-1).id}`
    await services.db.execute(sql`
      INSERT INTO audit_log (organization_id, action, object_type) VALUES (${owner.organization_id}, 'later', 'domain')`)
  }
  assert.deepEqual(
    seen,
    Array.from({ length: 250 }, (_, index) => 250 - index),
  )
})

test('lines of the same moment are not lost between pages', async () => {
  const { owner, read } = await withLog(0)
  await services.db.execute(sql`
    INSERT INTO audit_log (organization_id, at, action, object_type) SELECT ${owner.organization_id}, '2026-01-01', 'x', 'domain' FROM generate_series(1, 7)`)
  const first = (await read('?limit=3')).body
  const rest = (await read(`?before=${first[2].id}`)).body
  assert.equal(new Set([...first, ...rest].map((line) => line.id)).size, 7)
})

test('filters by actor, action, object and time, alone and together', async () => {
  const { owner, read } = await withLog(100)
  const count = async (query: string) => Number((await read(query)).headers['x-total-count'])
  assert.equal(await count(`?actor_id=${owner.id}`), 100)
  assert.equal(await count(`?actor_id=${acme.owner.id}`), 0)
  assert.equal(await count('?action=thing.odd'), 50)
  assert.equal(await count('?object_type=domain'), 100)
  assert.equal(await count('?object_type=user'), 0)
  assert.equal(await count('?object_id=object-3'), 10)
  const from = '2026-01-01T00:00:10Z'
  const to = '2026-01-01T00:00:20Z'
  assert.deepEqual(
    seconds((await read(`?since=${from}&until=${to}`)).body).toSorted((a, b) => a - b),
    [10, 11, 12, 13, 14, 15, 16, 17, 18, 19],
  )
  assert.equal(await count(`?since=${from}&until=${to}&action=thing.even&actor_id=${owner.id}&object_id=object-2`), 1)
  assert.equal(await count('?since=2026-01-01T01:00:10%2B01:00'), 91)
  const midnight = await count('?since=2026-01-01T00:00:00Z')
  assert.equal(await count('?since=2026-01-01'), midnight, 'a date is its midnight in UTC')
  assert.equal(await count('?until=2026-01-01'), 0)
})

test('a filter that does not fit is refused by name', async () => {
  const wrong = {
    actor_id: 'me',
    since: 'yesterday',
    until: '0000-01-01T00:00:00Z',
    before: 'x',
    limit: '0',
    format: 'xml',
    action: '',
  }
  for (const [name, value] of Object.entries(wrong)) {
    for (const format of name === 'format' ? [''] : ['', '&format=csv']) {
      const answer = await call('GET', `/api/audit?${name}=${value}${format}`, { as: acme.owner })
      assert.equal(answer.status, 400, `${name} ${format}`)
      assert.match(answer.body.detail, new RegExp(`^${name}`))
    }
  }
  const leap = await call('GET', '/api/audit?since=2016-12-31T23:59:60Z', { as: acme.owner })
  assert.equal(leap.status, 400)
})

test("another organization's lines are never seen, nor their cursors usable", async () => {
  const { read } = await withLog(3)
  const foreign = (await call('GET', '/api/audit?limit=1', { as: acme.owner })).body[0].id
  const list = (await read()).body
  assert.equal(list.length, 3)
  assert.deepEqual((await read(`?before=${foreign}`)).body, [])
  assert.deepEqual((await read(`?actor_id=${acme.owner.id}`)).body, [])
})

test('CSV holds all lines that match, by parameter or by Accept', async () => {
  const { owner, read } = await withLog(2500)
  const csv = await read('?format=csv')
  assert.equal(csv.status, 200)
  assert.equal(csv.headers['content-type'], 'text/csv; charset=utf-8')
  assert.match(String(csv.headers['content-disposition']), /attachment/)
  const lines = csv.text.trimEnd().split('\r\n')
  assert.equal(lines.length, 2501)
  assert.match(lines[0]!, /^"id","at","actor_id","actor_email"/)
  assert.match(lines[1]!, /^\d+,"2026-01-01T00:41:40\.000000Z","[0-9a-f-]{36}","a@example.com",,"thing.even","domain"/)
  const accept = await call('GET', '/api/audit?limit=3&action=thing.odd', {
    as: owner,
    headers: { accept: 'text/csv' },
  })
  assert.equal(accept.text.trimEnd().split('\r\n').length, 4)
  const json = await call('GET', '/api/audit?format=json', { as: owner, headers: { accept: 'text/csv' } })
  assert.equal(json.body.length, 100)
})

test('the API reference knows both forms of the log', () => {
  const paths = app.app.swagger().paths as Record<string, { get: { responses: Record<string, object> } }>
  const answer = paths['/api/audit']!.get.responses[200] as { content: object; headers: object }
  assert.deepEqual(Object.keys(answer.content), ['application/json', 'text/csv'])
  assert.deepEqual(Object.keys(answer.headers), ['X-Total-Count'])
})

test('no field of a CSV line is taken for a formula', () => {
  for (const text of ['=1+1', '+1', '-1', '@x', '\t=1', '\r=1', ' =1', '|x', '%x', '\n=1'])
    assert.equal(csvLine([text]), `"'${text}"\r\n`, JSON.stringify(text))
  assert.equal(csvLine(['a"b', null, 7, { a: '=1' }, 'x,y', '']), '"a""b",,7,"{""a"":""=1""}","x,y",""\r\n')
})
