/** What ClickHouse sends in rare moments, and what a server does that lies: an error that says so, never rows or an end. */
import assert from 'node:assert/strict'
import { after, describe, it } from 'node:test'
import { Client } from '../../src/connectors/clickhouse/shared/client.ts'
import { resolveTarget } from '../../src/connectors/clickhouse/shared/settings.ts'
import { readInteger } from '../../src/connectors/clickhouse/shared/values.ts'
import { RowPages } from '../../src/connectors/clickhouse/source/row-pages.ts'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { createEgress } from '../../src/egress/policy.ts'
import {
  type Asked,
  framed,
  refuse,
  type ScriptedClickhouse,
  startScriptedClickhouse,
} from '../harness/scripted-clickhouse.ts'

const PASSWORD = 'not-to-be-seen-77ab'
const egress = createEgress({ allow: ['127.0.0.1'], self: [] })
after(() => egress.close())

const clientOf = (port: number, more: { hurry?: boolean; side?: 'source' | 'destination' } = {}): Client =>
  new Client({
    egress,
    signal: AbortSignal.timeout(30_000),
    side: 'source',
    target: resolveTarget({ host: '127.0.0.1', port, user: 'u', password: PASSWORD, secure: false }),
    timeoutSeconds: 0,
    ...more,
  })

async function withServer<T>(
  answer: (asked: Asked) => void,
  work: (server: ScriptedClickhouse) => Promise<T>,
): Promise<T> {
  const server = await startScriptedClickhouse(answer)
  try {
    return await work(server)
  } finally {
    await server.close()
  }
}

interface Got {
  records: string[]
  error: ConnectorError | null
}

/** Reads two columns, as the source does. */
async function readRows(port: number): Promise<Got> {
  const client = clientOf(port)
  const columns = [
    { name: 'id', type: 'int64' as const },
    { name: 'note', type: 'text' as const },
  ]
  const records: string[] = []
  try {
    for await (const page of new RowPages({ encoding: 'tsv', columns, ties: null }).read(client, { sql: 'SELECT 1' }))
      records.push(...page.bytes.toString().split('\n').slice(0, -1))
    return { records, error: null }
  } catch (error) {
    const explained = client.explain(error)
    assert.ok(explained instanceof ConnectorError, String(explained))
    assert.ok(!explained.message.includes(PASSWORD))
    return { records, error: explained }
  }
}

const rows = Array.from({ length: 5000 }, (_, at) => [String(at), `a note about row ${at}, ${'x'.repeat(60)}`])
const exception =
  'Code: 241. DB::Exception: Memory limit (for query) exceeded: would use 9.31 GiB. (MEMORY_LIMIT_EXCEEDED)'

