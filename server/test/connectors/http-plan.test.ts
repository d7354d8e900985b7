/** What a plan can say, executed against a local API. */
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { after, afterEach, before, describe, it } from 'node:test'
import { deflateRawSync, gzipSync } from 'node:zlib'
import { pageNumbers, tokens } from '../../src/connectors/http/paginator.ts'
import type { PartitionPlan, StreamPlan } from '../../src/connectors/http/plan.ts'
import type { AuthenticationPlan } from '../../src/connectors/http/request-plan.ts'
import { StreamState } from '../../src/connectors/http/stream-state.ts'
import type { Json } from '../../src/json/json.ts'
import { type ApiServer, startApi } from '../harness/api-server.ts'
import { startExport } from '../harness/api-services.ts'
import { get, numberCursor, pages, planOf, read, readPlan, records } from '../harness/http-plans.ts'

const incremental = { mode: 'incremental', write: 'append' } as const

describe('an HTTP plan', () => {
  let api: ApiServer
  before(async () => {
    api = await startApi()
  })
  afterEach(() => {
    api.requests.length = 0
    api.before = undefined
  })
  after(() => api.close())

  describe('partitions', () => {
    const echo = () => api.on('GET /echo', ({ params }) => ({ body: [Object.fromEntries(params)] }))
    const list = (field: string, values: Json[]): PartitionPlan => ({
      kind: 'list',
      field,
      values: () => values,
      inject: { into: 'param', path: [field] },
    })
    const rowsOf = async (partitions: PartitionPlan, resume: Json = null) =>
      readPlan(planOf(read(pages(get(`${api.url}/echo`)), { partitions })), { resume })

    it('combine, unite and group, and a read resumes after any of them', async () => {
      echo()
      const product: PartitionPlan = { kind: 'product', of: [list('a', ['1', '2']), list('b', ['x', 'y', 'z'])] }
      const union: PartitionPlan = { kind: 'union', of: [list('a', ['1', '2']), list('a', ['2', '3'])] }
      const group: PartitionPlan = { kind: 'group', of: list('a', ['1', '2', '2', '3']), size: 2, distinct: true }
      const whole = await rowsOf(product)
      assert.deepEqual(
        whole.rows.map(({ a, b }) => `${a}${b}`),
        ['1x', '1y', '1z', '2x', '2y', '2z'],
      )
      for (const [at, cursor] of whole.cursors.entries())
        assert.deepEqual((await rowsOf(product, cursor)).rows, whole.rows.slice(at + 1), `after ${at}`)
      const united = await rowsOf(union)
      assert.deepEqual(
        united.rows.map(({ a }) => a),
        ['1', '2', '3'],
      )
      assert.deepEqual(
        (await rowsOf(union, united.cursors[0]!)).rows.map(({ a }) => a),
        ['2', '3'],
      )
      await rowsOf(group)
      assert.deepEqual(
        api.requests.slice(-2).map(({ params }) => params.getAll('a')),
        [['1', '2'], ['3']],
      )
    })

    it('go through a parent again without asking for it again, where the plan keeps its answers', async () => {
      echo()
      api.on('GET /owners', () => ({ body: [{ id: 'x' }, { id: 'y' }] }))
      const stream: StreamPlan = {
        name: 'owners',
        primaryKey: [],
        columns: null,
        choose: () => read(pages(get(`${api.url}/owners`, { cache: true }))),
      }
      const owners: PartitionPlan = {
        kind: 'parents',
        parents: [
          {
            stream,
            partition: ({ id }) => ({ partition: { b: id! } }),
            inject: [{ field: 'b', at: { into: 'param', path: ['b'] } }],
            incremental: false,
          },
        ],
      }
      const { rows } = await rowsOf({ kind: 'product', of: [list('a', ['1', '2', '3']), owners] })
      assert.deepEqual(
        rows.map(({ a, b }) => `${a}${b}`),
        ['1x', '1y', '2x', '2y', '3x', '3y'],
      )
      assert.equal(api.requests.filter(({ path }) => path === '/owners').length, 1)
    })

    it('keep a value each', async () => {
      api.on('GET /values', ({ params }) => {
        const p = Number(params.get('p'))
        return { body: Number(params.get('start')) <= p ? [{ n: p, p }] : [] }
      })
      const plan = (count: number) =>
        planOf(
          read(pages(get(`${api.url}/values`)), {
            partitions: list(
              'p',
              Array.from({ length: count }, (_, at) => at + 1),
            ),
            cursor: numberCursor(),
          }),
        )
      const { rows, cursors } = await readPlan(plan(40), { sync: incremental })
      assert.equal(rows.length, 40)
      const state = cursors.at(-1)!
      assert.equal((await readPlan(plan(40), { sync: incremental, state })).rows.length, 0)
      const more = await readPlan(plan(43), { sync: incremental, state })
      assert.deepEqual(
        more.rows.map(({ p }) => p),
        [41, 42, 43],
      )
    })
  })

  it('of more than 5,000 records with the highest value only those beyond come again, and the log says so', async () => {
    const all = Array.from({ length: 5200 }, (_, id) => ({ id, n: 7 }))
    api.on('GET /tied', () => ({ body: all }))
    const plan = planOf(read(pages(get(`${api.url}/tied`)), { cursor: numberCursor() }))
    const first = await readPlan(plan, { sync: incremental })
    assert.equal(first.rows.length, 5200)
    assert.match(first.log.join(), /More than 5000 records share the cursor value 7/)
    all.push({ id: 5200, n: 7 })
    const later = await readPlan(plan, { sync: incremental, state: first.cursors.at(-1)! })
    assert.deepEqual(
      later.rows.map(({ id }) => id),
      all.slice(5000).map(({ id }) => id),
    )
  })

  it('the state of very many partitions is bounded: the lowest values are forgotten, and one floor stands for them', () => {
    const cursor = numberCursor()
    const state = StreamState.read(null)
    for (let n = 1; n <= 10_500; n++) state.complete(`p${n}`, { highest: n, tied: [] }, cursor)
    const kept = StreamState.read(JSON.parse(JSON.stringify(state.toJson())))
    assert.equal(kept.last('p10500').highest, 10_500)
    assert.equal(kept.last('p1').highest, 1000)
    assert.equal(kept.last('p1001').highest, 1001)
    assert.ok(JSON.stringify(kept.toJson()).length < 500_000)
  })

  describe('a read that failed', () => {
    it('goes on in the next run where it was, and then reads what is new', async () => {
      const rows = Array.from({ length: 30 }, (_, at) => ({ n: at + 1 }))
      api.on('GET /rows', ({ params }) => {
        const known = rows.filter(({ n }) => n >= Number(params.get('start')))
        const page = Number(params.get('page'))
        return { body: known.slice(page * 5, page * 5 + 5) }
      })
      const paginator = pageNumbers({
        start: 0,
        firstInjected: true,
        pageSize: () => 5,
        inject: [{ into: 'param', path: ['page'] }],
        size: null,
      })
      const plan = planOf(read(pages(get(`${api.url}/rows`), { paginator }), { cursor: numberCursor() }))
      const first = await readPlan(plan, { sync: incremental, most: 2 })
      assert.equal(first.rows.length, 10)
      rows.push({ n: 31 }, { n: 32 })
      const second = await readPlan(plan, { sync: incremental, state: first.cursors.at(-1)! })
      assert.deepEqual([...first.rows, ...second.rows], rows)
      assert.deepEqual((await readPlan(plan, { sync: incremental, state: second.cursors.at(-1)! })).rows, [])
    })
  })

  it('a read that failed at a page whose token has expired reads its range again, and says so', async () => {
    const rows = Array.from({ length: 12 }, (_, at) => ({ n: at + 1 }))
    let epoch = 1
    api.on('GET /rows', ({ params }) => {
      const [own, at] = (params.get('token') ?? `${epoch}-0`).split('-').map(Number) as [number, number]
      if (own !== epoch) return { status: 400, body: { message: 'the cursor has expired' } }
      return { body: { rows: rows.slice(at, at + 5), next: at + 5 < rows.length ? `${epoch}-${at + 5}` : null } }
    })
    const paginator = tokens({
      value: ({ answer }) => answer!.find(['next']) ?? null,
      inject: [{ into: 'param', path: ['token'] }],
      size: null,
    })
    const plan = planOf(
      read(pages(get(`${api.url}/rows`), { paginator }), { records: records(['rows']), cursor: numberCursor() }),
    )
    const first = await readPlan(plan, { sync: incremental, most: 1 })
    epoch = 2
    const second = await readPlan(plan, { sync: incremental, state: first.cursors[0]! })
    assert.deepEqual(second.rows, rows)
    assert.match(second.log.join(), /cannot be read any more .*the cursor has expired/)
  })

  describe('authentication', () => {
    const guarded = (authentication: AuthenticationPlan) =>
      planOf(read(pages(get(`${api.url}/secret`, { authentication }))))
    const serve = (isGood: (authorization: string | undefined) => boolean) =>
      api.on('GET /secret', ({ headers }) =>
        isGood(headers.authorization) ? { body: [{ ok: true }] } : { status: 401, body: { message: 'no' } },
      )

    it('a session logs in once, and again when the token is refused', async () => {
      let issued = 0
      api.on('POST /login', ({ body }) => ({
        body: { data: { token: `${JSON.parse(body).user}-session-${++issued}` } },
      }))
      serve((authorization) => authorization === 'Session ada-session-2')
      const login = get(`${api.url}/login`, { method: 'POST', body: { kind: 'json', value: () => ({ user: 'ada' }) } })
      const { rows, remembered } = await readPlan(
        guarded({
          kind: 'session',
          key: 's',
          login,
          tokenPath: ['data', 'token'],
          lifetimeMs: null,
          at: { into: 'header', path: ['Authorization'] },
          write: (token) => `Session ${token}`,
        }),
      )
      assert.deepEqual([rows, issued], [[{ ok: true }], 2])
      assert.ok(remembered.includes('ada-session-2'))
    })

    it('a JWT is signed with its claims and a time', async () => {
      serve((authorization) => {
        const [head, payload, signature] = authorization!.slice('Bearer '.length).split('.') as [string, string, string]
        const expected = createHmac('sha256', 'shared').update(`${head}.${payload}`).digest('base64url')
        const claims = JSON.parse(Buffer.from(payload, 'base64url').toString())
        return signature === expected && claims.sub === 'ada' && claims.exp > Date.now() / 1000
      })
      const { rows } = await readPlan(
        guarded({
          kind: 'jwt',
          key: 'j',
          algorithm: 'HS256',
          secret: () => 'shared',
          passphrase: null,
          headers: () => ({ kid: 'one' }),
          payload: () => ({ sub: 'ada' }),
          lifetimeMs: 60_000,
          at: { into: 'header', path: ['Authorization'] },
          prefix: 'Bearer',
        }),
      )
      assert.equal(rows.length, 1)
    })

    it('a refresh token that is replaced is used from then on', async () => {
      const used: string[] = []
      api.on('POST /token', ({ body }) => {
        const token = new URLSearchParams(body).get('refresh_token')!
        used.push(token)
        return { body: { access: { value: `a-${used.length}` }, refresh_token: `r-${used.length}`, expires_in: 3600 } }
      })
      serve((authorization) => authorization === 'Bearer a-2')
      const { rows } = await readPlan(
        guarded({
          kind: 'oauth',
          key: 'o',
          tokenUrl: () => `${api.url}/token`,
          form: () => ({ grant_type: 'refresh_token', refresh_token: 'r-0' }),
          headers: () => ({}),
          send: 'form',
          refreshTokenField: 'refresh_token',
          accessTokenPath: ['access', 'value'],
          expiresInPath: ['expires_in'],
          refreshTokenPath: ['refresh_token'],
        }),
      )
      assert.equal(rows.length, 1)
      assert.deepEqual(used, ['r-0', 'r-1'])
    })
  })

  it('an export is created, awaited, downloaded and removed, and a resumed read goes on with the same one', async () => {
    const service = await startExport()
    const url = (path: string) => `${service.url}${path}`
    const idOf = (scope: { job: { created: Json } | null }) => (scope.job!.created as { id: string }).id
    const plan = planOf(
      read(
        {
          kind: 'job',
          create: get(url('/exports'), { method: 'POST', body: { kind: 'json', value: () => ({}) } }),
          poll: { ...get(''), url: (scope) => url(`/exports/${idOf(scope)}`) },
          status: ({ answer }) => (answer!.find(['status']) === 'done' ? 'completed' : 'running'),
          targets: ({ answer }) => answer!.find(['urls']) as Json[],
          targetRequest: null,
          download: pages({ ...get(''), url: ({ job }) => String(job!.target) }),
          abort: null,
          remove: { ...get('', { method: 'DELETE' }), url: (scope) => url(`/exports/${idOf(scope)}`) },
          timeoutMs: 10_000,
          attempts: 1,
          retryWaitMs: 0,
        },
        { records: records([], { decoder: { kind: 'csv', delimiter: ',', encoding: 'utf-8', nullValues: [''] } }) },
      ),
    )
    try {
      const { rows, cursors } = await readPlan(plan)
      assert.deepEqual(
        rows,
        service.orders.map((order) => ({ ...order, note: order.note === '' ? null : order.note })),
      )
      assert.deepEqual([service.created(), service.removed()], [1, 1])
      const resumed = await readPlan(plan, { resume: cursors[0]! })
      assert.deepEqual(resumed.rows, rows.slice(20))
      assert.equal(service.created(), 1)
    } finally {
      await service.close()
    }
  })

  it('properties are asked for in chunks, and their records merged', async () => {
    api.on('GET /objects', ({ params }) => {
      const names = params.get('properties')!.split(',')
      return { body: [1, 2].map((id) => ({ id, p: Object.fromEntries(names.map((name) => [name, `${name}${id}`])) })) }
    })
    const request = get(`${api.url}/objects`, { params: ({ properties }) => ({ properties: properties.join(',') }) })
    const { rows } = await readPlan(
      planOf(
        read(pages(request), {
          properties: {
            list: ['a', 'b', 'c'],
            always: ['k'],
            limit: { by: 'count', most: 2, separator: ',' },
            mergeBy: [['id']],
          },
        }),
      ),
    )
    assert.deepEqual(rows[1], { id: 2, p: { k: 'k2', a: 'a2', b: 'b2', c: 'c2' } })
    assert.deepEqual(
      api.requests.map(({ params }) => params.get('properties')),
      ['k,a,b', 'k,c'],
    )
  })

  it('pages that the API refuses beyond a number are divided by the cursor, each record once', async () => {
    const rows = Array.from({ length: 25 }, (_, at) => ({ n: Math.floor(at / 2), id: at }))
    api.on('GET /rows', ({ params }) => {
      const known = rows.filter(({ n }) => n >= Number(params.get('start')))
      const page = Number(params.get('page') ?? 0)
      return page > 2 ? { status: 400, body: { message: 'too deep' } } : { body: known.slice(page * 4, page * 4 + 4) }
    })
    const paginator = pageNumbers({
      start: 0,
      firstInjected: true,
      pageSize: () => 4,
      inject: [{ into: 'param', path: ['page'] }],
      size: null,
    })
    const plan = planOf(
      read(pages(get(`${api.url}/rows`), { paginator, reset: { how: 'split', afterRecords: 10 } }), {
        cursor: numberCursor({ narrow: (interval, from) => ({ ...interval, start: from }) }),
      }),
    )
    const { rows: found, cursors } = await readPlan(plan, { sync: incremental })
    assert.deepEqual(found, rows)
    for (const at of [0, 2, 3]) {
      const rest = await readPlan(plan, { sync: incremental, resume: cursors[at]! })
      assert.deepEqual(
        new Set([...found.slice(0, found.length - rest.rows.length), ...rest.rows]).size,
        rows.length,
        `after page ${at}`,
      )
      assert.ok(rest.rows.length < rows.length)
    }
  })

  describe('bodies', () => {
    const bodyRows = async (body: string | Buffer, decoder: Parameters<typeof records>[1] & object) => {
      api.on('GET /body', () => ({ body }))
      return (await readPlan(planOf(read(pages(get(`${api.url}/body`)), { records: records([], decoder) })))).rows
    }

    it('are JSON lines, XML, CSV, packed with gzip or zip', async () => {
      assert.deepEqual(await bodyRows('{"a":1}\n\n{"a":2}\n', { decoder: { kind: 'jsonl' } }), [{ a: 1 }, { a: 2 }])
      await assert.rejects(bodyRows('{"a":1}\n{"a":', { decoder: { kind: 'jsonl' } }), /not jsonl/)
      assert.deepEqual(
        await bodyRows(gzipSync('a;b\n1;"x;""y"""\n;2\n'), {
          decoder: { kind: 'gzip', of: { kind: 'csv', delimiter: ';', encoding: 'utf-8', nullValues: [''] } },
        }),
        [
          { a: '1', b: 'x;"y"' },
          { a: null, b: '2' },
        ],
      )
      assert.deepEqual(
        await bodyRows('<?xml version="1.0"?><r><i id="1">a &amp; b</i><i id="2"><![CDATA[<c>]]></i></r>', {
          decoder: { kind: 'xml' },
          extract: { path: ['r', 'i'] },
        }),
        [
          { '@id': '1', '#text': 'a & b' },
          { '@id': '2', '#text': '<c>' },
        ],
      )
      assert.deepEqual(
        await bodyRows(zip('{"a":[{"n":1}]}'), {
          decoder: { kind: 'zip', of: { kind: 'json' } },
          extract: { path: ['a'] },
        }),
        [{ n: 1 }],
      )
    })

    it('that grow when they are unpacked, or define entities, are refused', async () => {
      const bomb = gzipSync(Buffer.alloc(130 * 1024 * 1024), { level: 1, chunkSize: 1024 * 1024 })
      await assert.rejects(
        bodyRows(bomb, { decoder: { kind: 'gzip', of: { kind: 'json' } } }),
        /larger than 128 MiB after unpacking/,
      )
      await assert.rejects(
        bodyRows('<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', { decoder: { kind: 'xml' } }),
        /document type is not read/,
      )
      await assert.rejects(bodyRows('<a>'.repeat(10_000), { decoder: { kind: 'xml' } }), /nested deeper/)
      await assert.rejects(
        bodyRows(Buffer.from('PK not a zip'), { decoder: { kind: 'zip', of: { kind: 'json' } } }),
        /not a valid ZIP/,
      )
    })
  })

  it('a budget spaces requests, and a predicate over a 200 fails with its own message', async () => {
    api.on('GET /items', ({ params }) => ({ body: { items: [{ id: Number(params.get('page') ?? 0) }] } }))
    const paginator = tokens({
      value: ({ token }) => (Number(token ?? 0) < 5 ? Number(token ?? 0) + 1 : null),
      inject: [{ into: 'param', path: ['page'] }],
      size: null,
    })
    const budget = {
      policies: [{ weigh: () => 1, limit: { kind: 'moving_window', rates: [{ calls: 2, periodMs: 300 }] } as const }],
      remainingHeader: 'x-left',
      resetHeader: 'x-reset',
      statuses: [429],
    }
    const began = performance.now()
    const plan = read(pages(get(`${api.url}/items`), { paginator }), { records: records(['items']) })
    assert.equal((await readPlan(planOf(plan, { budget }))).rows.length, 6)
    assert.ok(performance.now() - began > 550, 'six requests, two in 300 ms')
    const errors = [
      {
        filters: [
          {
            when: ({ answer }: { answer: { find(path: string[]): unknown } | null }) =>
              answer!.find(['items']) !== undefined,
            action: 'fail',
            message: () => 'the account is closed',
            kind: 'config',
          } as const,
        ],
        backoff: [],
        maxRetries: 0,
        maxTimeMs: 0,
      },
    ]
    await assert.rejects(
      readPlan(planOf(read(pages(get(`${api.url}/items`, { errors }))))),
      /200: the account is closed/,
    )
  })

  it('a child whose first page is in its parent is asked for its further pages only', async () => {
    api.on('GET /parents', () => ({
      body: [
        { id: 7, list: { rows: [{ n: 1 }], next: 2 } },
        { id: 8, list: { rows: [{ n: 9 }], next: null } },
      ],
    }))
    api.on('GET /children', ({ params }) => ({ body: { rows: [{ n: Number(params.get('after')) }], next: null } }))
    const parent: StreamPlan = {
      name: 'parents',
      primaryKey: [],
      columns: null,
      choose: () => read(pages(get(`${api.url}/parents`))),
    }
    const paginator = tokens({
      value: ({ answer }) => answer!.find(['next']) ?? null,
      inject: [{ into: 'param', path: ['after'] }],
      size: null,
    })
    const { rows } = await readPlan(
      planOf(
        read(pages(get(`${api.url}/children`), { paginator }), {
          records: records(['rows'], { add: ({ partition }) => ({ parent: partition.id! }) }),
          partitions: {
            kind: 'parents',
            parents: [
              {
                stream: parent,
                partition: ({ id }) => ({ partition: { id: id! } }),
                inject: [],
                incremental: false,
                embedded: ({ list }) => list!,
              },
            ],
          },
        }),
      ),
    )
    assert.deepEqual(rows, [
      { n: 1, parent: 7 },
      { n: 2, parent: 7 },
      { n: 9, parent: 8 },
    ])
    assert.equal(api.requests.filter(({ path }) => path === '/children').length, 1)
  })
})

/** An archive with one file. */
function zip(text: string): Buffer {
  const packed = deflateRawSync(text)
  const name = Buffer.from('data.json')
  const local = Buffer.alloc(30)
  local.writeUInt32LE(0x04034b50, 0)
  local.writeUInt16LE(8, 8)
  local.writeUInt16LE(name.length, 26)
  const entry = Buffer.alloc(46)
  entry.writeUInt32LE(0x02014b50, 0)
  entry.writeUInt16LE(8, 10)
  entry.writeUInt32LE(packed.length, 20)
  entry.writeUInt16LE(name.length, 28)
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt32LE(local.length + name.length + packed.length, 16)
  return Buffer.concat([local, name, packed, entry, name, end])
}
