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
const base = fingerprintOf(config(), null)
const changesTo = (other: Identifiable) => findChanges(base, fingerprintOf(other, null))
const custom = (settings: object, id = 'a', extra: object = {}) =>
  fingerprintOf(
    {
      ...config(),
      source: { name: 'shop', stream: 'orders', config: settings, custom: { id, version: 1, ...extra } },
    },
    (text) => `key.${text}`,
  )

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
      fingerprintOf({ ...config(), source: { name: 'file', stream: 'rows', config: { url } } }, null)
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

  it('leaves secrets out wherever they are and whatever they are called', () => {
    const names = ['pwd', 'dbPwd', 'user_pwd', 'pin', 'card-pin', 'auth', 'proxyAuth', 'DSN', 'sentry_dsn', 'bearer']
    const more = ['authorization', 'password', 'api_key', 'refresh_token', 'client_secret']
    for (const name of [...names, ...more]) {
      const at = (value: unknown) => custom({ servers: [{ host: 'a', [name]: value }, [{ [name]: value }]] })
      assert.deepEqual(at('one'), at({ two: 2 }), name)
      assert.doesNotMatch(JSON.stringify(at('one-secret')), /one-secret/)
    }
    for (const name of ['author', 'shipping', 'pinned', 'mapping', 'keys', 'page'])
      assert.notDeepEqual(custom({ list: [{ [name]: 1 }] }), custom({ list: [{ [name]: 2 }] }), name)
  })

  it('reports other settings only if both were hashed with the same key', () => {
    const now = { ...custom({ account: 'b' }), settings: 'key2.bbb' }
    assert.equal(hasOtherSettings({ ...now, settings: 'key2.aaa' }, now), true)
    for (const settings of ['key1.bbb', 'key1.aaa', 'Zq0vGJmYh1Qv7g2y8Gd0xw', ''])
      assert.equal(hasOtherSettings({ ...now, settings }, now), false, settings)
  })

  it('of another version, or none, changes nothing', () => {
    const other = fingerprintOf(config({ host: 'other' }), null)
    assert.deepEqual(findChanges(null, other), [])
    assert.deepEqual(findChanges({ ...base, v: 0 }, other), [])
  })

  it('survives a round trip, and garbage is ignored', () => {
    assert.deepEqual(readFingerprint(JSON.parse(JSON.stringify(base))), base)
    for (const nonsense of [null, 1, 'x', [], {}, { ...base, source: 1 }, { ...base, cursor_field: 1 }])
      assert.equal(readFingerprint(nonsense), null)
  })

  it('is not made of settings that cannot be used, and does not fail on them', () => {
    assert.ok(fingerprintOf(config({ url: 'nonsense' }), null))
    assert.ok(fingerprintOf({ ...config(), destination: { name: 'no such thing', config: {} } }, null))
  })
})

it('no setting of a connector is both a secret and an identity', () => {
  const visit = (node: Node, path: string): void => {
    assert.ok(!(node.secret && node.identity), path)
    for (const [name, child] of Object.entries(node.properties ?? {})) visit(child, `${path}.${name}`)
  }
  for (const connector of [...sources, ...destinations]) visit(connector.settings as unknown as Node, connector.name)
})
