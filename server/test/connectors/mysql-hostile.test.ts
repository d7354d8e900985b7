/** A server that lies: it costs an error, never a file of this machine, our memory or our time. */
import assert from 'node:assert/strict'
import { constants, generateKeyPairSync, privateDecrypt } from 'node:crypto'
import { after, describe, it } from 'node:test'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { explainFailure } from '../../src/connectors/mysql/shared/errors.ts'
import { openSession, type Session } from '../../src/connectors/mysql/shared/session.ts'
import { resolveTarget } from '../../src/connectors/mysql/shared/settings.ts'
import { readText } from '../../src/connectors/mysql/shared/values.ts'
import { PacketReader } from '../../src/connectors/mysql/shared/wire/packet-reader.ts'
import { ServerError } from '../../src/connectors/mysql/shared/wire/packets.ts'
import { RowPages } from '../../src/connectors/mysql/source/row-pages.ts'
import { createEgress } from '../../src/egress/policy.ts'
import { handshake, hostileMysql, ok, packet, startHostileMysql } from '../harness/hostile-mysql.ts'
import { listen } from '../harness/peers.ts'

const egress = createEgress({ allow: ['127.0.0.1'], self: [] })
after(() => egress.close())

const PASSWORD = 'not-to-be-seen-51c0'

function open(port: number, settings: object = {}, side: 'source' | 'destination' = 'source'): Promise<Session> {
  const target = resolveTarget({ host: '127.0.0.1', port, user: 'u', password: PASSWORD, ...settings })
  return openSession(target, { egress, signal: AbortSignal.timeout(10_000), side, program: 'test' })
}

describe('a MySQL server that', () => {
  for (const [name, kind] of Object.entries(hostileMysql)) {
    it(`${name} is refused with the reason, and is told nothing`, { timeout: 60_000 }, async () => {
      const peer = await startHostileMysql(kind)
      const before = process.memoryUsage().arrayBuffers
      let most = 0
      const watch = setInterval(() => {
        most = Math.max(most, process.memoryUsage().arrayBuffers - before)
      }, 10)
      try {
        // Some show what they are only after the first answer.
        const asked = open(peer.port, {}, 'destination').then(async (session) => {
          await session.query('SELECT a', { a: readText })
          await session.query('SELECT b', { b: readText })
        })
        await assert.rejects(asked, (error: unknown) => {
          assert.ok(error instanceof ConnectorError || /closed/.test(String(error)), String(error))
          assert.ok(!String(error).includes(PASSWORD))
          return true
        })
        assert.ok(!peer.received().includes(PASSWORD), 'the password was not sent')
        assert.ok(!peer.received().includes('root:'), 'no file was sent')
        assert.ok(most < 300 * 1024 * 1024, `${most} bytes`)
      } finally {
        clearInterval(watch)
        await peer.close()
      }
    })
  }

  it('drips is ended at the deadline of the login', { timeout: 40_000 }, async () => {
    const whole = handshake()
    const peer = await listen((socket) => {
      let at = 0
      const timer = setInterval(() => socket.write(whole.subarray(at, ++at)), 500)
      socket.on('close', () => clearInterval(timer))
    })
    const target = resolveTarget({ host: '127.0.0.1', port: peer.port, user: 'u', password: PASSWORD })
    const opening = openSession(target, {
      egress,
      signal: AbortSignal.timeout(30_000),
      side: 'source',
      program: 'test',
    })
    await assert.rejects(opening, /did not complete the login within 15 seconds/)
    await peer.close()
  })

  it('asks for another file than the rows of our own load gets nothing', async () => {
    const peer = await startHostileMysql({ query: (socket) => socket.write(packet(1, '\xfb/etc/passwd')) })
    const session = await open(peer.port, {}, 'destination')
    await assert.rejects(
      session.load("LOAD DATA LOCAL INFILE 'rows' INTO TABLE t", 'rows'),
      /asked for the file "\/etc\/passwd"/,
    )
    assert.ok(!peer.received().includes('root:'))
    await peer.close()
  })

  it('confirms rows before it has them is not believed', async () => {
    const peer = await startHostileMysql({
      query: (socket) => socket.write(Buffer.concat([packet(1, '\xfbrows'), ok(2)])),
    })
    const session = await open(peer.port, {}, 'destination')
    const rows = session.load("LOAD DATA LOCAL INFILE 'rows' INTO TABLE t", 'rows').then((local) => local.finish())
    await assert.rejects(rows, /confirmed rows before it had them all/)
    await peer.close()
  })

  it('puts a tab into a number, or leaves a value out, is refused', () => {
    const fields = [{ name: 'n', source: 'n', form: 'number' as const }]
    const session = { connection: { pause() {}, resume() {} } } as unknown as Session
    const take = (...bytes: number[]): void => {
      const rows = new RowPages(session, { encoding: 'tsv', fields, zeroDates: 'null', ties: null })
      rows.row(Buffer.from(bytes), 0, bytes.length)
    }
    take(1, 49)
    assert.throws(() => take(3, 49, 9, 50), /none of its column/)
    assert.throws(() => take(1, 49, 1, 50), /more values than columns/)
    assert.throws(() => take(2, 49), /shorter than its content/)
    assert.throws(() => take(), /fewer values than columns/)
    assert.throws(() => take(0xfe, 1, 0, 0, 0, 0, 0, 0, 0), /shorter than its content|none of its column/)
    assert.throws(() => take(0xff, 1), /shorter than its content/)
  })
})

