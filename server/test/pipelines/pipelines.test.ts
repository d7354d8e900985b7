import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerOrganization, registerPerson, startApp } from '../harness/app.ts'

const app = await startApp()
const acme = await registerOrganization(app)
const stranger = await registerPerson(app, 'Stranger')

const config = {
  source: { name: 'dummy', stream: 'creatures', authentication: { type: 'api_key', params: { token: 'tok-123' } } },
  destination: { name: 'file', config: { format: 'jsonl' } },
}

test('a pipeline is created, listed, read, changed and deleted', async () => {
  const made = await app.call('POST', '/api/pipelines', {
    as: acme.member,
    body: { name: 'Nightly', config, schedule: '30 2 * * *', timezone: 'Europe/Berlin' },
  })
  assert.equal(made.status, 201, made.text)
  assert.deepEqual(Object.keys(made.body).sort(), [
    'created_at',
    'domain_id',
    'enabled',
    'id',
    'name',
    'schedule',
    'timezone',
  ])
  const read = await app.call('GET', `/api/pipelines/${made.body.id}`, { as: acme.member })
  assert.deepEqual(read.body, { ...made.body, config, updated_at: null })
  const list = await app.call('GET', '/api/pipelines', { as: acme.viewer })
  assert.equal(list.headers['x-total-count'], '1')
  assert.deepEqual(list.body, [
    {
      id: made.body.id,
      name: 'Nightly',
      schedule: '30 2 * * *',
      enabled: true,
      domain_id: null,
      domain_name: null,
      last_run_status: null,
      last_run_at: null,
      created_at: made.body.created_at,
    },
  ])
  const put = await app.call('PUT', `/api/pipelines/${made.body.id}`, {
    as: acme.member,
    body: { name: 'Daily', schedule: null },
  })
  assert.equal(put.status, 200, put.text)
  assert.deepEqual(put.body, { ...made.body, name: 'Daily', schedule: null })
  const gone = await app.call('DELETE', `/api/pipelines/${made.body.id}`, { as: acme.member })
  assert.equal(gone.status, 204, gone.text)
  assert.equal((await app.call('GET', `/api/pipelines/${made.body.id}`, { as: acme.member })).status, 404)
  assert.equal((await app.call('GET', `/api/pipelines/${made.body.id}`, { as: stranger })).status, 404)
})
