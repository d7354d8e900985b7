/** Servers that misbehave: a clear error in bounded time and memory, and nothing sent where it does not belong. */
import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { after, before, describe, it } from 'node:test'
import { type ApiServer, startApi } from '../harness/api-server.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'

describe('rest_api against a server that', () => {
  let bench: RunBench
  let api: ApiServer
  before(async () => {
    bench = await openRunBench()
    api = await startApi()
  })
  after(async () => {
    await api.close()
    await bench.close()
  })
  const run = (endpoint: object, client: object = {}) => {
    const config = {
      client: { base_url: api.url, ...client },
      resources: [{ name: 'rows', endpoint: { path: 'rows', ...endpoint } }],
    }
    return bench.run(bench.job({ source: { name: 'rest_api', stream: 'rows', config }, destination: { name: 'file' } }))
  }
  const linesOf = async (outcome: Awaited<ReturnType<typeof run>>) => (await bench.readOutput(outcome)).toString()

  it('names the same page as the next one for ever', async () => {
    api.on('GET /rows', () => ({ body: { data: [{ id: 1 }], next: `${api.url}/rows?cursor=a` } }))
    await assert.rejects(
      run({ paginator: 'json_link' }),
      /names a page as the next one that was read before .*pages would never end/,
    )
  })

  it('goes round in a circle of pages', async () => {
    api.on('GET /rows', ({ params }) => ({
      body: { data: [{ id: 1 }], cursor: String((Number(params.get('c') ?? 0) + 1) % 7) },
    }))
    const paginator = { type: 'cursor', cursor_path: 'cursor', cursor_param: 'c' }
    await assert.rejects(run({ paginator }), /was read before/)
    assert.ok(api.requests.length < 50)
  })

  it('answers without end', async () => {
    api.on('GET /rows', (_request, response) => void pour(response))
    await assert.rejects(run({ paginator: 'single_page' }), /is larger than the 67108864 bytes allowed/)
  })

  it('nests without end', async () => {
    api.on('GET /rows', () => ({ body: `[${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}]` }))
    await assert.rejects(
      run({ paginator: 'single_page', data_selector: '$' }),
      /not JSON .*nested deeper than 64 levels/,
    )
    await assert.rejects(run({}), /nested deeper than 64 levels/)
  })

  it('answers with HTML, half an object, or nothing', async () => {
    api.on('GET /rows', () => ({ headers: { 'content-type': 'text/html' }, body: '<html>please sign in</html>' }))
    await assert.rejects(run({}), /answered with a body that is not JSON \(text\/html\)/)
    api.on('GET /rows', () => ({ body: '[{"id":1},{"id":' }))
    await assert.rejects(run({}), /not JSON/)
    api.on('GET /rows', () => ({ status: 204, body: '' }))
    assert.equal(await linesOf(await run({})), '')
  })

  it('asks to wait for a day', async () => {
    api.on('GET /rows', () => ({ status: 429, headers: { 'retry-after': '86400' }, body: {} }))
    await assert.rejects(run({}), (error: Error & { kind?: string }) => {
      assert.equal(error.kind, 'rate_limited')
      assert.match(error.message, /asks to wait 24 h, longer than a run waits/)
      return true
    })
  })

  it('sends the next page to another server: no credentials go there', async () => {
    const other = await startApi()
    other.on('GET /rows', () => ({ body: { data: [{ id: 2 }] } }))
    api.on('GET /rows', () => ({ body: { data: [{ id: 1 }], next: `${other.url}/rows?page=2` } }))
    try {
      const headers = { 'X-Api-Key': 'key-secret', Accept: 'application/json' }
      const auth = { type: 'bearer', token: 'token-secret' }
      assert.equal(await linesOf(await run({ paginator: 'json_link' }, { headers, auth })), '{"id":1}\n{"id":2}\n')
      const [asked] = other.requests
      assert.doesNotMatch(JSON.stringify(asked!.headers), /secret/)
    } finally {
      await other.close()
    }
  })

  it('repeats the token in its error: the API says what is wrong, the run shows no more than that', async () => {
    api.on('GET /rows', () => ({ status: 400, body: { error: { message: `bad\u0000\nfield ${'x'.repeat(5000)}` } } }))
    await assert.rejects(run({}), (error: Error) => {
      assert.match(error.message, /answered 400: bad field x/)
      assert.ok(error.message.length < 500)
      return true
    })
  })

  it('writes records over several lines, or only values', async () => {
    api.on('GET /rows', () => ({
      body: '{\n "data": [\n  {\n   "id": 1,\n   "text": "a\\nb  c"\n  },\n  {"id": 12345678901234567890}\n ]\n}',
    }))
    assert.equal(await linesOf(await run({})), '{"id":1,"text":"a\\nb  c"}\n{"id": 12345678901234567890}\n')
    api.on('GET /rows', () => ({ body: '["a", null, 1.50]' }))
    assert.equal(await linesOf(await run({})), '{"value":"a"}\n{"value":1.50}\n')
  })

  it('returns an error page beyond the last page: what was requested ahead is not missed', async () => {
    api.on('GET /rows', ({ params }) => {
      const page = Number(params.get('page'))
      return page > 9 ? { status: 400, body: 'no such page' } : { body: { data: [{ id: page }], total: 10 } }
    })
    const lines = await linesOf(await run({ paginator: { type: 'page_number' }, data_selector: 'data' }))
    assert.equal(lines.split('\n').length - 1, 10)
  })
})

/** Bytes for as long as somebody reads. */
function pour(response: ServerResponse): undefined {
  response.writeHead(200, { 'content-type': 'application/json' })
  response.write('[{"id":1}')
  const chunk = Buffer.from(`,{"id":"${'x'.repeat(1024 * 1024)}"}`)
  const more = (): void => {
    while (!response.destroyed && response.write(chunk));
  }
  response.on('drain', more).on('error', () => {})
  more()
}
