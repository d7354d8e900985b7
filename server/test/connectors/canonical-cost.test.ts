/** `canonical` runs in the API, for each request with a config, and in the worker: no config may keep them busy. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { destinations, sources } from '../../src/connectors/registry.ts'
import type { RestApiSettings } from '../../src/connectors/rest-api/settings.ts'
import { restApiSource } from '../../src/connectors/rest-api/source.ts'

/** The most that the API accepts. */
const BYTES = 256 * 1024
/** Processor time, the least of three attempts: a busy machine does not count. What was slow took minutes. */
const MOST_MS = 1000

type Config = Record<string, unknown>
const client = { base_url: 'https://api.example.com' }
const named = (count: number, make: (name: string, index: number) => unknown = (name) => name) =>
  Array.from({ length: count }, (_, index) => make(`r${index}`, index))
const fields = (count: number, value: unknown): Config =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`p${index}`, value]))
const nested = (depth: number): unknown => {
  let value: unknown = 1
  for (let level = 0; level < depth; level++) value = level % 2 === 0 ? [value] : { a: value }
  return value
}
const defaults = (endpoint: object, more: object = {}) => ({ endpoint, ...more })
const rest = (resources: unknown[], resource_defaults?: object): Config => ({ client, resources, resource_defaults })
const child = (more: object) => (name: string, index: number) => ({
  name,
  endpoint: index === 0 ? more : { path: `{resources.r${index - 1}.id}/x`, ...more },
})
const steps = (count: number) =>
  Array.from({ length: count }, () => ({ map: { remove: Array.from({ length: 1000 }, () => 'a') } }))

const hostile: [name: string, config: Config, refused?: RegExp][] = [
  [
    'many resources with a large body by default',
    rest(named(1000), defaults({ json: Array(120_000).fill(1) })),
    /^resource_defaults: are too large for 1000 resources/,
  ],
  ['few resources with a large body by default', rest(named(8), defaults({ json: Array(60_000).fill(1) }))],
  ['as many bodies by default as are allowed', rest(named(1000), defaults({ json: Array(800).fill(1) }))],
  ['many parameters by default', rest(named(8), defaults({ params: fields(14_000, 1) }))],
  [
    'parameters that are merged with the defaults',
    rest(
      named(1000, (name) => ({ name, endpoint: { params: { a: 1 }, json: { b: 1 } } })),
      defaults({ params: fields(90, '{'.repeat(2)), json: fields(60, 1) }),
    ),
  ],
  [
    'an incremental parameter by default',
    rest(
      named(1000, (name) => ({ name, endpoint: { params: { a: 1 } } })),
      defaults({ params: { since: { type: 'incremental', cursor_path: 'a.b.c' } } }),
    ),
  ],
  ['many steps by default', rest(named(32), defaults({}, { processing_steps: steps(10) }))],
  ['a chain of a thousand parents', rest(named(1000, child({})), defaults({ json: Array(600).fill('x') }))],
  ['deep values', rest([{ name: 'r0', endpoint: { json: nested(60_000) } }])],
  ['deep values by default', rest(named(8), defaults({ json: nested(60_000) }))],
  ['braces without an end', rest([{ name: 'r0', endpoint: { json: '{a'.repeat(125_000) } }])],
  [
    'placeholders in a path',
    rest(named(60, (name) => ({ name, endpoint: `${'{a}'.repeat(1300)}/` }))),
    /stands for nothing/,
  ],
  [
    'parameters of a path with many braces',
    rest(
      named(40, (name) => ({ name, endpoint: { path: '{{'.repeat(1900) } })),
      defaults({ params: fields(3000, 1) }),
    ),
  ],
  [
    'a long path of steps',
    rest([{ name: 'r0', processing_steps: [{ filter: { field: 'a.'.repeat(120_000), exists: true } }] }]),
    /is not a path/,
  ],
  [
    'placeholders of several parents',
    rest([{ name: 'r0', endpoint: { json: named(9000, (name) => `{resources.${name}.id}`) } }]),
    /names several parents/,
  ],
]

describe('canonical settings are cheap for rest_api with', () => {
  for (const [name, config, refused] of hostile)
    it(name, () => {
      assert.ok(weightOf(config) <= BYTES, `${weightOf(config)} bytes`)
      const settings = config as unknown as RestApiSettings
      const { ms, error } = measure(() => restApiSource.canonical!({ ...settings }, 'r1'))
      if (refused) assert.match(String(error?.message), refused)
      else assert.equal(error, null)
      assert.ok(ms < MOST_MS, `took ${ms} ms`)
    })
})

describe('canonical settings are cheap for', () => {
  for (const connector of [...sources, ...destinations])
    it(`the ${connector.kind} ${connector.name} with large values everywhere`, () => {
      if (!connector.canonical) return
      const texts = Object.keys(connector.settings.properties).map((name) => [name, '/a.'.repeat(20_000)])
      const { example_config: example } = connector
      const given = { ...((example as Config).config as Config), ...Object.fromEntries(texts) }
      const { ms } = measure(() => connector.canonical!(given, 'a'.repeat(1000)))
      assert.ok(ms < MOST_MS, `took ${ms} ms`)
    })
})

/** Deep values are too deep for JSON.stringify. */
function weightOf(config: Config): number {
  try {
    return JSON.stringify(config).length
  } catch (error) {
    assert.ok(error instanceof RangeError)
    return 0
  }
}

function measure(act: () => unknown): { ms: number; error: Error | null } {
  let ms = Number.POSITIVE_INFINITY
  let error: Error | null = null
  for (let attempt = 0; attempt < 3 && ms > MOST_MS / 4; attempt++) {
    const before = process.cpuUsage()
    try {
      act()
    } catch (thrown) {
      error = thrown as Error
    }
    const { user, system } = process.cpuUsage(before)
    ms = Math.min(ms, (user + system) / 1000)
  }
  return { ms, error }
}