describe('the password over a connection without TLS', () => {
  const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const pem = publicKey.export({ type: 'spki', format: 'pem' }).toString()

  it('is encrypted with the key that the settings pin, and with no other', async () => {
    const answers: Buffer[] = []
    const peer = await listen((socket) => {
      socket.write(handshake('caching_sha2_password'))
      let asked = -1
      socket.on('data', (chunk: Buffer) => {
        asked += 1
        if (asked === 0) socket.write(packet(2, '\x01\x04'))
        else if (asked === 1) {
          answers.push(chunk.subarray(4))
          socket.write(ok(4))
        } else socket.write(ok(1))
      })
    })
    const session = await open(peer.port, { server_public_key: pem })
    session.destroy()
    const plain = privateDecrypt({ key: privateKey, padding: constants.RSA_PKCS1_OAEP_PADDING }, answers[0]!)
    const salt = Buffer.from('abcdefgh12345678abcd')
    const password = Buffer.from(plain.map((byte, at) => byte ^ salt[at % salt.length]!)).toString()
    assert.equal(password, `${PASSWORD}\0`)
    await assert.rejects(open(peer.port), /wants the whole password/)
    await peer.close()
  })
})

describe('an error of the server', () => {
  it('is a sentence that says what to do, and whether to try again', () => {
    const cases: [number, string, boolean, RegExp, string?][] = [
      [1030, 'destination', true, /is full; make room there/, 'Got error 28 "No space left on device" from engine'],
      [3, 'destination', true, /is full; make room there/, "Error writing file 'a' (Errcode: 28)"],
      [1005, 'destination', true, /is full; make room there/, "Can't create table (errno: 135)"],
      [1005, 'destination', false, /error 1005/, "Can't create table (errno: 150)"],
      [1045, 'auth', false, /Check user and password/],
      [1142, 'auth', false, /Grant the user this privilege/],
      [1049, 'config', false, /Check the name of the database/],
      [1114, 'destination', true, /is full; make room there/],
      [1021, 'destination', true, /is full; make room there/],
      [1205, 'destination', true, /Another session holds a lock/],
      [1213, 'destination', true, /error 1213/],
      [1053, 'destination', true, /error 1053/],
      [1062, 'destination', false, /Remove the duplicate/],
      [1406, 'destination', false, /Change the column/],
      [1064, 'config', false, /error 1064/],
    ]
    for (const [errno, kind, transient, message, said = 'The server says.'] of cases) {
      const error = explainFailure(new ServerError(errno, 'HY000', said), 'destination', 'MySQL at a:1')
      assert.ok(error instanceof ConnectorError)
      assert.deepEqual([error.kind, error.transient], [kind, transient], String(errno))
      assert.ok(error.message.startsWith(`MySQL at a:1 answered: ${said.replace(/\.$/, '')} (error `), error.message)
      assert.match(error.message, message)
    }
  })
})

describe('packets', () => {
  it('are the same however the bytes are cut', () => {
    const parts = [
      packet(0, 'first'),
      packet(1, ''),
      packet(2, 'x'.repeat(70_000)),
      packet(3, Buffer.alloc(0xffffff, 'y')),
      packet(4, 'tail'),
      packet(5, 'z'),
    ]
    const bytes = Buffer.concat(parts)
    for (const size of [1000, 4097, 65536, 16_000_000, bytes.length]) {
      const seen: [number, string][] = []
      const reader = new PacketReader({
        limit: 1 << 27,
        take: (chunk, at, end) => void seen.push([end - at, chunk.toString('latin1', Math.max(at, end - 4), end)]),
      })
      for (let at = 0; at < bytes.length; at += size) reader.feed(bytes.subarray(at, at + size))
      assert.deepEqual(
        seen,
        [
          [5, 'irst'],
          [0, ''],
          [70_000, 'xxxx'],
          [0xffffff + 4, 'tail'],
          [1, 'z'],
        ],
        String(size),
      )
    }
  })
})
