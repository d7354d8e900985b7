import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { connectDatabase, sql } from '../../src/database/database.ts'
import { chooseConnection, readDatabaseUrl } from '../../src/database/database-url.ts'
import { authority, serverCertificate, serverKey } from '../harness/certificates.ts'
import { type PostgresServer, startServer } from '../harness/postgres-server.ts'
import { environment, runSluice } from '../harness/service.ts'

const tls = { ssl: 'on', ssl_cert_file: 'server.crt', ssl_key_file: 'server.key' }
const files = { 'server.crt': serverCertificate, 'server.key': serverKey }
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-certificates-'))
const pem = (name: string, text: string) => {
  writeFileSync(path.join(folder, name), text)
  return encodeURIComponent(path.join(folder, name))
}
const root = pem('root.crt', authority)
const wrongRoot = pem('wrong.crt', serverCertificate)
after(() => rmSync(folder, { recursive: true }))

let secure: PostgresServer
let plain: PostgresServer
before(async () => {
  secure = await startServer(tls, files)
  plain = await startServer({})
})
after(async () => {
  await secure?.stop()
  await plain?.stop()
})

const address = ({ port, user, password }: PostgresServer, parameters: string, host = '127.0.0.1') =>
  `postgres://${user}:${password}@${host}:${port}/postgres?${parameters}`

/** Whether the connection to this address is encrypted. */
async function isEncrypted(server: PostgresServer, parameters: string, host?: string): Promise<boolean> {
  const connection = await chooseConnection(readDatabaseUrl(address(server, parameters, host)))
  const db = connectDatabase(connection, 2, () => {})
  try {
    return (await db.first<{ ssl: boolean }>(sql`SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()`))!.ssl
  } finally {
    await db.close()
  }
}

describe('sslmode in DATABASE_URL', () => {
  test('require encrypts, and verifies nothing unless a root certificate is given', async () => {
    assert.equal(await isEncrypted(secure, 'sslmode=require'), true)
    assert.equal(await isEncrypted(secure, `sslmode=require&sslrootcert=${root}`), true)
    assert.equal(await isEncrypted(secure, `sslmode=require&sslrootcert=${root}`, 'localhost'), true)
    await assert.rejects(isEncrypted(secure, `sslmode=require&sslrootcert=${wrongRoot}`), /certificate/)
    await assert.rejects(isEncrypted(plain, 'sslmode=require'), /does not support SSL/)
  })

  test('verify-ca verifies the chain, verify-full the host name too', async () => {
    assert.equal(await isEncrypted(secure, `sslmode=verify-ca&sslrootcert=${root}`, 'localhost'), true)
    await assert.rejects(isEncrypted(secure, `sslmode=verify-ca&sslrootcert=${wrongRoot}`), /certificate/)
    await assert.rejects(isEncrypted(secure, 'sslmode=verify-ca'), /certificate/)
    assert.equal(await isEncrypted(secure, `sslmode=verify-full&sslrootcert=${root}`), true)
    await assert.rejects(isEncrypted(secure, `sslmode=verify-full&sslrootcert=${root}`, 'localhost'), /localhost/)
    await assert.rejects(isEncrypted(secure, 'sslmode=verify-full'), /certificate/)
    await assert.rejects(isEncrypted(secure, 'sslmode=require&sslrootcert=system'), /certificate/)
  })

  test('prefer encrypts if the server can, disable never', async () => {
    assert.equal(await isEncrypted(secure, 'sslmode=prefer'), true)
    assert.equal(await isEncrypted(plain, 'sslmode=prefer'), false)
    assert.equal(await isEncrypted(secure, 'sslmode=disable'), false)
    assert.equal(await isEncrypted(secure, ''), false, 'without sslmode it is as before')
  })

  test('allow encrypts only if the server insists', async (t) => {
    assert.equal(await isEncrypted(secure, 'sslmode=allow'), false)
    const strict = await startServer(tls, { ...files, 'pg_hba.conf': 'hostssl all all 127.0.0.1/32 scram-sha-256\n' })
    t.after(() => strict.stop())
    await assert.rejects(isEncrypted(strict, 'sslmode=disable'), /no encryption/)
    assert.equal(await isEncrypted(strict, 'sslmode=allow'), true)
  })

  test('an unknown mode, or a missing file, is reported in one sentence', () => {
    const read = (parameters: string) => readDatabaseUrl(`postgres://user@host/db?${parameters}`)
    assert.throws(() => read('sslmode=sometimes'), /DATABASE_URL: sslmode must be one of disable, allow, prefer, /)
    assert.throws(() => read('sslmode=verify-ca&sslrootcert=/nowhere.crt'), /DATABASE_URL: sslrootcert cannot be read/)
  })

  test('leaves the rest of the address unchanged', () => {
    const { connection } = readDatabaseUrl('postgres://a%40b:p%2Fw@host:6432/d%20b?sslmode=require&application_name=x')
    assert.equal(connection.connectionString, 'postgres://a%40b:p%2Fw@host:6432/d%20b?application_name=x')
  })
})

test('the service uses a database with sslmode=require, without a warning', async () => {
  const env = {
    DATABASE_URL: address(secure, 'sslmode=require'),
    JWT_SECRET_KEY: 'x'.repeat(32),
    ENCRYPTION_KEY: 'x'.repeat(32),
  }
  const { code, stdout, stderr } = await runSluice(['migrate'], environment(folder, env)).ended
  assert.equal(code, 0, stderr)
  assert.doesNotMatch(stdout + stderr, /warning/i)
})
