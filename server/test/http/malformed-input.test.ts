/**
 * Every route of the OpenAPI document, asked with what nobody should send. Whatever it is, the answer comes soon, is
 * never a 5xx, is one that the document lists, and fits the schema that it lists. Routes that are added later are asked too.
 * The same inputs are made each time; FUZZ_SEED and FUZZ_RUNS make others and more.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import fc from 'fast-check'
import { sql } from '../../src/database/database.ts'
import { type Person, registerPerson, startApp } from '../harness/app.ts'
import { createChecker, type Operation, readDocument, resolveIn, type Schema } from '../harness/openapi.ts'

const app = await startApp()
const SEED = Number(process.env.FUZZ_SEED ?? 20_260_101)
const RUNS = Number(process.env.FUZZ_RUNS ?? 40)
const ANSWER_MS = 35_000

const document = await readDocument(app)
const resolve = resolveIn(document)
const findFault = createChecker(document)

const nested = (depth: number) => JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`) as object
const SOME_ID = '11111111-1111-4111-8111-111111111111'

const strangeText = fc.oneof(
  fc.constantFrom(
    '',
    ' ',
    '\0',
    'a\0b',
    '\ud800',
    '\udfff\ud800',
    '\u202e',
    '😀',
    "'; DROP TABLE users; --",
    '../../etc/passwd',
    '%00',
  ),
  fc.constantFrom(
    '__proto__',
    'constructor',
    'NaN',
    'null',
    'true',
    '-1',
    '1e999',
    '9'.repeat(400),
    '2026-02-30',
    'x@y',
  ),
  fc.constantFrom(
    SOME_ID,
    SOME_ID.slice(1),
    `${SOME_ID}0`,
    SOME_ID.replaceAll('-', ''),
    `urn:uuid:${SOME_ID}`,
    `{${SOME_ID}}`,
  ),
  fc.constant('x'.repeat(100_000)),
  fc.string({ unit: 'binary', maxLength: 60 }),
)
const strangeValue: fc.Arbitrary<unknown> = fc.oneof(
  { weight: 3, arbitrary: strangeText },
  fc.constantFrom(null, true, false, 0, -1, 1.5, 2 ** 31, 2 ** 53, -(2 ** 63), 1e308, [], {}, [[]], [null]),
  fc.constantFrom(nested(90), nested(150), Array(5000).fill(0), { constructor: { prototype: { polluted: 1 } } }),
  fc.object({ maxDepth: 3 }),
  fc.array(strangeText, { maxLength: 3 }),
)

/** Something near to what the schema asks for, so that the strange part gets past the first check. */
function valueFor(given: Schema): fc.Arbitrary<unknown> {
  const schema = resolve(given)
  if (schema.enum) return fc.constantFrom(...schema.enum)
  if (schema.const !== undefined) return fc.constant(schema.const)
  const members = schema.anyOf ?? schema.oneOf
  if (members) return fc.oneof(...members.map(valueFor))
  switch ([schema.type].flat()[0]) {
    case 'object':
      return fc.record(
        Object.fromEntries(Object.entries(schema.properties ?? {}).map(([name, inner]) => [name, mostly(inner)])),
        { requiredKeys: [] },
      )
    case 'array':
      return fc.array(mostly(schema.items ?? {}), { maxLength: 3 })
    case 'string':
      return schema.format === 'uuid'
        ? fc.uuid()
        : fc.constantFrom('a', 'name', 'someone@example.com', 'Correct-horse-1')
    case 'integer':
    case 'number':
      return fc.integer({ min: 0, max: 1000 })
    case 'boolean':
      return fc.boolean()
    default:
      return strangeValue
  }
}
const mostly = (schema: Schema): fc.Arbitrary<unknown> =>
  fc.oneof({ weight: 4, arbitrary: valueFor(schema) }, { weight: 1, arbitrary: strangeValue })

const CONTENT_TYPES = ['text/plain', 'application/xml', 'multipart/form-data', 'application/json;;', '*/*', 'x', '']
const BROKEN = [
  '{',
  '{"a":}',
  'undefined',
  '[1,',
  '"',
  '{"__proto__":{"polluted":1}}',
  '\ufeff{}',
  '{"a":1}{"b":2}',
  '\0',
]

interface Body {
  text: string
  type: string
}
const bodyFor = (schema: Schema): fc.Arbitrary<Body | null> => {
  const json = (value: fc.Arbitrary<unknown>) =>
    value.map((v) => ({ text: JSON.stringify(v), type: 'application/json' }))
  return fc.oneof(
    { weight: 8, arbitrary: json(valueFor(schema)) },
    { weight: 2, arbitrary: json(strangeValue) },
    fc.constantFrom(...BROKEN).map((text) => ({ text, type: 'application/json' })),
    fc.constantFrom(...CONTENT_TYPES).map((type) => ({ text: '{"name":"x"}', type })),
    json(valueFor(schema)).map(({ text, type }) => ({ text: text.slice(0, text.length / 2), type })),
    fc.constant({ text: `"${'x'.repeat(1024 * 1024)}"`, type: 'application/json' }),
    fc.constant(null),
  )
}

