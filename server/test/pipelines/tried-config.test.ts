/** A stored pipeline is changed and tried before it is saved: its secrets stay masked, and a dry run changes nothing. */
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { MASK } from '../../src/connectors/settings/secrets.ts'
import { sql } from '../../src/database/database.ts'
import { openPipelineConfig } from '../../src/pipelines/resolve.ts'
import { startServer } from '../egress/http-server.ts'
import { registerOrganization, registerPerson, startApp } from '../harness/app.ts'
import { startAuthServer } from '../harness/auth-server.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.0/8', SECRETS: 'write_only' })
const acme = await registerOrganization(app)
const stranger = await registerPerson(app, 'Stranger')
const auth = await startAuthServer()
after(() => auth.close())
auth.guard('oauth2_refresh_token')
const server = await startServer()
let seen: string | undefined
server.on('/rows.jsonl', (request, response) => {
  seen = request.headers.authorization
  if (seen === 'Bearer hunter2-hunter2' || auth.admits(request.headers)) response.end('{"id":1}\n')
  else response.writeHead(401).end()
})

const bearer = { type: 'bearer', params: { token: 'hunter2-hunter2' } }
const sourceWith = (authentication: object, more: object = {}) => ({
  name: 'file',
  stream: 'rows',
  authentication,
  config: { url: `${server.base}/rows.jsonl`, ...more },
})
const file = { name: 'file', config: {} }
const masked = { type: 'bearer', params: { token: MASK } }

async function create(authentication: object, more: object = {}): Promise<string> {
  const body = { name: 'Rows', config: { source: sourceWith(authentication), destination: file }, ...more }
  const made = await app.call('POST', '/api/pipelines', { as: acme.owner, body })
  assert.equal(made.status, 201, made.text)
  return made.body.id
}
const post = (path: string, body: object, as: { access_token?: string } = acme.member) =>
  app.call('POST', path, { as, body })
const preview = (config: object, pipeline_id: string, as = acme.member) =>
  post('/api/pipelines/preview', { config, pipeline_id }, as)

describe('a masked secret', () => {
  test('is the stored one when the edited pipeline is checked, listed and previewed', async () => {
    const pipeline_id = await create(bearer)
    const source = sourceWith(masked)
    const checked = await post('/api/connectors/check', { source, pipeline_id })
    assert.deepEqual([checked.status, checked.body.success], [200, true], checked.text)
    assert.equal(seen, 'Bearer hunter2-hunter2')
    const listed = await post('/api/connectors/streams', { source, describe: true, pipeline_id })
    assert.deepEqual(listed.body.descriptions[0].columns[0].name, 'id', listed.text)
    const shown = await preview({ source, destination: file }, pipeline_id)
    assert.deepEqual(shown.body.records, [{ id: 1 }], shown.text)
    assert.ok(!shown.text.includes('hunter2'))
  })

  test('is not sent to another address', async () => {
    const pipeline_id = await create(bearer)
    const source = sourceWith(masked, { url: `${server.base}/elsewhere` })
    for (const answer of [
      await post('/api/connectors/check', { source, pipeline_id }),
      await post('/api/connectors/streams', { source, pipeline_id }),
    ]) {
      assert.equal(answer.status, 400)
      assert.match(answer.body.detail, /^source\.config\.url: cannot change while a stored secret is kept/)
    }
    const shown = await preview({ source, destination: file }, pipeline_id)
    assert.match(shown.body.detail, /^config\.source\.config\.url: cannot change while a stored secret is kept/)
  })

  test('needs the permission to write the pipeline, and a pipeline of the same organization', async () => {
    const pipeline_id = await create(bearer)
    const source = sourceWith(masked)
    assert.equal((await preview({ source, destination: file }, pipeline_id, acme.viewer)).status, 403)
    assert.equal((await preview({ source, destination: file }, pipeline_id, stranger)).status, 404)
    assert.equal((await post('/api/connectors/check', { source, pipeline_id }, stranger)).status, 404)
    const without = await post('/api/pipelines/preview', { config: { source, destination: file } })
    assert.match(without.body.detail, /token: is a mask, but no secret is stored there/)
  })

  test('that is a refresh token is replaced in the pipeline when the provider rotates it', async () => {
    const authentication = auth.good('oauth2_refresh_token')
    const first = String(authentication.params.refresh_token)
    const id = await create(authentication)
    const { config } = (await app.call('GET', `/api/pipelines/${id}`, { as: acme.member })).body
    for (let round = 0; round < 2; round++) {
      const checked = await post('/api/connectors/check', { source: config.source, pipeline_id: id })
      assert.equal(checked.body.success, true, checked.text)
      const shown = await preview(config, id)
      assert.deepEqual([shown.body.success, shown.body.problems], [true, []], shown.text)
    }
    const row = await app.services.db.first<{ id: string; organization_id: string; config_box: Buffer }>(
      sql`SELECT id, organization_id, config_box FROM pipelines WHERE id = ${id}`,
    )
    const stored = openPipelineConfig(app.services.box, row!)
    assert.equal(stored.source.authentication!.params.refresh_token, auth.currentToken(first))
  })
})

describe('a dry run of a change', () => {
  const put = (id: string, body: object) => app.call('PUT', `/api/pipelines/${id}`, { as: acme.member, body })

  test('answers with what the pipeline would be and changes nothing', async () => {
    const id = await create(bearer, { schedule: '0 6 * * *' })
    const read = async () => (await app.call('GET', `/api/pipelines/${id}`, { as: acme.owner })).body
    const before = await read()
    const tried = await put(id, { name: 'Other', schedule: '0 7 * * *', dry_run: true })
    assert.deepEqual([tried.status, tried.body.name, tried.body.schedule], [200, 'Other', '0 7 * * *'], tried.text)
    assert.deepEqual(await read(), before)
    const logged = await app.call('GET', `/api/audit?action=pipeline.updated`, { as: acme.owner })
    assert.ok(!logged.text.includes(id))
  })

  test('is refused as the change would be', async () => {
    const id = await create(bearer)
    const wrong = await put(id, { schedule: 'soon', dry_run: true })
    assert.equal(wrong.status, 400)
    assert.equal((await put(id, { config: { source: {} }, dry_run: true })).status, 400)
  })
})
