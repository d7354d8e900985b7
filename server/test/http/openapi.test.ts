import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Ajv2020 } from 'ajv/dist/2020.js'
import { destinations, sources } from '../../src/connectors/registry.ts'
import { startApp } from '../harness/app.ts'
import { createChecker, listOperations, readDocument, resolveIn, type Schema } from '../harness/openapi.ts'

const app = await startApp()

const document = await readDocument(app)
const operations = listOperations(document)
const resolve = resolveIn(document)

test('the description is OpenAPI 3.1: each operation is named once, with its parameters and its answers', () => {
  assert.equal(document.openapi, '3.1.0')
  assert.ok(document.info.title && document.info.version)
  const names = operations.flatMap(({ operation }) => operation.operationId ?? [])
  assert.equal(new Set(names).size, names.length)
  for (const { path, method, operation } of operations) {
    const where = `${method} ${path}`
    assert.ok(operation.summary, `${where} has no summary`)
    assert.equal(operation.tags?.length, 1, `${where} has no tag`)
    const templates = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name).sort()
    const declared = (operation.parameters ?? []).filter((parameter) => parameter.in === 'path')
    assert.deepEqual(declared.map(({ name }) => name).sort(), templates, where)
    assert.ok(
      declared.every(({ required }) => required === true),
      where,
    )
    for (const [status, response] of Object.entries(operation.responses))
      assert.ok(response.description && response.description !== 'Default Response', `${where} ${status}`)
    assert.ok(
      Object.keys(operation.responses).some((status) => Number(status) < 400),
      `${where} says no success`,
    )
  }
})

test('every schema in it is a JSON Schema of the 2020-12 draft', () => {
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  const named = Object.entries(document.components.schemas).map(([name, schema]) => ({ where: name, schema }))
  const inPlace = operations.flatMap(({ path, method, operation }) =>
    [
      ...(operation.parameters ?? []).map(({ schema }) => schema),
      ...[operation.requestBody, ...Object.values(operation.responses)]
        .flatMap((part) => Object.values(part?.content ?? {}))
        .map(({ schema }) => schema),
    ].map((schema) => ({ where: `${method} ${path}`, schema })),
  )
  for (const { where, schema } of [...named, ...inPlace]) {
    assert.ok(ajv.validateSchema(schema), `${where}: ${ajv.errorsText()}`)
    // As a keyword; a column of a stream has a field of that name.
    assert.doesNotMatch(JSON.stringify(schema), /"nullable":(true|false)/, `${where}: of OpenAPI 3.0`)
  }
})

test('every route of the API is in it, and nothing else', () => {
  const listed = operations
    .filter(({ path }) => path.startsWith('/api/'))
    .map(({ method, path }) => `${method} ${path}`)
  const routes = app.app.routeList
    .filter(({ url }) => url.startsWith('/api/') && url !== '/api/openapi.json')
    .map(({ method, url }) => `${method} ${url.replace(/:(\w+)/g, '{$1}')}`)
  assert.deepEqual(listed.sort(), routes.sort())
})

test('errors are described by their one form', () => {
  for (const { path, method, operation } of operations)
    for (const [status, response] of Object.entries(operation.responses)) {
      if (Number(status) < 400 || path === '/readyz') continue
      const schema = response.content?.['application/json']?.schema
      assert.ok(schema, `${method} ${path} ${status}`)
      // Few have something to add; theirs has a name too.
      if (schema.$ref === '#/components/schemas/Error') continue
      const known = ['InUse 409', 'ChangesRefused 400', 'ChangesRefused 403']
      const found = `${schema.$ref?.split('/').at(-1)} ${status}`
      assert.ok(known.includes(found), `${method} ${path} ${status}: ${found}`)
      assert.deepEqual(resolve(schema).properties?.detail, { type: 'string' })
    }
})

test('every object that is sent or answered has a name, and every name leads to a schema', () => {
  for (const { path, method, operation } of operations) {
    if (!path.startsWith('/api/')) continue
    const bodies = [operation.requestBody, ...Object.values(operation.responses)].flatMap((part) =>
      Object.values(part?.content ?? {}).map(({ schema }) => schema),
    )
    for (const schema of bodies) {
      const item = schema.items ?? schema
      assert.ok(item.$ref !== undefined || item.type === 'string', `${method} ${path}: ${JSON.stringify(item)}`)
    }
  }
  assert.deepEqual(document.components.schemas.RunListItem!.properties!.status, {
    $ref: '#/components/schemas/RunStatus',
  })
  for (const [, $ref] of JSON.stringify(document).matchAll(/"\$ref":"([^"]+)"/g))
    assert.ok(resolve({ $ref: $ref! }), `${$ref} leads nowhere`)
  for (const name of ['Pipeline', 'PipelineConfig', 'Run', 'Domain', 'SourceConnector', 'SavedConnector', 'Error'])
    assert.ok(document.components.schemas[name], name)
})

