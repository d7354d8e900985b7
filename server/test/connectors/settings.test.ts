import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { frameOf } from '../../src/changes/shape.ts'
import { frames, savedSourceFrame } from '../../src/connections/endpoint-shape.ts'
import {
  authenticationSecrets,
  authenticationTypes,
  findAuthenticationFaults,
  maskAuthentication,
} from '../../src/connectors/authentication/authentication.ts'
import { overridable, secret } from '../../src/connectors/contract.ts'
import { destinations, sources } from '../../src/connectors/registry.ts'
import { incrementalParameter } from '../../src/connectors/rest-api/settings.ts'
import { MASK, maskSecrets, secretPaths, secretValues } from '../../src/connectors/settings/secrets.ts'
import {
  applyDefaults,
  findOverrideFaults,
  findSettingsFaults,
  isObject,
  type Node,
} from '../../src/connectors/settings/settings.ts'
import { tools } from '../../src/mcp/tools.ts'
import { nearest } from '../../src/nearest.ts'
import { configFrame } from '../../src/pipelines/config-shape.ts'
import { Type } from '../../src/schema.ts'

const schema = Type.Object(
  {
    host: Type.String({ minLength: 1, description: 'The server.' }),
    port: Type.Integer({ minimum: 1, maximum: 65535, default: 5432 }),
    password: Type.Optional(secret(Type.String())),
    format: overridable(Type.Union([Type.Literal('jsonl'), Type.Literal('csv')], { default: 'jsonl' })),
    ssl: Type.Optional(
      Type.Object(
        { mode: Type.String({ default: 'prefer' }), key: Type.Optional(secret(Type.String())) },
        { additionalProperties: false },
      ),
    ),
    tables: Type.Optional(overridable(Type.Array(Type.String({ pattern: '^[a-z]+$' }), { maxItems: 2 }))),
    limit: Type.Optional(Type.Union([Type.Integer({ minimum: 1 }), Type.Null()])),
  },
  { additionalProperties: false },
)
const faults = (config: unknown): string[] => findSettingsFaults(schema, config, 'config.destination.config')

describe('faults of a config', () => {
  it('are none if it fits, with or without what has a default', () => {
    assert.deepEqual(faults({ host: 'x' }), [])
    assert.deepEqual(faults({ host: 'x', port: 1, ssl: {}, tables: ['a'], limit: null }), [])
  })

  it('name an unknown field and the nearest known one', () => {
    assert.deepEqual(faults({ host: 'x', formt: 'csv' }), [
      "config.destination.config.formt: unknown field; did you mean 'format'?",
    ])
    assert.deepEqual(faults({ host: 'x', zzz: 1 }), [
      'config.destination.config.zzz: unknown field; the known fields are host, port, password, format, ssl, tables, limit',
    ])
    assert.deepEqual(faults({ host: 'x', ssl: { mod: 'x' } }), [
      "config.destination.config.ssl.mod: unknown field; did you mean 'mode'?",
    ])
    assert.match(faults(JSON.parse('{"host":"x","__proto__":{}}'))[0]!, /__proto__: unknown field/)
  })

  it('say what is wrong with a value, and where', () => {
    assert.deepEqual(faults({}), ['config.destination.config.host: is required: The server'])
    assert.deepEqual(faults({ host: '' }), ['config.destination.config.host: must not be empty'])
    assert.deepEqual(faults({ host: 'x', port: '30' }), [
      'config.destination.config.port: must be an integer, not a string',
    ])
    assert.deepEqual(faults({ host: 'x', port: 1.5 }), ['config.destination.config.port: must be an integer, not 1.5'])
    assert.deepEqual(faults({ host: 'x', port: 0 }), ['config.destination.config.port: must be 1 or more'])
    assert.deepEqual(faults({ host: 'x', format: 'cvs' }), [
      "config.destination.config.format: 'cvs' is not allowed; use 'jsonl' or 'csv'; did you mean 'csv'?",
    ])
    assert.deepEqual(faults({ host: 'x', tables: ['a', 'B'] }), [
      'config.destination.config.tables[1]: has the wrong format',
    ])
    assert.deepEqual(faults({ host: 'x', tables: ['a', 'b', 'c'] }), [
      'config.destination.config.tables: must have at most 2 items',
    ])
    assert.deepEqual(faults({ host: 'x', limit: 0 }), ['config.destination.config.limit: must be 1 or more'])
    assert.deepEqual(faults({ host: 'x', limit: true }), [
      'config.destination.config.limit: must be an integer or null, not true',
    ])
    assert.deepEqual(faults([]), ['config.destination.config: must be an object, not an array'])
    assert.deepEqual(faults(null), ['config.destination.config: must be an object, not null'])
  })

  it('never repeat a text that could be a secret', () => {
    assert.doesNotMatch(faults({ host: 'x', password: 5, ssl: 'hunter2', tables: 'hunter2' }).join(), /hunter2/)
  })
})

