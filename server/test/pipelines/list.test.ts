import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv } from 'ajv'
import addFormats from 'ajv-formats'
import { sql } from '../../src/database/database.ts'
import { PipelineListItem } from '../../src/http/schemas/pipelines.ts'
import { registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const { db } = app.services
const owner = await registerPerson(app, 'Owner')
const stranger = await registerPerson(app, 'Stranger')
const list = (query = '') => app.call('GET', `/api/pipelines${query}`, { as: owner })
const names = async (query: string) => (await list(query)).body.map((each: { name: string }) => each.name).sort()

const create = async (name: string, more: object = {}, source: object = { name: 'dummy', stream: 'plants' }) => {
  const body = { name, config: { source, destination: { name: 'file' } }, ...more }
  const made = await app.call('POST', '/api/pipelines', { as: owner, body })
  assert.equal(made.status, 201, made.text)
  return made.body
}
const domain = (await app.call('POST', '/api/domains', { as: owner, body: { name: 'Sales "EU" \\ ü' } })).body

const awkward = 'Quote " backslash \\ tab \t line \n ü 🦕 </script>'
const plain = await create('Plain one', { domain_id: domain.id, schedule: '0 6 * * *' })
await create(awkward, { enabled: false })
const ran = await create('Has run')
await db.execute(sql`
  INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, started_at, finished_at)
  VALUES (${owner.organization_id}, ${ran.id}, 'manual', true, 'failed', '2026-01-02 03:04:05.670000+00', now())`)

test('the JSON built by the database matches the response schema and the single reads', async () => {
  const ajv = new Ajv({ strict: false })
  ;(addFormats as unknown as (ajv: Ajv) => void)(ajv)
  const fits = ajv.compile({ type: 'array', items: { ...PipelineListItem, additionalProperties: false } })
  const { body, headers } = await list()
  assert.equal(fits(body), true, JSON.stringify(fits.errors))
  assert.equal(headers['content-type'], 'application/json; charset=utf-8')
  assert.equal(body.length, 3)
  for (const item of body) {
    const { config, timezone, updated_at, ...single } = (
      await app.call('GET', `/api/pipelines/${item.id}`, { as: owner })
    ).body
    const { domain_name, last_run_status, last_run_at, source_name, stream, destination_name, next_run_at, ...rest } =
      item
    const { saved_source_id, saved_destination_id, ...listed } = rest
    assert.deepEqual([source_name, stream, destination_name], ['dummy', 'plants', 'file'])
    assert.deepEqual([saved_source_id, saved_destination_id], [null, null])
    assert.equal(next_run_at === null, item.schedule === null)
    assert.deepEqual(listed, single)
  }
  const byName = Object.fromEntries(body.map((each: { name: string }) => [each.name, each]))
  assert.equal(byName['Plain one'].domain_name, domain.name)
  assert.equal(byName[awkward].domain_name, null)
  assert.deepEqual(
    [byName['Has run'].last_run_status, byName['Has run'].last_run_at],
    ['failed', '2026-01-02T03:04:05.670000Z'],
  )
})

test('newest first, in pages, with the total', async () => {
  assert.deepEqual(
    (await list()).body.map((each: { name: string }) => each.name),
    ['Has run', awkward, 'Plain one'],
  )
  const page = await list('?limit=1&offset=1')
  assert.deepEqual([page.body.length, page.body[0].name, page.headers['x-total-count']], [1, awkward, '3'])
  assert.deepEqual([(await list('?offset=10')).text, (await list('?offset=10')).headers['x-total-count']], ['[]', '3'])
  assert.equal((await list('?limit=5000')).status, 200)
  for (const query of [
    '?limit=0',
    '?limit=-1',
    '?offset=-1',
    '?limit=x',
    '?domain_id=x',
    '?enabled=maybe',
    '?last_run_status=done',
  ])
    assert.equal((await list(query)).status, 400, query)
})

test('filters narrow the list and its total', async () => {
  assert.deepEqual(await names(`?domain_id=${domain.id}`), ['Plain one'])
  assert.deepEqual(await names('?domain_id=00000000-0000-4000-8000-000000000000'), [])
  assert.deepEqual(await names('?enabled=false'), [awkward])
  assert.deepEqual(await names('?last_run_status=failed'), ['Has run'])
  assert.deepEqual(await names('?source=dummy'), ['Has run', 'Plain one', awkward])
  assert.deepEqual(await names('?source=postgres'), [])
  assert.deepEqual(await names('?search=PLAIN'), ['Plain one'])
  assert.deepEqual(await names('?search=%25'), [], 'a percent sign is only a percent sign')
  assert.equal((await list('?search=plain&enabled=true')).headers['x-total-count'], '1')
})

test('filters by status, destination, schedule and name, alone and together', async () => {
  assert.deepEqual(await names('?status=failed'), ['Has run'])
  assert.deepEqual(await names('?status=success'), [])
  assert.deepEqual(await names('?destination=file'), ['Has run', 'Plain one', awkward])
  assert.deepEqual(await names('?destination=postgres'), [])
  assert.deepEqual(await names('?scheduled=true'), ['Plain one'])
  assert.deepEqual(await names('?scheduled=false'), ['Has run', awkward])
  assert.deepEqual(await names('?q=PLAIN'), ['Plain one'])
  for (const wildcard of ['%25', '_', '%5C%5C%25', '*']) assert.deepEqual(await names(`?q=${wildcard}`), [], wildcard)
  assert.deepEqual(await names(`?q=${encodeURIComponent('backslash \\')}`), [awkward])
  assert.deepEqual(await names('?q='), ['Has run', 'Plain one', awkward])
  const both = await list('?q=has&status=failed&destination=file&source=dummy&enabled=true&scheduled=false&sort=name')
  assert.deepEqual([both.body.length, both.headers['x-total-count']], [1, '1'])
  for (const wrong of ['?status=done', '?scheduled=maybe', '?sort=size', '?sort=name,id', '?sort=--name'])
    assert.equal((await list(wrong)).status, 400, wrong)
})

test('every sort has its opposite, and its pages come together to the whole', async () => {
  const order = async (query: string) => (await list(query)).body.map((each: { id: string }) => each.id)
  for (const column of ['created_at', 'name', 'last_run_at', 'next_run_at'])
    for (const filter of ['', '&q=n', '&status=failed', '&q=a&status=failed', '&enabled=true']) {
      const up = await order(`?sort=${column}${filter}`)
      assert.deepEqual(await order(`?sort=-${column}${filter}`), up.toReversed(), column)
      const pages = []
      for (let offset = 0; offset < up.length; offset++)
        pages.push(...(await order(`?sort=${column}${filter}&limit=1&offset=${offset}`)))
      assert.deepEqual(pages, up, column)
    }
  const sorted = async (sort: string) => (await list(`?sort=${sort}`)).body.map((each: { name: string }) => each.name)
  assert.deepEqual(await sorted('name'), ['Has run', 'Plain one', awkward])
  assert.equal((await sorted('-last_run_at'))[0], 'Has run')
  assert.equal((await sorted('next_run_at'))[0], 'Plain one')
})

test('nothing of another organization is listed', async () => {
  const theirs = await app.call('GET', `/api/pipelines?domain_id=${domain.id}`, { as: stranger })
  assert.equal(theirs.text, '[]')
  assert.equal((await list(`?search=${plain.name.slice(0, 5)}`)).body.length, 1)
})

test('a name that looks like part of the JSON is left alone', async () => {
  const tricky = ['ends with +00:00', '+00:00"}', '+00:00","created_at":"', '\\"+00:00"}']
  for (const name of tricky) await create(name)
  assert.deepEqual((await list('?limit=4')).body.map((each: { name: string }) => each.name).reverse(), tricky)
})

test('times have six digits and Z everywhere, so that they sort as text', async () => {
  const { id } = await create('Timed')
  for (const [time, text] of [
    ['2026-01-02 03:04:05+00', '2026-01-02T03:04:05.000000Z'],
    ['2026-01-02 03:04:05.6+00', '2026-01-02T03:04:05.600000Z'],
    ['2026-01-02 03:04:05.678901+00', '2026-01-02T03:04:05.678901Z'],
  ]) {
    await db.execute(sql`UPDATE pipelines SET created_at = ${time}, next_run_at = ${time} WHERE id = ${id}`)
    await db.execute(sql`UPDATE pipeline_activity SET last_run_at = ${time} WHERE pipeline_id = ${id}`)
    const [listed] = (await list('?search=Timed')).body
    assert.deepEqual([listed.created_at, listed.last_run_at, listed.next_run_at], [text, text, text])
    assert.equal((await app.call('GET', `/api/pipelines/${id}`, { as: owner })).body.created_at, text)
  }
})

test('the total of a long list follows every change of this process at once', async () => {
  await db.execute(sql`
    INSERT INTO pipelines (organization_id, name, config_box, stream)
    SELECT ${stranger.organization_id}, 'n' || n, '\\x00', 's' FROM generate_series(1, 1200) n`)
  const total = async (filter = '') =>
    (await app.call('GET', `/api/pipelines?limit=1${filter}`, { as: stranger })).headers['x-total-count']
  assert.deepEqual([await total(), await total()], ['1200', '1200'])
  const body = {
    name: 'One more',
    config: { source: { name: 'dummy', stream: 'plants' }, destination: { name: 'file' } },
  }
  const made = await app.call('POST', '/api/pipelines', { as: stranger, body })
  assert.equal(await total(), '1201')
  await app.call('POST', `/api/pipelines/${made.body.id}/copy`, { as: stranger })
  assert.equal(await total(), '1202')
  await app.call('DELETE', `/api/pipelines/${made.body.id}`, { as: stranger })
  assert.equal(await total(), '1201')
  const both = async () => [Number(await total('&enabled=true&scheduled=false')), Number(await total('&enabled=false'))]
  const [on, off] = (await both()) as [number, number]
  const [first] = (await app.call('GET', '/api/pipelines?limit=1&enabled=true', { as: stranger })).body
  await app.call('PUT', `/api/pipelines/${first.id}`, { as: stranger, body: { enabled: false } })
  assert.deepEqual(await both(), [on - 1, off + 1], 'each filter has a total of its own')
})
