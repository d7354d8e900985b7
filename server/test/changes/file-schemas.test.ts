/** The schemas of the files: what an editor flags in them, and what it must not flag. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ValidateFunction } from 'ajv'
import { findConfigFaults } from '../../src/connections/endpoint-faults.ts'
import type { Source } from '../../src/connectors/contract.ts'
import { destinations, sources } from '../../src/connectors/registry.ts'
import type { Node } from '../../src/connectors/settings/settings.ts'
import { startApp } from '../harness/app.ts'
import { sourceCode } from '../tenancy/things.ts'
import { addOrganization } from '../tenancy/world.ts'
import { checkFiles, compileSchemas } from './schema-check.ts'

const { pipeline: ofPipeline, connection: ofConnection } = compileSchemas()

/** Where something is wrong: the place, and the name of a field that is missing or unknown. */
function placesOf(validate: ValidateFunction, file: object): string[] {
  validate(file)
  return (validate.errors ?? []).map(({ instancePath, params }) => {
    const field = params.missingProperty ?? params.additionalProperty
    return field === undefined ? instancePath : `${instancePath}/${field}`
  })
}
const assertFlags = (validate: ValidateFunction, file: object, place: string) =>
  assert.ok(placesOf(validate, file).includes(place), `${place}\n${placesOf(validate, file).join('\n')}`)
const assertValid = (validate: ValidateFunction, file: object) => assert.deepEqual(placesOf(validate, file), [])

const exampleOf = ({ example_config: { config = {} } }: Pick<Source, 'example_config'>) =>
  config as Record<string, unknown>

/** Each connector in the files that may hold its settings. */
const holders = [...sources, ...destinations].flatMap((connector) => {
  const { name, kind } = connector
  const inline = (config: object) => {
    const stream = connector.kind === 'source' && connector.streams !== 'dynamic' ? connector.streams[0] : 'orders'
    const source = kind === 'source' ? { name, stream, config } : { name: 'dummy', stream: 'creatures' }
    return { name: 'x', config: { source, destination: kind === 'source' ? { name: 'file' } : { name, config } } }
  }
  const saved = (config: object) => ({
    name: 'x',
    type: kind,
    connector_name: name,
    config: kind === 'source' ? { config } : config,
  })
  return [
    { connector, isSaved: false, validate: ofPipeline, put: inline, at: `/config/${kind}/config` },
    {
      connector,
      isSaved: true,
      validate: ofConnection,
      put: saved,
      at: kind === 'source' ? '/config/config' : '/config',
    },
  ]
})

const WRONG: Record<string, unknown> = { string: 5, integer: 'x', number: 'x', boolean: 'x', array: 'x', object: 'x' }

test('of every connector, examples are valid, and typos, wrong types and missing settings are flagged at their place', () => {
  for (const { connector, isSaved, validate, put, at } of holders) {
    const example = exampleOf(connector)
    assertValid(validate, put(example))
    assertFlags(validate, put({ ...example, colour: 'blue' }), `${at}/colour`)
    const { properties = {}, required = [] } = connector.settings as Node
    for (const [name, { type, enum: choices }] of Object.entries(properties)) {
      if (choices) assertFlags(validate, put({ ...example, [name]: 'no-such' }), `${at}/${name}`)
      else if (type !== undefined) assertFlags(validate, put({ ...example, [name]: WRONG[type] }), `${at}/${name}`)
    }
    for (const name of required) {
      if (properties[name]?.default !== undefined || (isSaved && properties[name]?.override)) continue
      const { [name]: _, ...rest } = example
      assertFlags(validate, put(rest), `${at}/${name}`)
    }
  }
})

test('in a config every value may be a reference', () => {
  for (const { connector, validate, put } of holders) {
    const { properties = {} } = connector.settings as Node
    for (const [name, { type, enum: choices }] of Object.entries(properties)) {
      const reference =
        type === 'string' || choices ? `\${A_LONG_NAME_OF_A_VARIABLE_FOR_${'X'.repeat(40)}}` : `\${NAME:json}`
      assertValid(validate, put({ ...exampleOf(connector), [name]: reference }))
    }
  }
  const config = {
    source: {
      name: 'rest_api',
      stream: 'orders',
      authentication: { type: `\${TYPE}`, params: `\${PARAMS:json}` },
      config: `\${SETTINGS:json}`,
    },
    destination: { name: `\${WHERE}` },
    sync: {
      mode: `\${MODE}`,
      primary_key: [`\${KEY}`],
      lookback_seconds: `\${SECONDS:json}`,
      allow_empty: `\${EMPTY:json}`,
    },
    columns: { rename: { a: `x_\${NAME}` }, hash: `\${HASHED:json}` },
    run: `\${RUN:json}`,
  }
  assertValid(ofPipeline, { name: 'x', config })
  // A part of a number, or a text in its place, is none.
  assertFlags(
    ofPipeline,
    { name: 'x', config: { ...config, run: { max_attempts: `1\${NAME:json}` } } },
    '/config/run/max_attempts',
  )
  assertFlags(
    ofPipeline,
    { name: 'x', config: { ...config, run: { max_attempts: `\${NAME}` } } },
    '/config/run/max_attempts',
  )
  // Names, schedules and domains are what they are.
  assertFlags(ofPipeline, { name: 'x', enabled: `\${ENABLED:json}`, config }, '/enabled')
})