/** Lone surrogates have no UTF-8 form: in an address they can only come as bytes that are no UTF-8. */
const inAddress = (value: unknown): string => {
  const text = typeof value === 'string' ? value : JSON.stringify(value)
  return text.isWellFormed() ? encodeURIComponent(text) : '%ed%a0%80'
}
const ONE_PLACE = fc.constantFrom('%', '%ff', '%00', '..', '.', '%2e%2e%2f', '%c0%af', '*', ':id')

function addressFor(path: string, operation: Operation): fc.Arbitrary<string> {
  const parameters = operation.parameters ?? []
  const inPath = parameters.filter((parameter) => parameter.in === 'path')
  const inQuery = parameters.filter((parameter) => parameter.in === 'query')
  const places = fc.tuple(...inPath.map(({ schema }) => fc.oneof(mostly(schema).map(inAddress), ONE_PLACE)))
  const pairs = fc.array(
    fc.tuple(
      fc.constantFrom('a[b]', '__proto__', 'constructor', ...inQuery.map(({ name }) => name)),
      fc.oneof(strangeText.map(inAddress), fc.integer().map(String), ONE_PLACE),
    ),
    { maxLength: 3 },
  )
  return fc.tuple(places, inQuery.length > 0 ? pairs : fc.constant([])).map(([values, query]) => {
    const filled = inPath.reduce((url, { name }, index) => url.replace(`{${name}}`, () => values[index] ?? ''), path)
    // Node's own parser takes no address longer than its headers may be.
    const address =
      query.length > 0 ? `${filled}?${query.map(([name, value]) => `${name}=${value}`).join('&')}` : filled
    return address.slice(0, 15_000)
  })
}

type Caller = 'owner' | 'nobody' | 'liar'
const callers: fc.Arbitrary<Caller> = fc.oneof(
  { weight: 8, arbitrary: fc.constant<Caller>('owner') },
  fc.constantFrom<Caller>('nobody', 'liar'),
)
const headersOf = (caller: Caller, person: Person): Record<string, string> =>
  caller === 'owner'
    ? { authorization: `Bearer ${person.access_token}` }
    : caller === 'liar'
      ? { authorization: 'Bearer \u00ff.\u00fe.', 'x-api-key': 'svc_live_' }
      : {}

/** A stream without an end; runs/run-events.test.ts has what it refuses. */
const ENDLESS = '/api/runs/events'

for (const [path, methods] of Object.entries(document.paths).filter(([path]) => path !== ENDLESS))
  for (const [method, operation] of Object.entries(methods)) {
    const name = `${method.toUpperCase()} ${path}`
    test(`${name} withstands malformed input`, async () => {
      const person = await registerPerson(app)
      const schema = operation.requestBody?.content['application/json']?.schema ?? {}
      const hasBody = method !== 'get' && method !== 'head'
      const requests = fc.record({
        url: addressFor(path, operation),
        body: hasBody ? bodyFor(schema) : fc.constant(null),
        caller: callers,
      })
      const property = fc.asyncProperty(requests, async ({ url, body, caller }) => {
        await app.services.db.execute(sql`DELETE FROM login_attempts`)
        const headers = headersOf(caller, person)
        if (body) headers['content-type'] = body.type
        const answered = app.app.inject({ method: method as 'GET', url, headers, ...(body && { payload: body.text }) })
        const stop = new AbortController()
        const late = delay(ANSWER_MS, null, { signal: stop.signal, ref: true }).catch(() => null)
        const answer = await Promise.race([answered, late])
        stop.abort()
        assert.ok(answer, `no answer within ${ANSWER_MS / 1000} s`)
        const { statusCode: status } = answer
        if (path === '/readyz') return
        assert.ok(status < 500, `${status}: ${answer.body}`)
        // An address that was bent far enough is another one.
        const known = new Set([...Object.keys(operation.responses), '404', '405', '400'])
        assert.ok(known.has(String(status)), `${status} is not documented: ${answer.body.slice(0, 200)}`)
        const json = String(answer.headers['content-type']).startsWith('application/json')
        const declared = operation.responses[status]?.content?.['application/json']
        if (declared && json) assert.equal(findFault(declared.schema, JSON.parse(answer.body)), null, answer.body)
        if (status < 400) return
        assert.ok(json)
        const problem = JSON.parse(answer.body) as { detail: unknown }
        assert.ok(typeof problem.detail === 'string' && problem.detail !== '')
        assert.ok(problem.detail.length < 2000, 'an error does not repeat all that was sent')
      })
      await fc.assert(property, { seed: SEED, numRuns: RUNS })
      assert.deepEqual(Object.keys(Object.prototype), [])
      assert.equal(({} as { polluted?: number }).polluted, undefined)
    })
  }
