/** Manifests whose public relatives were read wrongly once, against a local API. */
import assert from 'node:assert/strict'
import { after, afterEach, before, describe, it } from 'node:test'
import { bindManifest, loadManifest } from '../../../src/connectors/manifest/manifest.ts'
import type { Json } from '../../../src/json/json.ts'
import { type ApiServer, startApi } from '../../harness/api-server.ts'
import { type ReadOptions, readPlan } from '../../harness/http-plans.ts'

const incremental = { mode: 'incremental', write: 'append' } as const
const parameter = (field_name: string) => ({ type: 'RequestOption', inject_into: 'request_parameter', field_name })
const selector = { extractor: { type: 'DpathExtractor', field_path: [] } }
const cursor = {
  type: 'DatetimeBasedCursor',
  cursor_field: 'day',
  datetime_format: '%Y-%m-%d',
  start_datetime: '2024-01-01',
  end_datetime: '2024-03-31',
}

describe('a manifest', () => {
  let api: ApiServer
  before(async () => {
    api = await startApi()
  })
  afterEach(() => {
    api.requests.length = 0
  })
  after(() => api.close())

  const requester = (path: string, more: object = {}) => ({
    type: 'HttpRequester',
    url_base: api.url,
    path,
    ...more,
  })
  async function readStream(stream: object, options: ReadOptions = {}) {
    const manifest = loadManifest(JSON.stringify({ version: '6.0.0', streams: [{ name: 'rows', ...stream }] }))
    const { plan, refused } = await bindManifest(manifest, {}, async () => [])
    assert.deepEqual([...refused], [])
    return readPlan(plan, options)
  }
  const lastCursor = ({ cursors }: { cursors: Json[] }): Json => cursors.at(-1) ?? null

  it('requests a parent once, however many other partitions it is combined with', async () => {
    api.on('GET /shops', () => ({ body: [{ id: 'a' }, { id: 'b' }] }))
    api.on('GET /sales', ({ params }) => ({ body: [Object.fromEntries(params)] }))
    const shops = { name: 'shops', retriever: { requester: requester('shops'), record_selector: selector } }
    const { rows } = await readStream({
      retriever: {
        requester: requester('sales'),
        record_selector: selector,
        partition_router: [
          { type: 'ListPartitionRouter', cursor_field: 'year', values: [1, 2, 3], request_option: parameter('year') },
          {
            type: 'SubstreamPartitionRouter',
            parent_stream_configs: [
              { stream: shops, parent_key: 'id', partition_field: 'shop', request_option: parameter('shop') },
            ],
          },
        ],
      },
    })
    assert.deepEqual(
      rows.map(({ year, shop }) => `${year}${shop}`),
      ['1a', '1b', '2a', '2b', '3a', '3b'],
    )
    assert.equal(api.requests.filter(({ path }) => path === '/shops').length, 1)
  })

  it('finds the last value in stream_state under the name of its field', async () => {
    api.on('GET /since/:day', ({ route }) => ({ body: [{ day: route.day === 'start' ? '2024-02-01' : '2024-02-09' }] }))
    const stream = {
      retriever: {
        requester: requester("since/{{ stream_state['day'] if stream_state else 'start' }}"),
        record_selector: selector,
      },
      incremental_sync: cursor,
    }
    const first = await readStream(stream, { sync: incremental })
    await readStream(stream, { sync: incremental, state: lastCursor(first) })
    assert.deepEqual(
      api.requests.map(({ path }) => path),
      ['/since/start', '/since/2024-02-01'],
    )
  })

  it('has the parsed header as link, and its text as Link', async () => {
    api.on('GET /pages', ({ params }) => {
      const page = Number(params.get('page') ?? 1)
      const headers = page < 3 ? { Link: `<${api.url}/pages?page=${page + 1}>; rel="next"` } : undefined
      return { body: [{ page }], ...(headers && { headers }) }
    })
    const strategies = [
      { cursor_value: "{{ headers['link']['next']['url'] }}", stop_condition: "{{ 'next' not in headers['link'] }}" },
      {
        cursor_value: '{{ headers.get("Link", "").split(";")[0][1:-1] }}',
        stop_condition: '{{ \'rel="next"\' not in headers.get("Link", "") }}',
      },
      { cursor_value: "{{ headers['Link'].split('>')[0][1:] if 'Link' in headers }}" },
      { cursor_value: "{{ headers.get('Link', {}).get('next', {}).get('url') }}" },
    ]
    for (const strategy of strategies) {
      const { rows } = await readStream({
        retriever: {
          requester: requester('pages'),
          record_selector: selector,
          paginator: {
            type: 'DefaultPaginator',
            page_token_option: { type: 'RequestPath' },
            pagination_strategy: { type: 'CursorPagination', ...strategy },
          },
        },
      })
      assert.deepEqual(rows, [{ page: 1 }, { page: 2 }, { page: 3 }], strategy.cursor_value)
    }
  })

  it('ends with an error if the API ignores which page it is asked for', async () => {
    api.on('GET /ignores', () => ({ body: [{ id: 1 }, { id: 2 }] }))
    const reading = readStream({
      retriever: {
        requester: requester('ignores'),
        record_selector: selector,
        paginator: {
          type: 'DefaultPaginator',
          // A GET request has no body.
          page_token_option: { type: 'RequestOption', inject_into: 'body_json', field_name: 'page' },
          pagination_strategy: { type: 'PageIncrement', page_size: 2 },
        },
      },
    })
    await assert.rejects(reading, /4 pages in a row with the same 2 records/)
    assert.ok(api.requests.length < 20)
  })

  it('says where records should be if an answer has nothing there, and names the path of a 404', async () => {
    api.on('GET /elsewhere', () => ({ body: { items: [{ n: 1 }] } }))
    api.on('GET /page', () => ({ body: '<!DOCTYPE html><p>Log in', headers: { 'content-type': 'text/html' } }))
    const at = (path: string) =>
      readStream({
        retriever: {
          requester: requester(path),
          record_selector: { extractor: { type: 'DpathExtractor', field_path: ['data', 'rows'] } },
        },
      })
    const { rows, log } = await at('elsewhere')
    assert.deepEqual(
      [rows, log],
      [[], ["No records: the answers have nothing at 'data.rows', where the records should be."]],
    )
    await assert.rejects(at('missing'), /^ConnectorError: 127\.0\.0\.1:\d+\/missing answered 404/)
    await assert.rejects(at('page'), /not JSON \(text\/html\), but a page for people; check the address/)
  })

  it('adds null where a record lacks what the added field is made of', async () => {
    api.on('GET /people', () => ({ body: [{ home: { country: { id: 'NL' } } }, { home: null }, {}] }))
    const { rows } = await readStream({
      retriever: { requester: requester('people'), record_selector: selector },
      transformations: [
        { type: 'AddFields', fields: [{ path: ['country'], value: "{{ record['home']['country']['id'] }}" }] },
      ],
    })
    assert.deepEqual(
      rows.map(({ country }) => country),
      ['NL', null, null],
    )
  })

  it('has no next page where an answer lacks the value of the next one', async () => {
    api.on('GET /lacks', ({ params }) => ({
      body: params.has('after') ? { items: [{ n: 2 }] } : { items: [{ n: 1 }], page: { after: 'x' } },
    }))
    const { rows } = await readStream({
      retriever: {
        requester: requester('lacks'),
        record_selector: { extractor: { type: 'DpathExtractor', field_path: ['items'] } },
        paginator: {
          type: 'DefaultPaginator',
          page_token_option: parameter('after'),
          pagination_strategy: { type: 'CursorPagination', cursor_value: '{{ response.page.after }}' },
        },
      },
    })
    assert.deepEqual(rows, [{ n: 1 }, { n: 2 }])
  })

  it('reads what is new below a parent that has not changed since the last run but is the latest one', async () => {
    const items = [{ sku: 'a', day: '2024-02-02' }]
    api.on('GET /orders', ({ params }) => ({
      body: [{ id: 7, day: '2024-02-01' }].filter(({ day }) => day >= params.get('from')!),
    }))
    api.on('GET /orders/7/items', () => ({ body: items }))
    const synced = { ...cursor, start_time_option: parameter('from') }
    const orders = {
      name: 'orders',
      retriever: { requester: requester('orders'), record_selector: selector },
      incremental_sync: synced,
    }
    const stream = {
      retriever: {
        requester: requester('orders/{{ stream_partition.order }}/items'),
        record_selector: selector,
        partition_router: {
          type: 'SubstreamPartitionRouter',
          parent_stream_configs: [
            { stream: orders, parent_key: 'id', partition_field: 'order', incremental_dependency: true },
          ],
        },
      },
      incremental_sync: synced,
    }
    const first = await readStream(stream, { sync: incremental })
    items.push({ sku: 'b', day: '2024-02-03' })
    const later = await readStream(stream, { sync: incremental, state: lastCursor(first) })
    assert.deepEqual(
      [...first.rows, ...later.rows].map(({ sku }) => sku),
      ['a', 'b'],
    )
  })

  it('drops the fraction of seconds, as Python does', async () => {
    api.on('GET /seconds', () => ({ body: [{ at: 1704067200.75 }, { at: 1704067300 }] }))
    const stream = {
      retriever: { requester: requester('seconds'), record_selector: selector },
      incremental_sync: {
        type: 'DatetimeBasedCursor',
        cursor_field: 'at',
        datetime_format: '%s',
        start_datetime: '1704067000',
      },
    }
    assert.equal((lastCursor(await readStream(stream, { sync: incremental })) as { cursor: Json }).cursor, '1704067300')
  })

  it('reads a range once, not once per step, if no request depends on the step', async () => {
    api.on('GET /all', () => ({ body: [{ day: '2024-01-05' }, { day: '2024-02-05' }] }))
    const { rows } = await readStream({
      retriever: { requester: requester('all'), record_selector: selector },
      incremental_sync: { ...cursor, step: 'P1M', cursor_granularity: 'P1D' },
    })
    assert.equal(rows.length, 2)
    assert.equal(api.requests.length, 1)
  })

  it('leaves out what the last run has read on the day at which the next one begins, whatever was added to it', async () => {
    const days = [{ day: '2024-01-05' }, { day: '2024-02-05' }, { day: '2024-02-05', n: 2 }]
    api.on('GET /steps', ({ params }) => ({
      body: days.filter(({ day }) => day >= params.get('from')! && day <= params.get('to')!),
    }))
    const stream = {
      retriever: { requester: requester('steps'), record_selector: selector },
      incremental_sync: {
        ...cursor,
        step: 'P1M',
        cursor_granularity: 'P1D',
        start_time_option: parameter('from'),
        end_time_option: parameter('to'),
      },
      transformations: [{ type: 'AddFields', fields: [{ path: ['read_at'], value: '{{ now_utc() }}' }] }],
    }
    const first = await readStream(stream, { sync: incremental })
    assert.equal(first.rows.length, 3)
    days.push({ day: '2024-02-05', n: 3 }, { day: '2024-03-01' })
    const later = await readStream(stream, { sync: incremental, state: lastCursor(first) })
    assert.deepEqual(
      later.rows.map(({ day, n }) => [day, n]),
      [
        ['2024-02-05', 3],
        ['2024-03-01', undefined],
      ],
    )
  })
})