test('a config without what it cannot do without is flagged only where the service refuses it too', () => {
  for (const { connector, isSaved, validate, put } of holders) {
    const { properties = {}, required = [] } = connector.settings as Node
    const settings = {
      ...connector.settings,
      required: required.filter((name) => !properties[name]?.override) as never,
    }
    const faults = findConfigFaults(isSaved ? { ...connector, settings } : connector, {}, undefined, 'config')
    if (!validate(put({}))) assert.notDeepEqual(faults, [], connector.name)
  }
  const login = { database: 'shop', user: 'reader', password: 'x' }
  for (const name of ['postgres', 'mysql', 'clickhouse'])
    for (const { connector, validate, put, at } of holders.filter((each) => each.connector.name === name)) {
      assert.notDeepEqual(findConfigFaults(connector, login, undefined, 'config'), [], name)
      assertFlags(validate, put(login), `${at}/host`)
    }
})

const orders = ({ source = {}, ...more }: Record<string, object> = {}) => ({
  name: 'orders',
  config: {
    source: {
      name: 'rest_api',
      stream: 'orders',
      config: exampleOf(sources.find(({ name }) => name === 'rest_api')!),
      ...source,
    },
    destination: { name: 'file' },
    ...more,
  },
})

test('mistakes around the settings are flagged at their place, and only there', () => {
  const mistakes: [file: object, places: string[]][] = [
    [orders(), []],
    [orders({ source: { steam: 'orders' } }), ['/config/source/steam']],
    [orders({ source: { authentication: { type: 'berer', params: {} } } }), ['/config/source/authentication/type']],
    [
      orders({ source: { authentication: { type: 'bearer', params: {} } } }),
      ['/config/source/authentication/params/token'],
    ],
    [
      orders({ source: { authentication: { type: 'bearer', params: { token: 'x', tokn: 'x' } } } }),
      ['/config/source/authentication/params/tokn'],
    ],
    [orders({ destination: { name: 'fil' } }), ['/config/destination/name']],
    [orders({ destination: {} }), ['/config/destination/name']],
    [orders({ destination: { connection: 'shop', name: 'file' } }), ['/config/destination/name']],
    [orders({ sync: { mode: 'incrementl' } }), ['/config/sync/mode']],
    [orders({ sync: { cursor: 'id' } }), ['/config/sync/cursor']],
    [orders({ sync: { primary_key: 'id' } }), ['/config/sync/primary_key']],
    [orders({ columns: { exclud: ['a'] } }), ['/config/columns/exclud']],
    [orders({ columns: { rename: { a: 1 } } }), ['/config/columns/rename/a']],
    [orders({ run: { max_attempts: '3' } }), ['/config/run/max_attempts']],
    [orders({ run: { timeout: 3 } }), ['/config/run/timeout']],
    [orders({ transform: {} }), ['/config/transform']],
    [{ ...orders(), shedule: '0 6 * * *' }, ['/shedule']],
  ]
  for (const [file, places] of mistakes) {
    const found = placesOf(ofPipeline, file)
    for (const place of places) assert.ok(found.includes(place), `${place}\n${found.join('\n')}`)
    // What is left are the objects around the mistake.
    for (const place of found)
      assert.ok(
        places.some((each) => each.startsWith(place)),
        `${places}\n${found.join('\n')}`,
      )
  }
  const custom = (config: object) => ({ name: 'x', type: 'source', connector_name: 'mine', config })
  assertValid(ofConnection, custom({ authentication: { type: 'any', params: { a: 1 } }, config: { limit: 5 } }))
  assertFlags(ofConnection, custom({ settings: {} }), '/config/settings')
  assertFlags(
    ofConnection,
    { name: 'x', type: 'destination', connector_name: 'postgress', config: {} },
    '/connector_name',
  )
  assertFlags(ofConnection, { name: 'x', type: 'destination', connector_name: 'webhook' }, '/config')
})

test('what is exported of every connector, with secrets of every kind, is valid', async () => {
  const app = await startApp({ EGRESS_ALLOW: '127.0.0.0/8' })
  const owner = await addOrganization(app)
  const connections = holders
    .filter(({ isSaved, connector }) => isSaved && !JSON.stringify(exampleOf(connector)).includes('run_id'))
    .map(({ connector, put }) => ({ ...put(exampleOf(connector)), name: `${connector.name} \${X}` }))
  const custom = {
    name: 'mine',
    type: 'source',
    connector_name: 'numbers',
    config: {
      authentication: { type: 'token', params: { key: 'hunter2', number: 7 } },
      config: { page: 5, tags: ['a'], deep: { b: true } },
    },
  }
  const objects = {
    sources: [{ source_name: 'numbers', name: 'Numbers', code: sourceCode }],
    connections: [...connections, custom],
    pipelines: [
      orders({ sync: { mode: 'full_refresh' }, columns: { rename: { a: `\${b` } } }),
      { ...orders({ source: { authentication: { type: 'bearer', params: { token: 'hunter2' } } } }), name: 'other' },
    ],
  }
  const applied = await app.call('POST', '/api/changes', { as: owner, body: { objects } })
  assert.equal(applied.status, 200, applied.text)
  const exported = await app.call('GET', '/api/changes/export', { as: owner })
  assert.match(exported.text, /:json\}/)
  checkFiles(exported.body.objects)
})
