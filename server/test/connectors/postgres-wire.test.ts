/** The guard between an untrusted server and the driver. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import fc from 'fast-check'
import pg from 'pg'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { freeBytes } from '../../src/connectors/free-bytes.ts'
import { copyIn } from '../../src/connectors/postgres/destination/copy-in.ts'
import { explainFailure } from '../../src/connectors/postgres/shared/errors.ts'
import { openSession, type Session } from '../../src/connectors/postgres/shared/session.ts'
import { resolveTarget } from '../../src/connectors/postgres/shared/settings.ts'
import { readInteger, readText } from '../../src/connectors/postgres/shared/values.ts'
import { Conversation, type Question } from '../../src/connectors/postgres/shared/wire/conversation.ts'
import { Violation } from '../../src/connectors/postgres/shared/wire/frames.ts'
import { WireGuard } from '../../src/connectors/postgres/shared/wire/guard.ts'
import { GuardedSocket, readQuestion } from '../../src/connectors/postgres/shared/wire/guarded-socket.ts'
import { copyOut } from '../../src/connectors/postgres/source/copy-out.ts'
import { createEgress } from '../../src/egress/policy.ts'
import { hostilePostgres, startHostilePostgres } from '../harness/hostile-postgres.ts'
import { listen } from '../harness/peers.ts'
import {
  authentication,
  bound,
  complete,
  dataRow,
  frame,
  head,
  int16,
  int32,
  notice,
  notification,
  parameter,
  parsed,
  ready,
  rowDescription,
  serverError,
  welcome,
} from '../harness/postgres-frames.ts'
import { type PostgresServer, startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'

const egress = createEgress({ allow: ['127.0.0.1'], self: [] })
after(() => egress.close())

function open(port: number, settings: object = {}): Promise<Session> {
  return openSession(resolveTarget({ host: '127.0.0.1', port, user: 'u', password: 'p', ...settings }), {
    egress,
    signal: AbortSignal.timeout(30_000),
    side: 'source',
    application: 'test',
  })
}

describe('a session with a server that', () => {
  for (const [name, kind] of Object.entries(hostilePostgres)) {
    if (kind.silent) continue
    it(`${name} is refused with the reason`, { timeout: 20_000 }, async () => {
      const peer = await startHostilePostgres(kind)
      try {
        // Some only misbehave after the first answer.
        const asked = open(peer.port).then(async (session) => {
          await session.begin().catch((error) => {
            throw explainFailure(error, 'source', `PostgreSQL at 127.0.0.1:${peer.port}`)
          })
        })
        await assert.rejects(asked, (error: unknown) => {
          assert.ok(error instanceof ConnectorError, String(error))
          assert.match(error.message, new RegExp(`127.0.0.1:${peer.port}`))
          return ['source', 'config', 'auth'].includes(error.kind)
        })
      } finally {
        await peer.close()
      }
    })
  }

  it('is shut down at the moment it refuses TLS is tried again', async () => {
    const goodbye = frame('E', 'SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')
    const peer = await startHostilePostgres({ tls: (socket) => socket.end(Buffer.concat([Buffer.from('N'), goodbye])) })
    await assert.rejects(open(peer.port), { name: 'ConnectorError', kind: 'source', transient: true })
    await peer.close()
  })

  it('does not speak PostgreSQL is distinguished from one that refuses', async () => {
    const peer = await startHostilePostgres({ login: (socket) => socket.write('220 ready for mail\r\n') })
    await assert.rejects(open(peer.port), {
      name: 'ConnectorError',
      kind: 'source',
      transient: false,
      message: `The server at 127.0.0.1:${peer.port} does not speak PostgreSQL's protocol: it sent a message BindComplete with a length of 842014834 bytes; it began with "220 ready for mail\\r\\n"`,
    })
    await peer.close()
  })
})

/** A complete conversation of an honest server, with the queries in between. */
const honest: [asked: Question | null, answer: Buffer[]][] = [
  [
    null,
    [
      authentication(10, 'SCRAM-SHA-256\0\0'),
      authentication(11, 'r=abc,s=c2FsdA==,i=4096'),
      authentication(12, 'v=abc'),
      welcome,
    ],
  ],
  ['simple', [rowDescription([['a', 25]]), dataRow(['x']), notice, dataRow([null]), complete(), ready]],
  ['simple', [complete('BEGIN'), frame('I'), rowDescription([]), dataRow([]), complete(), frame('Z', 'T')]],
  ['extended', [parsed, bound, frame('n'), parameter('TimeZone', 'UTC'), complete('INSERT 0 1'), frame('Z', 'T')]],
  [
    'copy out',
    [
      frame('H', '\0', int16(2), int16(0), int16(0)),
      ...rows(50),
      notice,
      ...rows(3),
      frame('c'),
      complete('COPY 53'),
      ready,
    ],
  ],
  ['copy in', [frame('G', '\0', int16(1), int16(0)), notification]],
  ['end of rows', [notice, complete('COPY 7'), ready]],
  [
    'binary copy out',
    [frame('H', '\x01', int16(1), int16(1)), frame('d', '\0\0'), frame('c'), complete('COPY 1'), ready],
  ],
  ['binary copy in', [frame('G', '\x01', int16(1), int16(1))]],
  ['end of rows', [complete('COPY 7'), ready]],
  ['simple', [serverError('it does not exist'), frame('Z', 'E')]],
  ['extended', [parsed, serverError('no such column'), ready, serverError('the server is shutting down')]],
]