test('what has a default need not be given, neither a parameter nor a setting', () => {
  for (const { path, method, operation } of operations) {
    for (const { name, schema, required } of operation.parameters ?? [])
      assert.ok(!(required && resolve(schema).default !== undefined), `${method} ${path} ${name}`)
  }
  for (const [name, schema] of Object.entries(document.components.schemas))
    for (const field of schema.required ?? [])
      assert.equal(schema.properties?.[field]?.default, undefined, `${name}.${field}`)
  const copy = document.paths['/api/pipelines/{id}/copy']!.post!.requestBody!
  assert.equal(copy.required, false)
  assert.equal(resolve(copy.content['application/json']!.schema).type, 'object')
})

test('files and event streams are described as what they are', () => {
  const answer = (path: string) => document.paths[path]!.get!.responses['200']!.content!
  for (const path of ['/api/pipelines/runs/{run_id}/output', '/api/pipelines/runs/{run_id}/download'])
    for (const { schema } of Object.values(answer(path))) assert.deepEqual(schema, { type: 'string', format: 'binary' })
  assert.deepEqual(answer('/api/pipelines/runs/{run_id}/logs/stream'), {
    'text/event-stream': { schema: { type: 'string' } },
  })
})

test("a pipeline's config is described with every connector and its settings", () => {
  const check = createChecker(document)
  const PipelineConfig: Schema = { $ref: '#/components/schemas/PipelineConfig' }
  const [source] = sources
  const [destination] = destinations
  const known = [
    ...sources.map(({ example_config }) => ({ source: example_config, destination: destination!.example_config })),
    ...destinations.map(({ example_config }) => ({ source: source!.example_config, destination: example_config })),
    {
      source: { saved_connector_id: ID, stream: 'public.orders' },
      destination: { saved_connector_id: ID, config: { table: 'orders' } },
      sync: { mode: 'incremental', cursor_field: 'id', write: 'upsert', primary_key: ['id'] },
      columns: { exclude: ['note'], rename: { a: 'b' } },
      run: { timeout_minutes: 5, keep_output: false },
    },
    {
      source: {
        name: 'my_source',
        stream: 'x',
        authentication: { type: 'mine', params: { a: 1 } },
        config: { b: [2] },
      },
      destination: { name: 'file' },
    },
  ]
  for (const config of known) assert.equal(check(PipelineConfig, config), null, JSON.stringify(config))
  const [whole] = known
  for (const wrong of [
    { ...whole, destination: { name: 'file', config: { format: 'xml' } } },
    { ...whole, destination: { name: 'fil' } },
    { ...whole, sync: { mode: 'sometimes' } },
    { ...whole, sink: {} },
    { source: whole!.source },
  ])
    assert.notEqual(check(PipelineConfig, wrong), null, JSON.stringify(wrong))
  const builtIn: Schema = { $ref: '#/components/schemas/BuiltInSource' }
  assert.notEqual(check(builtIn, { name: 'dummy', stream: 'creatures', config: { recrods: 1 } }), null)
  assert.equal(check(builtIn, { name: 'dummy', stream: 'creatures', config: { records: 1 } }), null)
})
const ID = '00000000-0000-4000-8000-000000000000'

test('the public routes are those of the specification and no others', () => {
  const open = app.app.routeList
    .filter(({ access }) => access === 'public')
    .map(({ method, url }) => `${method} ${url}`)
  assert.deepEqual(open.sort(), PUBLIC)
  for (const { path, method, operation } of operations)
    assert.equal(
      operation.security?.length === 0,
      PUBLIC.includes(`${method} ${path.replace(/\{(\w+)\}/g, ':$1')}`) || !path.startsWith('/api/'),
      `${method} ${path}`,
    )
})
const PUBLIC = [
  'GET /api/auth/idp',
  'GET /api/auth/idp/callback',
  'GET /api/openapi.json',
  'GET /api/users/invitations/preview',
  'POST /api/auth/login',
  'POST /api/auth/refresh',
  'POST /api/auth/register',
]

test('the reference at /docs needs nothing from outside', async () => {
  const page = await app.call('GET', '/docs')
  assert.equal(page.status, 200)
  assert.match(String(page.headers['content-type']), /^text\/html/)
  const parts = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, address]) => address!)
  assert.ok(parts.length >= 4, page.text)
  for (const part of parts) {
    assert.ok(!/^(https?:)?\/\//.test(part), part)
    const { status } = await app.call('GET', new URL(part, 'http://local/docs').pathname)
    assert.equal(status, 200, part)
  }
  const policy = String(page.headers['content-security-policy'])
  assert.match(policy, /default-src 'self'/)
  assert.ok(!/https?:\/\//.test(policy), policy)
})
