import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { openSession } from '../../src/connectors/mysql/shared/session.ts'
import { type ConnectionSettings, resolveTarget } from '../../src/connectors/mysql/shared/settings.ts'
import { readText } from '../../src/connectors/mysql/shared/values.ts'
import { createEgress } from '../../src/egress/policy.ts'
import { authority, serverCertificate, serverKey } from '../harness/certificates.ts'
import { findAbsence, type MariadbServer, startServer } from '../harness/mariadb-server.ts'

const absence = findAbsence()
if (absence !== null) console.log(`mysql over TLS is not tested: ${absence}`)

describe('mysql over TLS', { skip: absence !== null }, () => {
  let server: MariadbServer
  const lookup = async () => [{ address: '127.0.0.1', family: 4 }]
  const egress = createEgress({ allow: ['127.0.0.1'], self: [], lookup })
  before(async () => {
    if (absence !== null) return
    server = await startServer(
      { ssl_cert: '{data}/server.crt', ssl_key: '{data}/server.key' },
      { 'server.crt': serverCertificate, 'server.key': serverKey },
    )
  })
  after(async () => {
    await egress.close()
    await server?.stop()
  })

  /** Whether the connection is encrypted. */
  async function connect(tls: ConnectionSettings['tls'], host = '127.0.0.1'): Promise<boolean> {
    const { port, user, password } = server
    const target = resolveTarget({ host, port, user, password, ...(tls ? { tls } : {}) })
    const session = await openSession(target, {
      egress,
      signal: AbortSignal.timeout(10_000),
      side: 'source',
      program: 'test',
    })
    const [row] = await session.query("SHOW STATUS LIKE 'Ssl_cipher'", { name: readText, value: readText })
    await session.close()
    return row!.value !== ''
  }
  const refused = (tls: ConnectionSettings['tls'], host?: string) =>
    assert.rejects(
      connect(tls, host),
      (error: unknown) => error instanceof ConnectorError && error.kind === 'config' && /TLS/.test(error.message),
    )

  it('is used unless it is switched off', async () => {
    assert.equal(await connect(undefined), true)
    assert.equal(await connect({ mode: 'prefer' }), true)
    assert.equal(await connect({ mode: 'require' }), true)
    assert.equal(await connect({ mode: 'disable' }), false)
  })

  it('verifies the authority, and with verify-full the host name', async () => {
    assert.equal(await connect({ mode: 'verify-ca', ca: authority }, 'other.test'), true)
    assert.equal(await connect({ mode: 'verify-full', ca: authority }), true)
    assert.equal(await connect({ mode: 'verify-full', ca: authority }, 'db.test'), true)
    await refused({ mode: 'verify-full', ca: authority }, 'other.test')
    await refused({ mode: 'verify-full' })
    await refused({ mode: 'verify-ca' })
  })

  it('is demanded by the server in a sentence that says what to do', async () => {
    await server.sql("ALTER USER tester@'%' REQUIRE SSL")
    await assert.rejects(connect({ mode: 'disable' }), { name: 'ConnectorError', kind: 'auth' })
    assert.equal(await connect({ mode: 'require' }), true)
  })
})
