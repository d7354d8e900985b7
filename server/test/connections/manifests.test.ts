/** A saved manifest, from validation to the runs of two versions, through the API. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startPokeapi } from '../harness/api-services.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.1' })
await engine.work()
const { call, person } = engine
const stranger = await registerPerson(engine, 'Stranger')
const pokeapi = await startPokeapi()
after(() => pokeapi.close())

const yaml = (added = '') => `
version: 6.0.0
type: DeclarativeSource
check: {type: CheckStream, stream_names: [pokemon]}
streams:
  - type: DeclarativeStream
    name: pokemon
    primary_key: name
    retriever:
      type: SimpleRetriever
      requester: {type: HttpRequester, url_base: "{{ config['base_url'] }}", path: /api/v2/pokemon}
      record_selector:
        type: RecordSelector
        extractor: {type: DpathExtractor, field_path: [results]}
      paginator:
        type: DefaultPaginator
        page_token_option: {type: RequestPath}
        pagination_strategy:
          type: CursorPagination
          cursor_value: "{{ response.next }}"
          stop_condition: "{{ not response.next }}"
    schema_loader:
      type: InlineSchemaLoader
      schema: {type: object, properties: {name: {type: string}, url: {type: string}}}
${added}
spec:
  type: Spec
  connection_specification:
    type: object
    required: [base_url]
    properties: {base_url: {type: string}}
`
const ADDED = `
    transformations:
      - {type: AddFields, fields: [{path: [edition], value: second}]}
`

async function runOnce(pipeline: string): Promise<Record<string, unknown>[]> {
  const run = await engine.finished(await engine.trigger(pipeline))
  assert.equal(run.status, 'success', run.error ?? '')
  const output = await call('GET', `/api/pipelines/runs/${run.id}/output`, { as: person })
  return output.text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line))
}

test('a manifest is validated, saved, checked and described; its pipeline runs each version; strangers see nothing', async () => {
  const post = (path: string, body: object, as = person) => call('POST', path, { as, body })
  const valid = await post('/api/manifests/validate', { manifest: yaml() })
  assert.deepEqual([valid.status, valid.body.valid, valid.body.runs], [200, true, 'whole'], valid.text)
  assert.deepEqual(valid.body.settings_schema.required, ['base_url'])
  const saved = await post('/api/manifests', { name: 'Pokémon', source_name: 'poke', manifest: yaml() })
  assert.deepEqual([saved.status, saved.body.streams], [201, ['pokemon']], saved.text)

  const source = { name: 'poke', stream: 'pokemon', config: { base_url: pokeapi.url } }
  const check = await post('/api/connectors/check', { source })
  assert.equal(check.body.success, true, check.text)
  const incomplete = await post('/api/connectors/check', { source: { ...source, config: {} } })
  assert.match(incomplete.text, /base_url/)
  const streams = await post('/api/connectors/streams', { source, describe: true })
  assert.deepEqual(streams.body.streams, ['pokemon'], streams.text)
  const [described] = streams.body.descriptions
  assert.deepEqual(described.primary_key, ['name'])
  assert.deepEqual(
    described.columns.map((column: { name: string }) => column.name),
    ['name', 'url'],
  )

  const pipeline = await engine.createPipeline({ source })
  const first = await runOnce(pipeline)
  assert.deepEqual(first.map(({ name }) => name).sort(), [...pokeapi.names].sort())
  assert.ok(first.every(({ edition }) => edition === undefined))
  const path = `/api/manifests/${saved.body.id}`
  const changed = await call('PUT', path, { as: person, body: { manifest: yaml(ADDED) } })
  assert.equal(changed.status, 200, changed.text)
  const second = await runOnce(pipeline)
  assert.equal(second.length, first.length)
  assert.ok(second.every(({ edition }) => edition === 'second'))
  assert.equal((await call('GET', `${path}/versions`, { as: person })).body.length, 2)

  const [listed] = (await call('GET', '/api/manifests', { as: person })).body
  assert.deepEqual([listed.version, listed.pipeline_count], [2, 1])
  const users = await call('GET', `${path}/pipelines`, { as: person })
  assert.deepEqual(
    users.body.map(({ id }: { id: string }) => id),
    [pipeline],
  )

  for (const [method, suffix, body] of [
    ['GET', '', undefined],
    ['GET', '/pipelines', undefined],
    ['GET', '/versions', undefined],
    ['GET', '/versions/1', undefined],
    ['PUT', '', { name: 'Mine' }],
    ['DELETE', '', undefined],
  ] as const) {
    const answer = await call(method, `${path}${suffix}`, { as: stranger, ...(body && { body }) })
    assert.equal(answer.status, 404, `${method} ${suffix}`)
  }
  assert.deepEqual((await call('GET', '/api/manifests', { as: stranger })).body, [])
  const foreign = await post('/api/connectors/streams', { source }, stranger)
  assert.notEqual(foreign.body.success, true, foreign.text)
})
