/**
 * Every route of the OpenAPI document, asked as the document says, about objects that are there: texts, times and numbers
 * are valid but at their edges. No answer is a 5xx, and each fits the schema that is declared for its status.
 * malformed-input.test.ts sends what the document does not allow. FUZZ_SEED and FUZZ_RUNS make other requests and more.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { registerPerson, startApp } from '../harness/app.ts'
import {
  createChecker,
  listOperations,
  type Operation,
  readDocument,
  resolveIn,
  type Schema,
} from '../harness/openapi.ts'

const app = await startApp()
const document = await readDocument(app)
const resolve = resolveIn(document)
const findFault = createChecker(document)
const SEED = Number(process.env.FUZZ_SEED ?? 20_261_116)
const RUNS = Number(process.env.FUZZ_RUNS ?? 10)
const owner = await registerPerson(app)

/** They run code, call servers or hash passwords, which takes seconds: malformed-input.test.ts asks them all the same. */
const SLOW =
  /connectors\/(check|streams)|custom-sources(\/(validate|preview|\{id\}\/check))?$|auth\/(login|register|password)/

const config = { source: { name: 'dummy', stream: 'creatures' }, destination: { name: 'file' } }
const make = async (path: string, body: object = {}): Promise<string> => {
  const answer = await app.call('POST', path, { as: owner, body })
  assert.equal(answer.status, 201, `${path}: ${answer.text}`)
  return answer.body.id
}
const pipeline = await make('/api/pipelines', { name: 'a', config, schedule: '0 4 * * *' })
const webhook = await make('/api/webhooks', { url: 'https://example.com/', events: ['run.failed'] })
/** What an `id` in a path means, by the path before it. */
const ids: Record<string, string> = {
  '/api/pipelines/{id}': pipeline,
  '/api/pipelines/runs/{run_id}': await make(`/api/pipelines/${pipeline}/run`),
  '/api/domains/{domain_id}': await make('/api/domains', { name: 'a' }),
  '/api/webhooks/{id}': webhook,
  '/api/webhooks/{id}/deliveries/{delivery_id}': await make(`/api/webhooks/${webhook}/test`),
  '/api/alerts/{id}': await make('/api/alerts', {
    name: 'a',
    on: ['failed'],
    channel: { type: 'slack', url: 'https://example.com/a' },
  }),
  '/api/saved/sources/{id}': await make('/api/saved/sources', { name: 'a', connector_name: 'dummy', config: {} }),
  '/api/saved/destinations/{id}': await make('/api/saved/destinations', {
    name: 'a',
    connector_name: 'file',
    config: {},
  }),
  '/api/users/{user_id}': owner.id,
  '/api/api-keys/{key_id}': await make('/api/api-keys', { name: 'a' }),
  '/api/users/invitations/{invitation_id}': await make('/api/users/invite', { email: 'x@example.com', role: 'viewer' }),
}

const TEXTS = ['a', 'é', '😀 \u202e', "'; --", '%', '_', '\\', '\n\t', 'NULL', '../..', 'x'.repeat(300)]
const TIMES = [
  '0001-01-01T00:00:00Z',
  '9999-12-31T23:59:59.999999Z',
  '2026-03-29T02:30:00+02:00',
  '2024-02-29T00:00:00-15:59',
]
const PATTERNED = [
  'someone@example.com',
  'https://example.com/a.csv',
  '00000000-0000-4000-8000-000000000000',
  '#336699',
  'planets',
  'A name',
]

interface TextRules {
  minLength?: number
  maxLength?: number
  pattern?: string
}