describe('an answer of ClickHouse', () => {
  it('is whole only with its end', async () => {
    await withServer(
      ({ response, mark }) => response.end(framed(rows) + mark),
      async ({ port }) => {
        const { records, error } = await readRows(port)
        assert.equal(error, null)
        assert.equal(records.length, rows.length)
      },
    )
    for (const cut of [0, 1, 17, 70_000, framed(rows).length]) {
      await withServer(
        ({ response }) => response.end(framed(rows).slice(0, cut)),
        async ({ port }) => {
          const { records, error } = await readRows(port)
          assert.match(error!.message, /ended in the middle/)
          assert.ok(error!.transient)
          assert.ok(records.every((record, at) => record === rows[at]!.join('\t')))
        },
      )
    }
  })

  it('that ends with an exception is a failure, wherever the exception stands, and none of it is a row', async () => {
    const before = framed(rows)
    const tagged = `__exception__\r\nabcdefghijklmnop\r\n${exception}\n120 abcdefghijklmnop\r\n__exception__\r\n`
    const ends = [
      `${exception}\n`,
      exception,
      `4999\thalf of a row ${exception}\n`,
      `12\t${exception}\n`,
      tagged,
      `\n${exception}\n`,
    ]
    for (const end of ends) {
      await withServer(
        ({ response }) => response.end(before + end),
        async ({ port }) => {
          const { records, error } = await readRows(port)
          assert.match(error!.message, /Memory limit.*\(code 241\).*max_memory_usage/s, end)
          assert.ok(error!.transient)
          assert.ok(records.every((record, at) => record === rows[at]!.join('\t')))
        },
      )
    }
  })

  it('may break off with the connection', async () => {
    await withServer(
      ({ response }) => {
        response.write(framed(rows))
        setTimeout(() => response.destroy(), 50)
      },
      async ({ port }) => {
        const { error } = await readRows(port)
        assert.equal(error!.kind, 'source')
        assert.ok(error!.transient)
      },
    )
  })

  it('with a row that is not one is refused', async () => {
    for (const wrong of ['1\u0001\n', '1\t2\t3\u0001\n', '<html>\n<body>\n', '\u0001\n']) {
      await withServer(
        ({ response, mark }) => response.end(wrong + mark),
        async ({ port }) => {
          const { records, error } = await readRows(port)
          assert.deepEqual(records, [])
          assert.match(error!.message, /did not answer as ClickHouse does; check `host`/)
        },
      )
    }
  })

  it('that never ends is given up, and fills no memory', async () => {
    for (const line of ['no frame\n', `${'9'.repeat(1 << 20)}`]) {
      const before = process.memoryUsage().arrayBuffers
      let most = 0
      await withServer(
        ({ response }) => {
          const send = (): void => {
            most = Math.max(most, process.memoryUsage().arrayBuffers - before)
            if (!response.destroyed)
              response.write(line.repeat(Math.ceil(65536 / line.length)), (error) => error ?? setImmediate(send))
          }
          send()
        },
        async ({ port }) => {
          const { error } = await readRows(port)
          assert.match(error!.message, /did not answer as ClickHouse does|more than 128 MB/)
        },
      )
      assert.ok(most < 400 * 1024 * 1024, `${most} bytes`)
    }
  })

  it('to a small query has a size', async () => {
    await withServer(
      ({ response }) => {
        const send = (): void => {
          if (!response.destroyed)
            response.write(framed(new Array(2000).fill(['1'])), (error) => error ?? setImmediate(send))
        }
        send()
      },
      async ({ port }) => {
        const client = clientOf(port)
        await assert.rejects(client.query('SELECT 1', { one: readInteger }), /did not answer as ClickHouse does/)
      },
    )
    await withServer(
      ({ response, mark }) => response.end(framed([['12; DROP TABLE t']]) + mark),
      async ({ port }) => {
        await assert.rejects(clientOf(port).query('SELECT 1', { one: readInteger }), /did not answer/)
      },
    )
  })
})

