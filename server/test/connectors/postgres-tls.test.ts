import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { copyIn } from '../../src/connectors/postgres/destination/copy-in.ts'
import { openSession } from '../../src/connectors/postgres/shared/session.ts'
import { type ConnectionSettings, resolveTarget } from '../../src/connectors/postgres/shared/settings.ts'
import { readBoolean, readInteger, readText } from '../../src/connectors/postgres/shared/values.ts'
import { copyOut } from '../../src/connectors/postgres/source/copy-out.ts'
import { createEgress } from '../../src/egress/policy.ts'
import { authority, serverCertificate, serverKey } from '../harness/certificates.ts'
import { type PostgresServer, startServer } from '../harness/postgres-server.ts'

describe('postgres over TLS', () => {
  let server: PostgresServer
  const lookup = async () => [{ address: '127.0.0.1', family: 4 }]
  const egress = createEgress({ allow: ['127.0.0.1'], self: [], lookup })
  before(async () => {
    server = await startServer(
      { ssl: 'on', ssl_cert_file: 'server.crt', ssl_key_file: 'server.key' },
      { 'server.crt': serverCertificate, 'server.key': serverKey },
    )
  })
  after(async () => {
    await egress.close()
    await server?.stop()
  })

  /** Whether the connection is encrypted. */
  async function isEncrypted(settings: ConnectionSettings): Promise<boolean> {
    const session = await openSession(resolveTarget(settings), {
      egress,
      signal: AbortSignal.timeout(10_000),
      side: 'source',
      application: 'test',
    })
    await session.begin()
    const [row] = await session.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()', [], {
      ssl: readBoolean,
    })
    await session.close()
    return row!.ssl
  }
  const connect = (tls: ConnectionSettings['tls'], host = '127.0.0.1'): Promise<boolean> => {
    const { port, user, password } = server
    return isEncrypted({ host, port, user, password, database: 'postgres', ...(tls ? { tls } : {}) })
  }
  const refused = (tls: ConnectionSettings['tls'], host?: string) =>
    assert.rejects(
      connect(tls, host),
      (error: unknown) => error instanceof ConnectorError && error.kind === 'config' && /TLS/.test(error.message),
    )

  it('is used unless it is disabled', async () => {
    assert.equal(await connect(undefined), true)
    assert.equal(await connect({ mode: 'prefer' }), true)
    assert.equal(await connect({ mode: 'require' }), true)
    assert.equal(await connect({ mode: 'disable' }), false)
  })

  it('is requested in a url as in libpq', async () => {
    const connectTo = (sslmode: string, tls?: ConnectionSettings['tls'], host = '127.0.0.1') => {
      const url = `postgres://${server.user}:${server.password}@${host}:${server.port}/postgres?sslmode=${sslmode}`
      return isEncrypted({ url, ...(tls ? { tls } : {}) })
    }
    assert.equal(await connectTo('disable'), false)
    for (const sslmode of ['prefer', 'require']) assert.equal(await connectTo(sslmode), true)
    for (const sslmode of ['require', 'verify-ca'])
      assert.equal(await connectTo(sslmode, { ca: authority }, 'other.test'), true)
    assert.equal(await connectTo('verify-full', { ca: authority }), true)
    await assert.rejects(connectTo('verify-full', { ca: authority }, 'other.test'), /TLS/)
    for (const sslmode of ['verify-ca', 'verify-full']) await assert.rejects(connectTo(sslmode), /TLS/)
    await assert.rejects(connectTo('require', { ca: serverCertificate }), /TLS/)
  })

  it('carries rows both ways', async () => {
    const { port, user, password } = server
    const target = resolveTarget({
      host: '127.0.0.1',
      port,
      user,
      password,
      database: 'postgres',
      tls: { mode: 'require' },
    })
    const options = { egress, signal: AbortSignal.timeout(20_000), side: 'source', application: 'test' } as const
    const [reader, writer] = [await openSession(target, options), await openSession(target, options)]
    await writer.begin()
    await reader.begin()
    await writer.script('CREATE TABLE public.numbers (n int8)')
    const copy = copyIn(writer, 'COPY public.numbers FROM STDIN')
    for await (const { bytes } of copyOut(reader, 'COPY (SELECT generate_series(1, 200000)) TO STDOUT'))
      await copy.write(bytes)
    assert.equal(await copy.finish(), 200000)
    await writer.commit()
    const [row] = await reader.query(
      'SELECT count(*)::int4 AS n, sum(n)::int8::text AS total FROM public.numbers',
      [],
      { n: readInteger, total: readText },
    )
    assert.deepEqual(row, { n: 200000, total: '20000100000' })
    await reader.close()
    await writer.close()
  })

  it('verifies the server if requested', async () => {
    assert.equal(await connect({ mode: 'verify-full', ca: authority }), true)
    assert.equal(await connect({ mode: 'verify-full', ca: authority }, 'db.test'), true)
    assert.equal(await connect({ mode: 'require', ca: authority }, 'other.test'), true)
    await refused({ mode: 'verify-full', ca: authority }, 'other.test')
    await refused({ mode: 'verify-full' })
    assert.equal(await connect({ mode: 'verify-ca', ca: authority }), true)
    assert.equal(await connect({ mode: 'verify-ca', ca: authority }, 'other.test'), true)
    await refused({ mode: 'verify-ca', ca: serverCertificate })
    await refused({ mode: 'verify-ca' })
    // No trusted authority has signed it.
    await refused({ mode: 'require', ca: serverCertificate })
  })
})