/** Something that the schema allows. */
function valueFor(given: Schema): fc.Arbitrary<unknown> {
  const schema = resolve(given) as Schema & TextRules
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if (schema.const !== undefined) return fc.constant(schema.const)
  const members = schema.anyOf ?? schema.oneOf
  if (members) return fc.oneof(...members.map(valueFor))
  const [type, ...others] = [schema.type].flat()
  if (others.includes('null')) return fc.option(valueFor({ ...schema, type: type! }), { nil: null })
  switch (type) {
    case 'object':
      return fc.record(
        Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, inner]) => [name, valueFor(inner)])),
        { requiredKeys: schema.required ?? [] },
      )
    case 'array':
      return fc.uniqueArray(valueFor(schema.items ?? {}), { minLength: 1, maxLength: 2 })
    case 'integer':
    case 'number': {
      const { minimum = 0, maximum = Number.MAX_SAFE_INTEGER } = schema
      return fc.constantFrom(minimum, Math.min(minimum + 1, maximum), maximum)
    }
    case 'boolean':
      return fc.boolean()
    case 'string':
      if (schema.format === 'uuid') return fc.oneof(fc.uuid(), fc.constantFrom(...Object.values(ids)))
      if (schema.format === 'date-time') return fc.constantFrom(...TIMES)
      return textFor(schema)
    default:
      return fc.jsonValue({ maxDepth: 2 })
  }
}

/** Of a pattern that no text here fits, something that is refused is sent. */
function textFor({ minLength = 0, maxLength = 1000, pattern = '' }: TextRules): fc.Arbitrary<string> {
  const fits = (text: string) =>
    text.length >= minLength && text.length <= maxLength && new RegExp(pattern, 'u').test(text)
  const fitting = [...PATTERNED, ...TEXTS].filter(fits)
  return fc.constantFrom(...(fitting.length > 0 ? fitting : TEXTS))
}

function addressFor(path: string, { parameters = [] }: Operation): fc.Arbitrary<string> {
  const filled = path.replace(/\{\w+\}/g, (place, at: number) => {
    const known = ids[path.slice(0, at) + place] ?? ids[`${path.slice(0, at).replace(/[^/]+\/$/, '')}${place}`]
    return place === '{version}' ? '1' : (known ?? pipeline)
  })
  const query = parameters.filter((parameter) => parameter.in === 'query')
  return fc
    .record(Object.fromEntries(query.map(({ name, schema }) => [name, valueFor(schema)])), {
      requiredKeys: query.filter(({ required }) => required).map(({ name }) => name),
    })
    .map((pairs) => {
      const search = new URLSearchParams(
        Object.entries(pairs).map(([name, value]): [string, string] => [name, String(value)]),
      )
      return search.size > 0 ? `${filled}?${search}` : filled
    })
}

/** What removes comes last, so that the others find what they ask about. */
const ORDER = ['GET', 'PUT', 'POST', 'DELETE']
const operations = listOperations(document)
  .filter(
    ({ path }) =>
      path.startsWith('/api/') && !/\/(logs\/stream|runs\/events)$/.test(path) && !path.endsWith('/auth/logout'),
  )
  .filter(({ path, method }) => method === 'GET' || !SLOW.test(path))
  .sort((a, b) => ORDER.indexOf(a.method) - ORDER.indexOf(b.method))

for (const { path, method, operation } of operations)
  test(`${method} ${path} answers as it is described`, async () => {
    const schema = operation.requestBody?.content['application/json']?.schema
    const requests = fc.record({
      url: addressFor(path, operation),
      payload: schema ? valueFor(schema) : fc.constant(undefined),
    })
    const statuses = new Set<number>()
    const property = fc.asyncProperty(requests, async ({ url, payload }) => {
      const answer = await app.call(method, url, {
        as: owner,
        body: payload === undefined ? undefined : JSON.stringify(payload),
      })
      statuses.add(answer.status)
      assert.ok(answer.status < 500, `${answer.status}: ${answer.text}`)
      const declared = operation.responses[answer.status]
      assert.ok(declared, `${answer.status} is not declared: ${answer.text}`)
      const content = declared.content?.[String(answer.headers['content-type']).split(';')[0]!]
      if (answer.text === '') return
      assert.ok(content, `${answer.status} ${answer.headers['content-type']} is not declared`)
      if (answer.body !== null) assert.equal(findFault(content.schema, answer.body), null, answer.text)
    })
    await fc.assert(property, { seed: SEED, numRuns: RUNS })
    if (method === 'GET' && path in ids) assert.ok(statuses.has(200), 'the object was found')
  })