describe('defaults', () => {
  it('are filled in at every depth, and the given config stays unchanged', () => {
    const given = { host: 'x', ssl: {} }
    assert.deepEqual(applyDefaults(schema, given), { host: 'x', ssl: { mode: 'prefer' }, port: 5432, format: 'jsonl' })
    assert.deepEqual(given, { host: 'x', ssl: {} })
  })
})

describe('secrets', () => {
  const stored = { host: 'x', password: 'hunter2', ssl: { key: 'pem' } }

  it('are found, masked and restored', () => {
    assert.deepEqual(secretPaths(schema), [['password'], ['ssl', 'key']])
    const masked = maskSecrets(schema, stored)
    assert.deepEqual(masked, { host: 'x', password: MASK, ssl: { key: MASK } })
    assert.deepEqual(secretValues(schema, stored), ['hunter2', 'pem'])
  })

  it('of an authentication are masked by its type, all of them if the type is unknown', () => {
    const basic = { type: 'basic', params: { username: 'ann', password: 'hunter2' } }
    assert.deepEqual(maskAuthentication(basic), { type: 'basic', params: { username: 'ann', password: MASK } })
    const own = { type: 'own', params: { a: 'one', b: 2 } }
    assert.deepEqual(maskAuthentication(own), { type: 'own', params: { a: MASK, b: MASK } })
    assert.deepEqual(authenticationSecrets(basic), ['hunter2'])
    assert.deepEqual(authenticationSecrets(own), ['one'])
  })
})

describe('authentication', () => {
  const check = (value: unknown, allowed: string[] | null = ['api_key']): string[] =>
    findAuthenticationFaults(value, allowed, 'a')
  it('is checked against what the source supports, and none is always supported', () => {
    assert.deepEqual(check({ type: 'none', params: {} }), [])
    assert.deepEqual(check({ type: 'api_key', params: { token: 'x' } }), [])
    assert.deepEqual(check({ type: 'api_key', params: {} }), ['a.params.token: is required: The key'])
    assert.deepEqual(check({ type: 'basic', params: {} }), ["a.type: 'basic' is not supported here; use api_key, none"])
    assert.deepEqual(check({ type: 'own', params: { anything: 1 } }, null), [])
    assert.deepEqual(check('x'), ['a: must be an object with type and params'])
    assert.deepEqual(check({ type: 'none', parms: {} }), ['a.parms: unknown field; the known fields are type, params'])
  })

  it('of a refresh token needs all its params, and a token URL', () => {
    const whole = { token_url: 'https://id.example/token', client_id: 'c', refresh_token: 'r' }
    const refresh = (params: object) => check({ type: 'oauth2_refresh_token', params }, ['oauth2_refresh_token'])
    assert.deepEqual(refresh(whole), [])
    assert.deepEqual(refresh({ ...whole, client_secret: 's', scope: 'a b' }), [])
    assert.deepEqual(
      refresh({}).map((fault) => fault.split(':')[0]),
      ['a.params.token_url', 'a.params.client_id', 'a.params.refresh_token'],
    )
    assert.match(
      refresh({ ...whole, token_url: 'id.example/token' })[0]!,
      /^a\.params\.token_url: has the wrong format/,
    )
    assert.deepEqual(refresh({ ...whole, token_url: 'https://' }), ['a.params.token_url: is not a URL'])
    assert.match(refresh({ ...whole, token_url: 'https://u:p@id.example/' })[0]!, /must not hold a user name/)
    assert.match(refresh({ ...whole, client_secert: 's' })[0]!, /did you mean 'client_secret'/)
  })

  it('masks the secrets of a refresh token', () => {
    const value = {
      type: 'oauth2_refresh_token',
      params: { token_url: 'https://id.example/', client_id: 'c', client_secret: 's3cret', refresh_token: 'r3fresh' },
    }
    const masked = maskAuthentication(value)
    assert.deepEqual(masked.params, { ...value.params, client_secret: '********', refresh_token: '********' })
    assert.deepEqual(authenticationSecrets(value).sort(), ['r3fresh', 's3cret'])
  })

  it('accepts only valid header names', () => {
    const header = (name: string) => check({ type: 'api_key', params: { token: 'x', header: name } })
    assert.deepEqual([header('X-Key'), header('api_key')], [[], []])
    for (const wrong of ['', 'a b', 'a:', 'x\n', 'ü']) assert.equal(header(wrong).length, 1, wrong)
  })
})

