/**
 * Every parameter of every route, given the values at the edge of what its type allows. PostgreSQL knows neither all
 * times of RFC 3339 nor all integers: what it would refuse is a 400 that names the parameter, never a 500.
 */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'
import { listOperations, readDocument } from '../harness/openapi.ts'

const app = await startApp()
const person = await registerPerson(app)
const ID = '00000000-0000-4000-8000-000000000000'

const TIMES = {
  taken: [
    '2026-01-31T12:00:00Z',
    '2026-01-31t12:00:00.123456789z',
    '2026-01-31 12:00:00+05:30',
    '2026-01-31T12:00:00-15:59',
    '2024-02-29T00:00:00+0100',
    '0001-01-01T00:00:00+15:59',
    '9999-12-31T23:59:59.999999999-15:59',
    '2024-02-29',
    '0001-01-01',
  ],
  refused: [
    '0138-05-01T19:29:55-22:00',
    '2026-01-31T12:00:00+16:00',
    '2026-01-31T12:00:00+05:60',
    '0000-01-01T00:00:00Z',
    '10000-01-01T00:00:00Z',
    '-0001-01-01T00:00:00Z',
    '2026-01-31T24:00:00Z',
    '2016-12-31T23:59:60Z',
    '2026-02-30T00:00:00Z',
    '2025-02-29T00:00:00Z',
    '2026-13-01T00:00:00Z',
    '2026-02-30',
    '0000-01-01',
    '2026-01-31Z',
    '2026-01',
    `2026-01-31T12:00:00.${'1'.repeat(200)}Z`,
    'infinity',
    '-infinity',
    'epoch',
    'now',
    '1769860800',
    '',
  ],
}
const INTEGERS = ['9'.repeat(23), '9'.repeat(400), '9223372036854775807', '9223372036854775808', '9007199254740993']
const STRANGE_INTEGERS = ['-1', '-9223372036854775809', '1e22', '0x1', ' 1', '', 'NaN', 'Infinity', '1.5', '١']

const places = listOperations(await readDocument(app)).flatMap(({ path, method, operation: { parameters = [] } }) =>
  parameters.map((parameter) => ({ path, method, parameter, parameters })),
)

type Place = (typeof places)[number]

async function ask({ path, method, parameter, parameters }: Place, value: string) {
  const encoded = encodeURIComponent(value)
  const filled = parameters
    .filter((other) => other.in === 'path')
    .reduce((url, { name, schema }) => {
      const usual = schema.type === 'integer' ? '1' : ID
      return url.replace(`{${name}}`, name === parameter.name ? encoded : usual)
    }, path)
  return app.call(method, parameter.in === 'query' ? `${filled}?${parameter.name}=${encoded}` : filled, { as: person })
}

const where = ({ method, path, parameter }: Place, value: string) =>
  `${method} ${path}, ${parameter.name} = ${value.slice(0, 60)}`

test('a time is one that the database knows, at every route', async () => {
  const times = places.filter(({ parameter }) => parameter.schema.format === 'date-time')
  assert.ok(times.length >= 4, 'since and until of runs and of the audit log')
  for (const place of times) {
    for (const value of TIMES.taken) assert.equal((await ask(place, value)).status, 200, where(place, value))
    for (const value of TIMES.refused) {
      const answer = await ask(place, value)
      assert.equal(answer.status, 400, where(place, value))
      assert.equal(
        answer.body.detail,
        `${place.parameter.name}: must be a time such as 2026-01-31T12:00:00Z, or a date`,
      )
    }
  }
})

test('an integer is one that the database knows, at every route', async () => {
  const integers = places.filter(({ parameter }) => parameter.schema.type === 'integer')
  assert.ok(integers.some(({ parameter }) => parameter.name === 'offset'))
  for (const place of integers)
    for (const value of [...INTEGERS, ...STRANGE_INTEGERS]) {
      const { status } = await ask(place, value)
      // Too large a limit is taken for the largest; everything else that cannot be is refused.
      const tooLarge = place.parameter.name !== 'limit' && INTEGERS.includes(value)
      assert.ok(status < 500, where(place, value))
      if (tooLarge || STRANGE_INTEGERS.includes(value)) assert.ok([400, 404].includes(status), where(place, value))
    }
})

test('a text with a NUL is refused, at every route', async () => {
  for (const place of places) {
    if (place.path === '/api/auth/idp/callback') continue
    for (const value of ['\0', 'a\0b']) assert.equal((await ask(place, value)).status, 400, where(place, value))
  }
})