function rows(count: number): Buffer[] {
  return Array.from({ length: count }, (_, index) => frame('d', `${'x'.repeat(index * 7)}\tDZEN\n`))
}

describe('the guard', () => {
  it('passes on what an honest server sends, byte for byte, however it is split', () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 30 }), (sizes) => {
        let handedOn = Buffer.alloc(0)
        const guard = new WireGuard((bytes) => {
          handedOn = Buffer.concat([handedOn, bytes])
        })
        for (const [asked, answer] of honest) {
          if (asked) guard.conversation.begin(asked)
          handedOn = Buffer.alloc(0)
          const bytes = Buffer.concat(answer)
          for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
            const size = sizes[turn % sizes.length]!
            guard.take(bytes.subarray(at, at + size))
            at += size
          }
          assert.ok(handedOn.equals(bytes))
          assert.equal(guard.conversation.owes === 'nothing', !asked?.endsWith('copy in'))
        }
      }),
    )
  })

  it('does not copy the rows of a COPY', () => {
    const pieces: Buffer[] = []
    const guard = new WireGuard((bytes) => pieces.push(bytes))
    guard.take(welcome)
    guard.conversation.begin('copy out')
    guard.take(frame('H', '\0', int16(0)))
    pieces.length = 0
    const bytes = Buffer.concat(rows(2000))
    const chunks = [bytes.subarray(0, 65_536), bytes.subarray(65_536, 65_539), bytes.subarray(65_539)]
    for (const chunk of chunks) guard.take(chunk)
    const copied = pieces.filter((piece) => piece.buffer !== bytes.buffer)
    assert.ok(
      copied.every((piece) => piece.length === 5),
      'only a head that was cut in two is copied',
    )
    assert.ok(Buffer.concat(pieces).equals(bytes))
  })

  it('passes on what came before a violation', () => {
    const pieces: Buffer[] = []
    const guard = new WireGuard((bytes) => pieces.push(bytes))
    const refusal = frame('E', 'SFATAL\0C28P01\0Mwrong password\0\0')
    assert.throws(() => guard.take(Buffer.concat([refusal, head('?', 4)])), Violation)
    assert.deepEqual(pieces, [refusal])
  })

  it('counts the messages that answer one query, and starts over with the next', () => {
    const limits = { bytes: 10_000, rows: 20, values: 30, columns: 8, messages: 10 }
    const answers: Record<string, Buffer> = {
      bytes: Buffer.concat([rowDescription([['a', 25]]), dataRow(['x'.repeat(9990)])]),
      rows: Buffer.concat([rowDescription([]), ...new Array(21).fill(dataRow([]))]),
      values: Buffer.concat([rowDescription(columns(4)), ...new Array(8).fill(dataRow(['1', null, '3', '4']))]),
      columns: Buffer.concat([rowDescription(columns(5)), complete(), rowDescription(columns(4))]),
      messages: Buffer.concat(new Array(11).fill(notice)),
    }
    for (const [what, answer] of Object.entries(answers)) {
      const guard = new WireGuard(() => {}, new Conversation(limits))
      guard.take(welcome)
      for (let question = 0; question < 5; question += 1) {
        guard.conversation.begin('simple')
        guard.take(Buffer.concat([rowDescription(columns(4)), ...new Array(7).fill(dataRow(['1', null, '3', '4']))]))
        guard.take(Buffer.concat([notice, complete(), ready]))
      }
      guard.conversation.begin('simple')
      assert.throws(() => guard.take(answer), new RegExp(`more than ${limits[what as keyof typeof limits]} ${what}`))
    }
  })

  it('refuses rows in another form than the one that was asked for', () => {
    const answers = [
      ['copy out', 'H', '\x01', /it copies in binary form/],
      ['copy in', 'G', '\x01', /it copies in binary form/],
      ['binary copy out', 'H', '\0', /it does not copy in binary form/],
      ['binary copy in', 'G', '\0', /it does not copy in binary form/],
    ] as const
    for (const [asked, kind, form, message] of answers) {
      const guard = new WireGuard(() => {})
      guard.take(welcome)
      guard.conversation.begin(asked)
      assert.throws(() => guard.take(frame(kind, form, int16(0))), message)
    }
  })

  it('derives from what is written what may be answered', () => {
    const query = (text: string) => frame('Q', `${text}\0`)
    assert.equal(readQuestion(query('SELECT 1')), 'simple')
    assert.equal(readQuestion(query('COPY (SELECT 1) TO STDOUT')), 'copy out')
    assert.equal(readQuestion(query(`COPY (SELECT ' FROM STDIN') TO STDOUT (FORMAT csv)`)), 'copy out')
    assert.equal(readQuestion(query('COPY "TO STDOUT" (a) FROM STDIN')), 'copy in')
    assert.equal(readQuestion(query('COPY "a" (b) FROM STDIN (FORMAT binary)')), 'binary copy in')
    assert.equal(readQuestion(query('COPY (SELECT 1) TO STDOUT (FORMAT binary)')), 'binary copy out')
    assert.equal(readQuestion(frame('P', '\0SELECT 1\0', int16(0))), 'extended')
    assert.equal(readQuestion(Buffer.from('Q\tis a value of a row\n')), null)
    assert.equal(readQuestion(frame('X')), null)
    assert.equal(readQuestion(frame('c')), 'end of rows')
  })
})

