/** Every connector of the catalogue gives a form that can be filled in, and a form never shows a stored secret. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { hideSecrets } from '../../../web/src/components/schema-form/hide-secrets.ts'
import {
  applicable,
  arrange,
  kindOf,
  labelOf,
  MASK,
  presetOf,
  type Schema,
} from '../../../web/src/components/schema-form/schema.ts'
import { listDestinations } from '../../src/connections/discovery.ts'
import { destinations, sources } from '../../src/connectors/registry.ts'
import { maskSecrets } from '../../src/connectors/settings/secrets.ts'

const connectors = [...sources, ...destinations]

interface Setting {
  path: string
  schema: Schema
}

/** Every setting, also those inside groups, lists and shapes to choose from. */
function settingsOf(schema: Schema, path: string): Setting[] {
  const inner = [...(schema.anyOf ?? []), ...(schema.oneOf ?? []), ...(schema.items ? [schema.items] : [])]
  return [
    ...inner.flatMap((member) => settingsOf(member, path)),
    ...Object.entries(schema.properties ?? {}).flatMap(([name, property]) => [
      { path: `${path}.${name}`, schema: property },
      ...settingsOf(property, `${path}.${name}`),
    ]),
  ]
}

describe('a form drawn from settings', () => {
  it('has a control of its own for every setting, except for JSON of any form', () => {
    const asJson = connectors.flatMap(({ name, settings }) =>
      settingsOf(settings as Schema, name)
        .filter(({ schema }) => kindOf(schema) === 'json')
        .map(({ path }) => path.replace(/^.*\./, '')),
    )
    assert.deepEqual([...new Set(asJson)].sort(), ['data', 'json', 'settings'])
  })

  it('shows first what has to be given', () => {
    for (const { name, settings } of connectors) {
      const schema = settings as Schema
      const { first, more } = arrange(schema)
      const required = (schema.required ?? []).filter((field) => schema.properties![field]!.default === undefined)
      assert.deepEqual(
        required.filter((field) => more.includes(field)),
        [],
        name,
      )
      assert.deepEqual([...first, ...more].sort(), Object.keys(schema.properties ?? {}).sort(), name)
    }
  })

  it('offers sets of settings that exclude each other as a choice of existing settings', () => {
    for (const { name, settings } of connectors)
      for (const { fields } of (settings as Schema).either ?? [])
        for (const field of fields) assert.ok((settings as Schema).properties![field], `${name}.${field}`)
  })

  it('never shows a secret: what the server masks for readers is masked here too', () => {
    for (const { name, settings } of connectors) {
      const filled = fill(settings as Schema)
      assert.deepEqual(hideSecrets(settings as Schema, filled), maskSecrets(settings, filled), name)
    }
    const params: Schema = { properties: { token: { type: 'string', format: 'password' } } }
    assert.deepEqual(hideSecrets(params, { token: 'abc', header: 'X' }), { token: MASK, header: 'X' })
  })

  it('asks only for what the chosen type needs', () => {
    const rest = sources.find(({ name }) => name === 'rest_api')!.settings as Schema
    const auth = rest.properties!.client!.properties!.auth!
    assert.deepEqual(Object.keys(applicable(auth, {}).properties!), ['type', 'token'])
    const basic = applicable(auth, { type: 'http_basic', token: 'kept' })
    assert.deepEqual(Object.keys(basic.properties!), ['type', 'token', 'username', 'password'])
    assert.equal(basic.properties!.username!.description, 'The user.')
    assert.equal(arrange(basic).first[0], 'type')
    for (const { schema } of settingsOf(rest, ''))
      for (const field of Object.values(schema.cases?.fields ?? {}).flat()) assert.ok(schema.properties![field], field)
  })

  it('reads labels and defaults from names and descriptions', () => {
    assert.equal(labelOf('access_key_id', {}), 'Access key ID')
    assert.equal(labelOf('urls', {}), 'URLs')
    assert.equal(labelOf('startDate', {}), 'Start date')
    assert.equal(labelOf('x', { title: 'Given' }), 'Given')
    assert.equal(presetOf({ description: 'Default 5432.' }), '5432')
    assert.equal(presetOf({ description: 'Name of the database. Default: the user name.' }), undefined)
    assert.equal(presetOf({ default: 100 }), '100')
  })

  it('understands the schemas of manifests and authors', () => {
    assert.equal(kindOf({ type: 'string', airbyte_secret: true }), 'secret')
    assert.equal(kindOf({ type: 'string', multiline: true }), 'long')
    assert.equal(kindOf({ type: ['string', 'null'] }), 'text')
    assert.equal(
      kindOf({ oneOf: [{ properties: { kind: { const: 'a' } } }, { properties: { kind: { const: 'b' } } }] }),
      'variants',
    )
    assert.equal(kindOf({ anyOf: [{ type: 'string' }, { type: 'array', items: { type: 'string' } }] }), 'texts')
    assert.equal(kindOf({ type: 'array', items: { type: 'string', enum: ['eu', 'us'] } }), 'many')
    assert.equal(kindOf({}), 'scalar')
    assert.equal(kindOf({ description: 'dict[str, int]' }), 'json')
    assert.equal(kindOf({ type: 'object', additionalProperties: { type: 'string' } }), 'pairs')
  })

  it('is what discovery sends', () => {
    const postgres = listDestinations().find(({ name }) => name === 'postgres')!
    assert.deepEqual((postgres.config_schema as Schema).either?.[1]?.fields, ['url'])
  })
})

/** A value for every text of the settings, so that every secret has one. */
function fill(schema: Schema): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(schema.properties ?? {}).flatMap(([name, property]): [string, unknown][] => {
      if (property.properties && Object.keys(property.properties).length > 0) return [[name, fill(property)]]
      if (property.type === 'object') return [[name, { some: 'value' }]]
      return property.type === 'string' ? [[name, 'value']] : []
    }),
  )
}
