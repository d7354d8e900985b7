import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const owner = await registerPerson(app, 'Owner')
const config = {
  source: { name: 'dummy', stream: 'creatures', authentication: { type: 'api_key', params: { token: 'tok-1' } } },
  destination: { name: 'file' },
}
const call = (method: string, path: string, body?: object) => app.call(method, path, { as: owner, body })
const create = async (name: string, more: object = {}) =>
  (await call('POST', '/api/pipelines', { name, config, ...more })).body
const total = async () => Number((await call('GET', '/api/pipelines')).headers['x-total-count'])

test('a copy is disabled, and has the same config and a new name', async () => {
  const made = await create('X', { schedule: '0 6 * * *', timezone: 'Europe/Berlin' })
  const first = await call('POST', `/api/pipelines/${made.id}/copy`)
  assert.equal(first.status, 201, first.text)
  const { id, created_at, ...rest } = first.body
  assert.notEqual(id, made.id)
  assert.deepEqual(rest, {
    name: 'X (copy)',
    schedule: '0 6 * * *',
    timezone: 'Europe/Berlin',
    enabled: false,
    domain_id: null,
  })
  assert.deepEqual((await call('GET', `/api/pipelines/${id}`)).body.config, config)
  assert.equal((await call('POST', `/api/pipelines/${made.id}/duplicate`)).body.name, 'X (copy 2)')
  assert.equal((await call('POST', `/api/pipelines/${made.id}/copy`, { name: 'Mine' })).body.name, 'Mine')
  assert.equal((await call('POST', `/api/pipelines/${made.id}/copy`, {})).body.name, 'X (copy 3)')
  assert.equal((await call('POST', `/api/pipelines/${made.id}/copy`, { name: '' })).status, 400)
})

test('concurrent copies get different names', async () => {
  const made = await create('Twin')
  const answers = await Promise.all(Array.from({ length: 5 }, () => call('POST', `/api/pipelines/${made.id}/copy`)))
  const names = answers.map((each) => each.body.name).sort()
  assert.deepEqual(names, ['Twin (copy 2)', 'Twin (copy 3)', 'Twin (copy 4)', 'Twin (copy 5)', 'Twin (copy)'])
})

test('the copy of a name of maximum length still fits', async () => {
  const made = await create('n'.repeat(200))
  const copy = await call('POST', `/api/pipelines/${made.id}/copy`)
  assert.equal(copy.status, 201)
  assert.ok(copy.body.name.length <= 200 && copy.body.name.endsWith(' (copy)'))
})

test('one pipeline is created for each selected stream', async () => {
  const { stream: _, ...source } = config.source
  const made = await call('POST', '/api/pipelines/bulk', {
    config: { ...config, source },
    streams: ['creatures', 'plants'],
    name_pattern: 'Zoo {source}: {stream}',
    schedule: '0 6 * * *',
    enabled: false,
  })
  assert.equal(made.status, 201, made.text)
  assert.deepEqual(
    made.body.map((each: { name: string }) => each.name),
    ['Zoo dummy: creatures', 'Zoo dummy: plants'],
  )
  const second = await call('GET', `/api/pipelines/${made.body[1].id}`)
  assert.deepEqual(second.body.config, { ...config, source: { ...source, stream: 'plants' } })
  assert.equal(second.body.enabled, false)
})

test('all of them or none', async () => {
  const { stream: _, ...source } = config.source
  const before = await total()
  for (const [body, detail] of [
    [{ streams: ['creatures', 'crea'] }, /dummy has no stream 'crea'/],
    [{ streams: [] }, /^streams/],
    [{ streams: ['plants', 'plants'] }, /^streams/],
    [{ streams: ['creatures', 'plants'], name_pattern: 'Same' }, /^name_pattern: must contain \{stream\}/],
    [{ streams: ['plants'], config }, /^config\.source\.stream: leave it out/],
    [{ streams: ['plants'], config: { source } }, /^config\.destination: is required/],
    [{ streams: ['plants'], schedule: '0 0 31 2 *' }, /never fires/],
  ] as const) {
    const answer = await call('POST', '/api/pipelines/bulk', { config: { ...config, source }, ...body })
    assert.equal(answer.status, 400, answer.text)
    assert.match(answer.body.detail, detail)
  }
  assert.equal(await total(), before)
})

test('a plan of hundreds of streams with large settings lets other requests through', async () => {
  const streams = Array.from({ length: 200 }, (_, index) => `s${index}`)
  const settings = {
    client: { base_url: 'https://api.example.com' },
    resource_defaults: { endpoint: { json: Array(4000).fill(1) } },
    resources: streams,
  }
  let planned = false
  const plan = call('POST', '/api/pipelines/bulk', {
    config: { source: { name: 'rest_api', config: settings }, destination: { name: 'file' } },
    streams,
    dry_run: true,
  }).finally(() => {
    planned = true
  })
  let answered = 0
  while (!planned) {
    assert.equal((await call('GET', '/api/pipelines')).status, 200)
    if (!planned) answered++
  }
  const { status, body } = await plan
  assert.equal(status, 200)
  assert.equal(body.plan.length, 200)
  assert.deepEqual(body.problems, [])
  assert.ok(answered > 2, `only ${answered} other requests were answered meanwhile`)
})