function columns(count: number): [string, number][] {
  return Array.from({ length: count }, (_, index) => [`c${index}`, 25])
}

/** A connection without a peer. What is pushed into it is what the server sends. */
class Line extends Duplex {
  constructor() {
    super({ allowHalfOpen: false, highWaterMark: 1 << 16 })
  }
  override _read(): void {}
  override _write(_chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    done()
  }
  setNoDelay(): this {
    return this
  }
}

interface Call {
  line: Line
  guarded: GuardedSocket
  client: pg.Client
  connected: Promise<unknown>
}

function call(silenceMs: number | null = null, settleMs?: number): Call {
  const line = new Line()
  const guarded = new GuardedSocket(line as unknown as Socket, {
    violation: (violation) => new ConnectorError('source', violation.message),
    silence: () => new ConnectorError('source', 'it has not answered'),
    silenceMs,
    ...(settleMs === undefined ? {} : { settleMs }),
  })
  const client = new pg.Client({ user: 'u', password: 'p', stream: () => guarded as unknown as Duplex })
  client.on('error', () => {})
  const connected = client.connect()
  connected.catch(() => {})
  return { line, guarded, client, connected }
}

describe('the driver behind the guard', () => {
  const pool = [
    ...honest.flatMap(([, answer]) => answer),
    ...[0, 3, 5, 10, 11, 12, 99].map((type) => authentication(type, 'abcd')),
    ...['1', '2', '3', 'n', 's', 'I', 'c', 't', 'v', 'W', 'd', 'T', 'D', 'E', 'K', 'Z', 'G', 'H'].map((kind) =>
      frame(kind),
    ),
    frame('T', int16(0xffff)),
    frame('D', int16(0x7fff)),
    frame('D', int16(1), int32(-5)),
    frame('H', '\0', int16(0)),
    frame('G', '\0', int16(0)),
  ]
  const piece = fc.oneof(
    { weight: 4, arbitrary: fc.constantFrom(...pool) },
    {
      weight: 3,
      arbitrary: fc
        .tuple(fc.constantFrom(...pool), fc.nat(), fc.integer({ min: 0, max: 255 }))
        .map(([bytes, at, value]) => {
          const changed = Buffer.from(bytes)
          changed[at % changed.length] = value
          return changed
        }),
    },
    {
      weight: 1,
      arbitrary: fc
        .tuple(fc.constantFrom(...pool), fc.nat())
        .map(([bytes, end]) => bytes.subarray(0, (end % bytes.length) + 1)),
    },
    { weight: 1, arbitrary: fc.uint8Array({ maxLength: 40 }).map((bytes) => Buffer.from(bytes)) },
  )
  /** An honest answer up to some point, and then anything. */
  const conversation = fc
    .tuple(fc.constantFrom(...honest), fc.nat(), fc.array(piece, { maxLength: 12 }))
    .map(([[what, answer], honestly, rest]) => ({
      what,
      said: [...answer.slice(0, honestly % (answer.length + 1)), ...rest],
    }))

  async function ask({ client }: Call, what: Question): Promise<unknown> {
    const session = { client } as unknown as Session
    if (what === 'simple') return client.query('SELECT 1')
    if (what === 'extended') return client.query('SELECT $1', ['1'])
    if (what === 'copy out') {
      for await (const _ of copyOut(session, 'COPY t TO STDOUT'));
      return null
    }
    const copy = copyIn(session, 'COPY t FROM STDIN')
    if (what === 'copy in') await copy.write(Buffer.from('a row\n'))
    return copy.finish()
  }

  it('ends whatever the server sends, and nothing is thrown past it', { timeout: 120_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(conversation, fc.integer({ min: 1, max: 99 }), async ({ what, said }, cut) => {
        const began = performance.now()
        const open = call()
        let answered = open.connected
        if (what !== null) {
          open.line.push(welcome)
          await open.connected
          answered = ask(open, what)
        }
        const settled = answered.then(
          () => 'answered',
          () => 'refused',
        )
        const bytes = Buffer.concat(said)
        for (let at = 0; at < bytes.length; at += cut) open.line.push(bytes.subarray(at, at + cut))
        open.line.push(null)
        assert.ok(['answered', 'refused'].includes(await settled))
        assert.ok(performance.now() - began < 5000)
        open.client.end().catch(() => {})
        open.line.destroy()
      }),
      { numRuns: 1500 },
    )
  })

  it('waits as long as an answer may take, and only briefly for ReadyForQuery', async () => {
    const never = call(null, 50)
    never.line.push(welcome)
    await never.connected
    const query = never.client.query('SELECT 1')
    never.line.push(complete())
    // A script may have a statement that takes hours.
    assert.equal(await Promise.race([query.catch(() => 'ended'), delay(200, 'waiting')]), 'waiting')
    never.line.push(serverError('no'))
    await assert.rejects(query, /no/)
    await assert.rejects(once(never.line, 'close'), /it has not answered/)
    assert.ok(never.guarded.failure instanceof ConnectorError)
  })

  it('does not wait longer than a statement may take, and notices buy no time', async () => {
    const silent = call(100)
    silent.line.push(welcome)
    await silent.connected
    const query = silent.client.query('SELECT 1')
    const chatter = setInterval(() => silent.line.push(notice), 10)
    await assert.rejects(query, /it has not answered/)
    clearInterval(chatter)
  })

  it('does not time out while rows are not read, or while no query is open', async () => {
    const slow = call(100)
    slow.line.push(welcome)
    await slow.connected
    await delay(200)
    const read = copyOut({ client: slow.client } as unknown as Session, 'COPY t TO STDOUT', { pageBytes: 10 })
    const first = read.next()
    slow.line.push(Buffer.concat([frame('H', '\0', int16(0)), frame('d', 'a row that fills a page\n')]))
    assert.equal((await first).value?.count, 1)
    // The reader does not ask for more: the socket is paused.
    await delay(300)
    slow.line.push(Buffer.concat([frame('c'), complete('COPY 1'), ready]))
    assert.equal((await read.next()).done, true)
    slow.line.destroy()
  })
})

