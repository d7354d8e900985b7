import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { mysqlDestination } from '../../src/connectors/mysql/destination/destination.ts'
import { formatStream, quoteName, quoteText, splitStream } from '../../src/connectors/mysql/shared/names.ts'
import { connectionSettings, resolveTarget } from '../../src/connectors/mysql/shared/settings.ts'
import { mysqlSource } from '../../src/connectors/mysql/source/source.ts'
import { applyDefaults, findSettingsFaults } from '../../src/connectors/settings/settings.ts'
import { createNamer, makeSafe, mysqlNames } from '../../src/connectors/types/names.ts'
import { Type } from '../../src/schema.ts'

const PASSWORD = 's3cret-in-the-address'

describe('the address of a MySQL', () => {
  it('is parsed from a url with everything percent-encoded', () => {
    assert.deepEqual(
      resolveTarget({ url: 'mariadb://us%40er:p%2Fw%3A%23@[2001:db8::1]:6543/my%20db?sslmode=verify-full' }),
      {
        host: '2001:db8::1',
        port: 6543,
        user: 'us@er',
        password: 'p/w:#',
        database: 'my db',
        tls: { mode: 'verify-full' },
      },
    )
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
    assert.match(
      String(findSettingsFaults(schema, { server_public_key: '-'.repeat(262_145) }, 'config')),
      /config.server_public_key: .*262144/,
    )
  })

  const refused: [string, Parameters<typeof resolveTarget>[0]][] = [
    ['a unix socket as host', { host: '/run/mysqld/mysqld.sock', user: 'u' }],
    ['a list of hosts', { host: 'a.example.com,b.example.com', user: 'u' }],
    ['an encoded socket in the url', { url: `mysql://u:${PASSWORD}@%2Frun%2Fmysqld/db` }],
    ['a socket parameter', { url: `mysql://u:${PASSWORD}@h/db?socketPath=/run/mysqld/mysqld.sock` }],
    ['a certificate file', { url: `mysql://u:${PASSWORD}@h/db?ssl-ca=/etc/passwd` }],
    ['a parameter that allows files', { url: `mysql://u:${PASSWORD}@h/db?allowLoadLocalInfile=true` }],
    ['an unknown sslmode', { url: `mysql://u:${PASSWORD}@h/db?sslmode=PREFERRED` }],
    ['another protocol', { url: `postgres://u:${PASSWORD}@h/db` }],
    ['no address at all', { url: `u:${PASSWORD}` }],
    ['parts beside a url', { url: `mysql://u:${PASSWORD}@h/db`, host: 'other' }],
    ['a file name for ca', { host: 'h', user: 'u', tls: { ca: '/etc/ssl/ca.pem' } }],
    ['a file name for the public key', { host: 'h', user: 'u', server_public_key: '/etc/passwd' }],
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

describe('what a cursor in MySQL belongs to', () => {
  const source = (config: object, stream = 'orders') =>
    mysqlSource.canonical!(applyDefaults(mysqlSource.settings, config as never) as never, stream)
  const destination = (config: object, stream = 'orders') =>
    mysqlDestination.canonical!(applyDefaults(mysqlDestination.settings, config as never) as never, stream)
  const parts = { host: 'db.example.com', database: 'shop', user: 'u', password: PASSWORD }

  it('is the place, however it was written, and neither user nor password', () => {
    const same = [
      { ...parts, port: 3306 },
      { ...parts, user: 'other', password: 'changed' },
      { ...parts, host: 'DB.example.com.' },
      { ...parts, statement_timeout_seconds: 5 },
      { url: 'mysql://somebody:else@db.example.com/shop' },
    ]
    for (const config of same) {
      assert.deepEqual(source(config), source(parts))
      assert.deepEqual(destination(config), destination(parts))
    }
    assert.ok(!JSON.stringify([source(parts), destination(parts)]).includes(PASSWORD))
  })

  it('includes the database to load into, without which a destination is refused', () => {
    assert.throws(() => destination({ host: 'h', user: 'u' }), /`database` is missing/)
    assert.equal(source({ host: 'h', user: 'u' }).database, null)
  })

  it('is another with another host, port, database or table, or with another query of its own', () => {
    for (const change of [{ host: 'other' }, { port: 3307 }, { database: 'other' }]) {
      assert.notDeepEqual(source({ ...parts, ...change }), source(parts))
      assert.notDeepEqual(destination({ ...parts, ...change }), destination(parts))
    }
    assert.notDeepEqual(destination({ ...parts, table: 'b' }), destination({ ...parts, table: 'a' }))
    assert.deepEqual(destination({ ...parts, table: 'orders' }), destination(parts))
    const queries = (text: string) => ({ ...parts, queries: { mine: text, other: 'SELECT 2' } })
    assert.notDeepEqual(source(queries('SELECT 1'), 'mine'), source(queries('SELECT 3'), 'mine'))
    assert.deepEqual(source(queries('SELECT 1'), 'other'), source(queries('SELECT 3'), 'other'))
  })
})

describe('names in MySQL', () => {
  it('of streams survive a round trip, also with dots and quotes in them', () => {
    for (const [database, table] of [
      ['shop', 'orders'],
      ['a.b', 'c'],
      ['s', 'with "quotes" and .dots.'],
      ['', 'x'],
    ] as const)
      assert.deepEqual(splitStream(formatStream({ database, table }, undefined)), [database, table])
  })

  it('and texts cannot end their quotes', () => {
    assert.equal(quoteName('a`; DROP TABLE b; --'), '`a``; DROP TABLE b; --`')
    assert.equal(quoteText("a'; \\'\0"), "'a''; \\\\''\\0'")
  })

  it('are made of keys that MySQL would refuse', () => {
    assert.equal(makeSafe('a  ', mysqlNames), 'a__')
    assert.equal(makeSafe(' ', mysqlNames), '_')
    assert.equal(makeSafe('smile 😀', mysqlNames), 'smile _')
    assert.equal(makeSafe('é ü', mysqlNames), 'é ü')
    assert.match(makeSafe(`${'é'.repeat(40)} `, mysqlNames), /^é{27}_[0-9a-f]{8}$/)
    const name = createNamer(mysqlNames)
    assert.deepEqual(['Id', 'id', 'a ', 'a_'].map(name), ['Id', 'id_2', 'a_', 'a__2'])
  })
})