describe('a refusal', () => {
  const cases: [number, string, { kind: string; transient: boolean; says: RegExp; side?: 'source' | 'destination' }][] =
    [
      [516, 'u: Authentication failed', { kind: 'auth', transient: false, says: /`user` and `password`/ }],
      [81, 'Database x does not exist', { kind: 'config', transient: false, says: /name of the database/ }],
      [60, 'Table x does not exist', { kind: 'config', transient: false, says: /List the streams/ }],
      [497, 'Not enough privileges', { kind: 'auth', transient: false, says: /Grant the user/ }],
      [164, 'Cannot modify setting in readonly mode', { kind: 'auth', transient: false, says: /readonly = 2/ }],
      [
        243,
        'Cannot reserve 1.00 MiB',
        { kind: 'destination', transient: true, says: /disk.*full/, side: 'destination' },
      ],
      [
        1001,
        'std::exception: No space left on device',
        { kind: 'destination', transient: true, says: /full/, side: 'destination' },
      ],
      [241, 'Memory limit exceeded', { kind: 'source', transient: true, says: /max_memory_usage/ }],
      [
        252,
        'Too many parts (3000)',
        { kind: 'destination', transient: true, says: /too many parts/, side: 'destination' },
      ],
      [
        27,
        'Cannot parse input',
        { kind: 'destination', transient: false, says: /Change the column/, side: 'destination' },
      ],
      [115, 'Unknown setting x', { kind: 'config', transient: false, says: /too old/ }],
    ]
  for (const [code, message, { kind, transient, says, side = 'source' }] of cases) {
    it(`${code} (${message}) says what to do`, async () => {
      await withServer(
        (asked) => refuse(asked, code, message),
        async ({ port }) => {
          const client = clientOf(port, { side, hurry: true })
          const error = client.explain(await client.run({ sql: 'SELECT 1' }).catch((caught: unknown) => caught))
          assert.ok(error instanceof ConnectorError, String(error))
          assert.deepEqual([error.kind, error.transient], [kind, transient], error.message)
          assert.match(error.message, says)
          assert.ok(!error.message.includes('official build'))
        },
      )
    })
  }

  it('by something that is not ClickHouse says what to check', async () => {
    for (const [status, body, says] of [
      [404, '<h1>Not found</h1>', /not as ClickHouse does; check `host`/],
      [302, '', /not as ClickHouse does/],
      [400, 'Port 9000 is for clickhouse-client program. You must use port 8123 for HTTP.', /native one/],
      [503, 'busy', /not available at the moment/],
      [401, 'who?', /`user` and `password`/],
    ] as const) {
      await withServer(
        ({ response }) => response.writeHead(status, { location: 'http://127.0.0.1:1/' }).end(body),
        async ({ port, asked }) => {
          const client = clientOf(port)
          const error = client.explain(await client.run({ sql: 'SELECT 1' }).catch((caught: unknown) => caught))
          assert.match((error as Error).message, says)
          assert.equal(asked.length, 1, 'a redirect is not followed')
        },
      )
    }
  })

  it('because the server is busy is tried again, and the statement arrives once', async () => {
    let refused = 0
    await withServer(
      (asked) => (++refused <= 1 ? refuse(asked, 252, 'Too many parts') : asked.response.end()),
      async ({ port, asked }) => {
        await clientOf(port, { side: 'destination' }).run({
          sql: 'INSERT INTO t FORMAT TabSeparated',
          rows: Buffer.from('1\n'),
        })
        assert.deepEqual(
          asked.map(({ sql }) => sql),
          new Array(2).fill('INSERT INTO t FORMAT TabSeparated\n1\n'),
        )
      },
    )
  })
})

describe('the address of a request', () => {
  it('never holds the password, and values are parameters', async () => {
    await withServer(
      ({ response, mark }) => response.end(mark),
      async ({ port, asked }) => {
        await clientOf(port).query('SELECT {name:String}', { name: readInteger }, { name: "x' OR 1" })
        const [{ params, authorization, sql }] = asked as [Asked]
        assert.equal(params.get('param_name'), "x' OR 1")
        assert.equal(params.get('readonly'), '2')
        assert.ok(!params.toString().includes(PASSWORD) && !sql.includes(PASSWORD))
        assert.equal(Buffer.from(authorization.slice(6), 'base64').toString(), `u:${PASSWORD}`)
      },
    )
  })

  it('is one address, however it is written', () => {
    const parts = resolveTarget({ host: 'h.example.com', database: 'd', user: 'u', password: 'p:/@' })
    assert.deepEqual(parts, resolveTarget({ url: 'https://u:p%3A%2F%40@h.example.com/d' }))
    assert.equal(resolveTarget({ url: 'https://u@h.example.com:443/d' }).port, 443)
    assert.equal(resolveTarget({ url: 'http://u@h.example.com/d' }).port, 8123)
    assert.equal(resolveTarget({ host: 'h' }).user, 'default')
    for (const wrong of [
      { url: 'https://u@h/d', secure: true },
      { url: 'ftp://h' },
      { host: '/tmp/x' },
      {},
      { host: 'h', user: 'a:b' },
    ])
      assert.throws(() => resolveTarget(wrong), /clickhouse settings cannot be used/)
  })
})
