import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { destinations, sources } from '../../src/connectors/registry.ts'
import type { Node } from '../../src/connectors/settings/settings.ts'
import {
  findChanges,
  fingerprintOf,
  hasOtherSettings,
  type Identifiable,
  readFingerprint,
} from '../../src/engine/fingerprint.ts'

const postgres = { host: 'db.example.com', database: 'shop', user: 'reader', password: 'secret one' }
const target = { ...postgres, database: 'warehouse' }

const config = (source: object = {}, destination: object = {}, more: Partial<Identifiable['source']> = {}) => ({
  source: { name: 'postgres', stream: 'public.orders', config: { ...postgres, ...source }, ...more },
  destination: { name: 'postgres', config: { ...target, ...destination } },
  sync: { cursor_field: 'updated_at' },
})
const base = fingerprintOf(config())
const changesTo = (other: Identifiable) => findChanges(base, fingerprintOf(other))
const custom = (settings: object, id = 'a', extra: object = {}) =>
  fingerprintOf({
    ...config(),
    source: { name: 'shop', stream: 'orders', config: settings, custom: { id, version: 1, ...extra } },
  })

describe('a fingerprint', () => {
  it('is the same for the same place, however it is written', () => {
    const { host, database, user, password } = postgres
    const sameSource = [
      { password, user, database, host },
      { ...postgres, port: 5432 },
      { ...postgres, host: 'DB.example.com.' },
      { ...postgres, schemas: [], queries: {}, parallel: 8, statement_timeout_seconds: 9 },
      { url: 'postgres://somebody:else@db.example.com:5432/shop?sslmode=require' },
      { ...postgres, queries: { other: 'SELECT 1' } },
    ]
    for (const settings of sameSource)
      assert.deepEqual(changesTo({ ...config(), source: { ...config().source, config: settings } }), [])
    for (const settings of [{ schema: 'public' }, { table: 'orders' }, { statement_timeout_seconds: 1 }])
      assert.deepEqual(changesTo(config({}, settings)), [])
  })

  it('shows which of its parts changed', () => {
    for (const settings of [
      { host: 'other' },
      { port: 6432 },
      { database: 'b' },
      { queries: { 'public.orders': 'SELECT 1' } },
    ])
      assert.deepEqual(changesTo(config(settings)), ['source'])
    for (const settings of [{ host: 'other' }, { database: 'b' }, { schema: 'b' }, { table: 'b' }])
      assert.deepEqual(changesTo(config({}, settings)), ['destination'])
    assert.deepEqual(changesTo({ ...config(), sync: { cursor_field: 'id' } }), ['cursor_field'])
    assert.deepEqual(changesTo(config({}, { table: 'orders' }, { stream: 'public.customers' })), ['stream'])
    assert.deepEqual(changesTo(config({}, {}, { stream: 'public.customers' })), ['stream', 'destination'])
    const { source } = config()
    assert.deepEqual(changesTo({ ...config(), source: { ...source, name: 'dummy', config: {} } }), ['source'])
  })

  it('does not change with a secret or a user, and contains none', () => {
    for (const settings of [
      { password: 'another' },
      { user: 'writer' },
      { tls: { mode: 'require', ca: '-----BEGIN X' } },
    ])
      assert.deepEqual(changesTo(config(settings, settings)), [])
    assert.doesNotMatch(JSON.stringify(base), /secret|example/)
    const file = (url: string) =>
      fingerprintOf({ ...config(), source: { name: 'file', stream: 'rows', config: { url } } })
    assert.deepEqual(file('https://a:b@example.com/x.csv'), file('https://c:d@example.com/x.csv'))
    assert.notDeepEqual(file('https://example.com/x.csv'), file('https://example.com/y.csv'))
  })

  it('of a custom source is its id, no version; other settings are only reported, and secrets are none', () => {
    const shop = custom({ account: 'a', api_key: 'one', nested: { password: 'x', region: 'eu' } })
    assert.deepEqual(custom({ nested: { region: 'eu', password: 'y' }, api_key: 'two', account: 'a' }), shop)
    assert.deepEqual(custom({ account: 'a', nested: { region: 'eu' } }, 'a', { version: 2, code: 'x' }), shop)
    const other = custom({ account: 'b', nested: { region: 'eu' } })
    assert.deepEqual([findChanges(shop, other), hasOtherSettings(shop, other)], [[], true])
    assert.equal(hasOtherSettings(shop, shop), false)
    assert.deepEqual(findChanges(shop, custom({ account: 'a', nested: { region: 'eu' } }, 'b')), ['source'])
  })

  it('of another version, or none, changes nothing', () => {
    const other = fingerprintOf(config({ host: 'other' }))
    assert.deepEqual(findChanges(null, other), [])
    assert.deepEqual(findChanges({ ...base, v: 0 }, other), [])
  })

  it('survives a round trip, and garbage is ignored', () => {
    assert.deepEqual(readFingerprint(JSON.parse(JSON.stringify(base))), base)
    for (const nonsense of [null, 1, 'x', [], {}, { ...base, source: 1 }, { ...base, cursor_field: 1 }])
      assert.equal(readFingerprint(nonsense), null)
  })

  it('is not made of settings that cannot be used, and does not fail on them', () => {
    assert.ok(fingerprintOf(config({ url: 'nonsense' })))
    assert.ok(fingerprintOf({ ...config(), destination: { name: 'no such thing', config: {} } }))
  })
})

it('no setting of a connector is both a secret and an identity', () => {
  const visit = (node: Node, path: string): void => {
    assert.ok(!(node.secret && node.identity), path)
    for (const [name, child] of Object.entries(node.properties ?? {})) visit(child, `${path}.${name}`)
  }
  for (const connector of [...sources, ...destinations]) visit(connector.settings as unknown as Node, connector.name)
})
