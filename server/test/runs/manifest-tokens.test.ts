/** Runs of manifests whose provider rotates the refresh token in their settings and revokes a grant whose old one is used. */
import assert from 'node:assert/strict'
import { after, beforeEach, describe, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from '../../src/database/database.ts'
import { startServer } from '../egress/http-server.ts'
import { type AuthServer, startAuthServer } from '../harness/auth-server.ts'
import { startEngine } from '../harness/engine.ts'
import { executorsOf } from '../harness/executors.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8', WORKER_CONCURRENCY: '4' })
const { db } = engine.services
const auth: AuthServer = await startAuthServer()
const server = await startServer()
after(() => auth.close())
await engine.work()

interface Credentials {
  client_id: string
  client_secret: string
  refresh_token: string
  access_token?: string
  token_expiry_date?: string
}

beforeEach(() => {
  auth.reset()
  auth.guard('oauth2_refresh_token')
  auth.naming = 'form'
  server.on('/rows', (request, response) => {
    response.setHeader('content-type', 'application/json')
    if (auth.admits(request.headers)) response.end('[{"id":1},{"id":2}]')
    else response.writeHead(401).end('{}')
  })
})

const properties = { client_id: {}, client_secret: {}, refresh_token: {} }
const stored = { ...properties, access_token: {}, token_expiry_date: {} }

/** `fields`: what the settings may hold; an access token is stored only where they may hold one. */
const manifestOf = (fields: object): string =>
  JSON.stringify({
    version: '6.0.0',
    type: 'DeclarativeSource',
    check: { type: 'CheckStream', stream_names: ['rows'] },
    streams: [
      {
        type: 'DeclarativeStream',
        name: 'rows',
        schema_loader: { type: 'InlineSchemaLoader', schema: { type: 'object', properties: {} } },
        retriever: {
          requester: {
            type: 'HttpRequester',
            url_base: server.base,
            path: 'rows',
            authenticator: {
              type: 'OAuthAuthenticator',
              client_id: "{{ config['credentials']['client_id'] }}",
              client_secret: "{{ config['credentials']['client_secret'] }}",
              token_refresh_endpoint: auth.tokenUrl,
              refresh_token_updater: {},
            },
          },
          record_selector: { extractor: { type: 'DpathExtractor', field_path: [] } },
        },
      },
    ],
    spec: {
      type: 'Spec',
      connection_specification: {
        type: 'object',
        properties: { credentials: { type: 'object', additionalProperties: false, properties: fields } },
      },
    },
  })

function newCredentials(): Credentials {
  const { params } = auth.good('oauth2_refresh_token')
  return {
    client_id: String(params.client_id),
    client_secret: String(params.client_secret),
    refresh_token: String(params.refresh_token),
  }
}

const asInline = (credentials: Credentials, fields: object = properties) => ({
  name: 'manifest',
  stream: 'rows',
  config: { manifest: manifestOf(fields), settings: { credentials } },
})

let saved = 0
async function asSaved(credentials: Credentials, fields: object = properties) {
  const source_name = `rotating_${++saved}`
  const body = { name: 'Rotating', source_name, manifest: manifestOf(fields) }
  const answer = await engine.call('POST', '/api/manifests', { as: engine.person, body })
  assert.equal(answer.status, 201, answer.text)
  return { name: source_name, stream: 'rows', config: { credentials } }
}

async function saveConnector({ name, config }: { name: string; config: object }): Promise<string> {
  const body = { name: 'shared', connector_name: name, config: { config } }
  const answer = await engine.call('POST', '/api/saved/sources', { as: engine.person, body })
  assert.equal(answer.status, 201, answer.text)
  return answer.body.id
}

async function credentialsAt(path: string): Promise<Credentials> {
  const { config } = (await engine.call('GET', path, { as: engine.person })).body
  const settings = (config.source ?? config).config
  return (settings.settings ?? settings).credentials
}

async function succeed(pipelineId: string): Promise<string> {
  const id = await engine.trigger(pipelineId)
  const run = await engine.finished(id)
  assert.equal(run.status, 'success', run.error ?? '')
  return id
}