describe('overrides of a saved connector', () => {
  it('are only settings that are marked as overridable', () => {
    const check = (override: unknown): string[] => findOverrideFaults(schema, override, 'config.source.config')
    assert.deepEqual(check({ format: 'csv', tables: ['a'] }), [])
    assert.deepEqual(check({ host: 'evil' }), [
      "config.source.config.host: is set by the saved connector; only 'format' or 'tables' can be overridden in the pipeline",
    ])
    assert.match(check({ password: 'x' })[0]!, /password: is set by/)
    assert.match(check({ format: 'x' })[0]!, /format: 'x' is not allowed/)
    assert.match(check({ fromat: 'csv' })[0]!, /did you mean 'format'/)
  })
})

describe('the nearest name', () => {
  it('is one typo away, or none', () => {
    assert.equal(nearest('crea', ['creatures', 'plants']), null)
    assert.equal(nearest('creatuers', ['creatures', 'plants']), 'creatures')
    assert.equal(nearest('hsot', ['host', 'port']), 'host')
    assert.equal(nearest('x', []), null)
  })
})

describe('the schemas of settings', () => {
  /** What findSettingsFaults checks, and what only describes. */
  const KNOWN = [
    ...[
      'type',
      'properties',
      'required',
      'additionalProperties',
      'items',
      'anyOf',
      'enum',
      'const',
      'minimum',
      'maximum',
    ],
    ...['exclusiveMinimum', 'minLength', 'maxLength', 'minItems', 'maxItems', 'pattern'],
    ...['default', 'x-default', 'description', 'examples', 'contentMediaType', 'secret', 'override', 'identity'],
    ...['either', 'cases'],
  ]

  const TYPES = ['object', 'array', 'string', 'integer', 'number', 'boolean', 'null']

  function findOthers(node: object, path: string): string[] {
    const { type } = node as Node
    const own = Object.keys(node).filter((keyword) => !KNOWN.includes(keyword))
    if (type !== undefined && !TYPES.includes(type)) own.push(`type ${type}`)
    const { properties = {}, anyOf = [], items, additionalProperties } = node as Node
    const inside = [...Object.entries(properties), ...Object.entries({ ...anyOf, items, additionalProperties })]
    return [
      ...own.map((keyword) => `${path}: ${keyword}`),
      ...inside.flatMap(([name, child]) => (isObject(child) ? findOthers(child, `${path}.${name}`) : [])),
    ]
  }

  it('use no keyword that would not be checked', () => {
    const connectors = [...sources, ...destinations].map(({ kind, name, settings }) => [`${kind} ${name}`, settings])
    const shapes: Record<string, object> = { ...Object.fromEntries(connectors), ...frameOf, configFrame }
    for (const [part, { saved, inline }] of Object.entries(frames))
      Object.assign(shapes, { [part]: inline, [`${part} saved`]: saved })
    for (const { name, input } of tools) shapes[`tool ${name}`] = input
    for (const [type, params] of Object.entries(authenticationTypes)) shapes[`authentication ${type}`] = params
    Object.assign(shapes, { savedSourceFrame, incrementalParameter })
    assert.ok(Object.keys(shapes).length > 20)
    assert.deepEqual(
      Object.entries(shapes).flatMap(([name, schema]) => findOthers(schema, name)),
      [],
    )
    assert.deepEqual(findOthers(Type.Array(Type.Object({ a: Type.Number({ multipleOf: 2 }) })), 'x'), [
      'x.items.a: multipleOf',
    ])
  })
})
