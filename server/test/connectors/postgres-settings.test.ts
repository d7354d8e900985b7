import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { formatStream, quoteText, splitStream } from '../../src/connectors/postgres/shared/names.ts'
import { connectionSettings, resolveTarget } from '../../src/connectors/postgres/shared/settings.ts'
import { findSettingsFaults } from '../../src/connectors/settings/settings.ts'
import { Type } from '../../src/schema.ts'

const PASSWORD = 's3cret-in-the-address'

describe('the address of a PostgreSQL', () => {
  it('is parsed from a url with everything percent-encoded', () => {
    const target = resolveTarget({
      url: 'postgresql://us%40er:p%2Fw%3A%23@[2001:db8::1]:6543/my%20db?sslmode=verify-full',
    })
    assert.deepEqual(target, {
      host: '2001:db8::1',
      port: 6543,
      user: 'us@er',
      password: 'p/w:#',
      database: 'my db',
      tls: { mode: 'verify-full' },
    })
  })

  it('has defaults', () => {
    const target = resolveTarget({ host: 'db.example.com', user: 'reader' })
    assert.deepEqual(target, {
      host: 'db.example.com',
      port: 5432,
      user: 'reader',
      password: '',
      database: 'reader',
      tls: { mode: 'prefer' },
    })
  })

  it('takes certificates and keys of at most 256 KB each', () => {
    const schema = Type.Object(connectionSettings, { additionalProperties: false })
    for (const name of ['ca', 'cert', 'key']) {
      const sized = (length: number) => ({ tls: { [name]: '-'.repeat(length) } })
      assert.deepEqual(findSettingsFaults(schema, sized(262_144), 'config'), [])
      assert.match(
        String(findSettingsFaults(schema, sized(262_145), 'config')),
        new RegExp(`config.tls.${name}: .*262144`),
      )
    }
  })

  const refused: [string, Parameters<typeof resolveTarget>[0]][] = [
    ['a unix socket as host', { host: '/var/run/postgresql', user: 'u' }],
    ['an abstract socket as host', { host: '@socket', user: 'u' }],
    ['a list of hosts', { host: 'a.example.com,b.example.com', user: 'u' }],
    ['a host with a path', { host: 'db/../x', user: 'u' }],
    ['an encoded socket in the url', { url: `postgres://u:${PASSWORD}@%2Fvar%2Frun/db` }],
    ['a host parameter that names a folder', { url: `postgres://u:${PASSWORD}@h/db?host=/var/run` }],
    ['a hostaddr parameter', { url: `postgres://u:${PASSWORD}@h/db?hostaddr=10.0.0.1` }],
    ['a certificate file', { url: `postgres://u:${PASSWORD}@h/db?sslcert=/etc/passwd` }],
    ['a key file', { url: `postgres://u:${PASSWORD}@h/db?sslkey=/etc/passwd` }],
    ['a root certificate file', { url: `postgres://u:${PASSWORD}@h/db?sslrootcert=/etc/passwd` }],
    ['a service', { url: `postgres://u:${PASSWORD}@h/db?service=prod` }],
    ['a password file', { url: `postgres://u:${PASSWORD}@h/db?passfile=/home/u/.pgpass` }],
    ['server options', { url: `postgres://u:${PASSWORD}@h/db?options=-c%20x%3Dy` }],
    ['an unknown sslmode', { url: `postgres://u:${PASSWORD}@h/db?sslmode=no-verify` }],
    ['another protocol', { url: `mysql://u:${PASSWORD}@h/db` }],
    ['no address at all', { url: `u:${PASSWORD}` }],
    ['an empty host', { url: `postgres://u:${PASSWORD}@/db` }],
    ['parts beside a url', { url: `postgres://u:${PASSWORD}@h/db`, host: 'other' }],
    ['a file name for ca', { host: 'h', user: 'u', tls: { ca: '/etc/ssl/ca.pem' } }],
    ['a file name for key', { host: 'h', user: 'u', tls: { cert: '-----BEGIN CERTIFICATE-----', key: '/etc/passwd' } }],
    ['a certificate without its key', { host: 'h', user: 'u', tls: { cert: '-----BEGIN CERTIFICATE-----' } }],
    ['no user', { host: 'h' }],
  ]
  for (const [what, settings] of refused) {
    it(`refuses ${what}, and does not repeat the password`, () => {
      assert.throws(
        () => resolveTarget(settings),
        (error: unknown) =>
          error instanceof ConnectorError && error.kind === 'config' && !error.message.includes(PASSWORD),
      )
    })
  }
})

describe('names', () => {
  it('of streams survive a round trip, also with dots and quotes in them', () => {
    for (const [schema, table] of [
      ['public', 'orders'],
      ['a.b', 'c'],
      ['s', 'with "quotes" and .dots.'],
      ['', 'x'],
    ] as const) {
      assert.deepEqual(splitStream(formatStream({ schema, table })), [schema, table])
    }
    assert.deepEqual(splitStream('orders'), ['orders'])
    assert.deepEqual(splitStream('a.b.c'), ['a', 'b', 'c'])
  })

  it('in literals cannot end them', () => {
    assert.equal(quoteText("a'b"), "'a''b'")
    assert.equal(quoteText("\\'; DROP"), "E'\\\\''; DROP'")
  })
})