it('memory that others share is not given back', () => {
  const small = Buffer.from('a small buffer is a part of a larger one')
  freeBytes(small)
  assert.match(small.toString(), /^a small/)
  const large = Buffer.allocUnsafeSlow(100_000)
  freeBytes(large.subarray(1))
  assert.equal(large.length, 100_000)
  freeBytes(large)
  assert.equal(large.length, 0)
})

describe('an honest server', () => {
  let server: PostgresServer
  before(async () => {
    server = await startPostgresServer()
  })
  after(() => stopPostgresServer())

  it('is understood however its bytes are split', { timeout: 60_000 }, async () => {
    const proxy = await listen((client) => {
      const upstream = connect(server.port, server.host)
      upstream.on('error', () => client.destroy()).on('close', () => client.destroy())
      client.on('close', () => upstream.destroy())
      client.on('data', (chunk) => upstream.write(chunk))
      let size = 0
      upstream.on('data', (chunk: Buffer) => {
        for (let at = 0; at < chunk.length; at += size) {
          size = (size % 23) + 1
          client.write(chunk.subarray(at, at + size))
        }
      })
    })
    const settings = { user: server.user, password: server.password, database: 'postgres' }
    const session = await open(proxy.port, { ...settings, tls: { mode: 'prefer' } })
    await session.begin()
    await session.script('CREATE TEMPORARY TABLE numbers (n int8, t text)')
    const copy = copyIn(session, 'COPY pg_temp.numbers (n, t) FROM STDIN')
    for (let n = 0; n < 2000; n += 1) await copy.write(Buffer.from(`${n}\t${'Z'.repeat(n % 50)}\n`))
    assert.equal(await copy.finish(), 2000)
    let count = 0
    for await (const page of copyOut(session, 'COPY pg_temp.numbers TO STDOUT', { pageBytes: 1000 }))
      count += page.count
    assert.equal(count, 2000)
    const found = await session.query('SELECT n, t FROM pg_temp.numbers WHERE n < $1 ORDER BY n', [3], {
      n: readInteger,
      t: readText,
    })
    assert.deepEqual(found, [
      { n: 0, t: '' },
      { n: 1, t: 'Z' },
      { n: 2, t: 'ZZ' },
    ])
    await assert.rejects(session.query('SELECT 1 AS n', [], { other: readText }), /valid value for the column other/)
    await assert.rejects(session.script('SELECT 1; SELECT no_such_column'), /no_such_column/)
    await session.close()
    await proxy.close()
  })
})