for (const [kind, sourceOf] of [
  ['an inline manifest', async (...given: Parameters<typeof asInline>) => asInline(...given)],
  ['a saved manifest', asSaved],
] as const)
  describe(kind, () => {
    test('continues with the rotated token, run after run, and shows it nowhere', async () => {
      const credentials = newCredentials()
      const id = await engine.createPipeline({ source: await sourceOf(credentials) })
      for (let round = 1; round <= 3; round++) {
        const run = await succeed(id)
        assert.equal(auth.tokenRequests.length, round)
        const current = auth.currentToken(credentials.refresh_token)
        assert.deepEqual(await credentialsAt(`/api/pipelines/${id}`), { ...credentials, refresh_token: current })
        const row = await db.first<{ whole: string }>(
          sql`SELECT to_jsonb(r)::text AS whole FROM runs r WHERE id = ${run}`,
        )
        const texts = `${await engine.logs(run)}${row!.whole}`
        for (const secret of auth.secrets) assert.ok(!texts.includes(secret), 'a secret was said')
      }
      assert.deepEqual(await db.query(sql`SELECT 1 FROM refresh_leases`), [])
    })

    test('stores the access token where its settings have a place for it, and uses it until it ends', async () => {
      const credentials = newCredentials()
      const id = await engine.createPipeline({ source: await sourceOf(credentials, stored) })
      await succeed(id)
      const { access_token, token_expiry_date } = await credentialsAt(`/api/pipelines/${id}`)
      assert.ok(access_token && Date.parse(token_expiry_date!) > Date.now())
      await succeed(id)
      assert.equal(auth.tokenRequests.length, 1)
      auth.expireTokens()
      await succeed(id)
      assert.equal(auth.tokenRequests.length, 2)
      assert.ok(auth.tokenRequests.every(({ status }) => status === 200))
    })

    test('is used by two pipelines at once, and by a check, without revoking the grant', async () => {
      const credentials = newCredentials()
      const connector = await saveConnector(await sourceOf(credentials))
      const source = { saved_connector_id: connector, stream: 'rows' }
      const pipelines = await Promise.all([1, 2].map(() => engine.createPipeline({ source })))
      await Promise.all(pipelines.map(succeed))
      const check = { as: engine.person, body: { source: { saved_connector_id: connector } } }
      const { body } = await engine.call('POST', '/api/connectors/check', check)
      assert.equal(body.success, true, body.message)
      assert.deepEqual(
        auth.tokenRequests.map(({ status }) => status),
        [200, 200, 200],
      )
      const { refresh_token } = await credentialsAt(`/api/saved/sources/${connector}`)
      assert.equal(refresh_token, auth.currentToken(credentials.refresh_token))
    })

    test('does not get a superseded token back with a config that was read before', async () => {
      const credentials = newCredentials()
      const source = await sourceOf(credentials)
      const id = await engine.createPipeline({ source })
      await succeed(id)
      const config = { source, destination: { name: 'file', config: {} } }
      const answer = await engine.call('PUT', `/api/pipelines/${id}`, { as: engine.person, body: { config } })
      assert.equal(answer.status, 200, answer.text)
      await succeed(id)
    })

    test('stores the new token before its access token is used: a kill -9 then loses nothing', async () => {
      const credentials = newCredentials()
      const id = await engine.createPipeline({
        source: await sourceOf(credentials),
        run: { max_attempts: 3, backoff_seconds: 1 },
      })
      const seen: string[] = []
      server.on('/rows', async (request, response) => {
        if (!auth.admits(request.headers)) return response.writeHead(401).end('{}')
        seen.push((await credentialsAt(`/api/pipelines/${id}`)).refresh_token)
        if (seen.length === 1) for (const pid of executorsOf(process.pid)) process.kill(pid, 'SIGKILL')
        response.setHeader('content-type', 'application/json')
        return response.end('[{"id":1}]')
      })
      const tokens: string[] = []
      auth.beforeToken = async () => void tokens.push(auth.currentToken(credentials.refresh_token))
      const run = await engine.finished(await engine.trigger(id))
      assert.deepEqual([run.status, run.attempt], ['success', 2], run.error ?? '')
      assert.equal(tokens[0], credentials.refresh_token)
      assert.equal(seen[0], tokens[1], 'what the first attempt received is stored, and the second one used it')
      assert.ok(auth.tokenRequests.every(({ status }) => status === 200))
    })

    test('stores the new token of a run that is cancelled in the middle of an exchange', async () => {
      const credentials = newCredentials()
      const id = await engine.createPipeline({ source: await sourceOf(credentials) })
      const asked = Promise.withResolvers<void>()
      const cancelled = Promise.withResolvers<void>()
      auth.beforeToken = async () => {
        asked.resolve()
        await cancelled.promise
      }
      const run = await engine.trigger(id)
      await asked.promise
      await engine.call('POST', `/api/pipelines/runs/${run}/cancel`, { as: engine.person })
      cancelled.resolve()
      const deadline = Date.now() + 20_000
      const current = async () => (await credentialsAt(`/api/pipelines/${id}`)).refresh_token
      while ((await current()) === credentials.refresh_token) {
        assert.ok(Date.now() < deadline, 'the token was not stored')
        await delay(20)
      }
      assert.equal(await current(), auth.currentToken(credentials.refresh_token))
    })
  })

test('a check of settings that are not stored warns that their token is used up', async () => {
  const body = { source: asInline(newCredentials()) }
  const answer = await engine.call('POST', '/api/connectors/check', { as: engine.person, body })
  assert.equal(answer.body.success, true, answer.text)
  assert.match(answer.body.message, /has rotated the refresh token.*authorize again/s)
})

test('a check of a pipeline whose settings are masked stores the rotated token', async () => {
  const credentials = newCredentials()
  const source = asInline(credentials)
  const pipeline_id = await engine.createPipeline({ source })
  const masked = { ...source, config: { ...source.config, settings: '********' } }
  const body = { source: masked, pipeline_id }
  const answer = await engine.call('POST', '/api/connectors/check', { as: engine.person, body })
  assert.equal(answer.body.success, true, answer.text)
  const { refresh_token } = await credentialsAt(`/api/pipelines/${pipeline_id}`)
  assert.equal(refresh_token, auth.currentToken(credentials.refresh_token))
  assert.notEqual(refresh_token, credentials.refresh_token)
})
