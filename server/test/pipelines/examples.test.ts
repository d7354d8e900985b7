/** Every example source, from validation to a finished pipeline, through HTTP and the real cell. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { startEngine } from '../harness/engine.ts'

const FOLDER = new URL('../../../python/examples/', import.meta.url)
const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8' })
await engine.work()
const { call, person } = engine

type Answer = (query: URLSearchParams, request: IncomingMessage, body: string) => unknown

const tickets = Array.from({ length: 5 }, (_, index) => ({ id: index + 1, subject: `Ticket ${index + 1}` }))
const albums = Array.from({ length: 120 }, (_, index) => ({
  id: `a${index}`,
  name: `Album ${index}`,
  uri: `album:${index}`,
}))
const posts = Array.from({ length: 7 }, (_, index) => ({ id: index + 1, title: `Post ${index + 1}` }))
const launches = Array.from({ length: 5 }, (_, index) => ({ id: `l${index}`, mission_name: `Mission ${index}` }))

/** The five public APIs, to the extent that the examples use them. */
const routes: Record<string, Answer> = {
  '/api/v2/users/me.json': () => ({ user: { id: 1 } }),
  '/api/v2/tickets.json': (query, request) => {
    assert.equal(request.headers.authorization, 'Bearer desk-token')
    const start = Number(query.get('page[after]') ?? 0)
    const rows = tickets.slice(start, start + Number(query.get('page[size]')))
    return {
      tickets: rows,
      meta: { has_more: start + rows.length < tickets.length, after_cursor: String(start + rows.length) },
    }
  },
  '/token': (_query, _request, body) => {
    assert.match(body, /grant_type=client_credentials/)
    return { access_token: 'fresh', token_type: 'bearer', expires_in: 3600 }
  },
  '/v1/browse/new-releases': (query, request) => {
    assert.equal(request.headers.authorization, 'Bearer fresh')
    const offset = Number(query.get('offset') ?? 0)
    return { albums: { items: albums.slice(offset, offset + Number(query.get('limit'))), total: albums.length } }
  },
  '/posts': (query) => {
    const size = Number(query.get('_limit'))
    return posts.slice((Number(query.get('_page')) - 1) * size, Number(query.get('_page')) * size)
  },
  '/posts/1': () => posts[0],
  '/fdsnws/event/1/version': () => '1.14',
  '/fdsnws/event/1/query': (query) => {
    const day = query.get('starttime')!
    const properties = { time: Date.parse(`${day}T00:00:00Z`), place: 'sea', mag: 5.1 }
    return { features: [{ id: `q${day}`, properties, geometry: { coordinates: [1.5, 2.5, 10] } }] }
  },
  '/graphql': (_query, request, body) => {
    assert.equal(request.headers['x-api-key'], 'space-token')
    const { query, variables } = JSON.parse(body)
    if (!query.includes('launches')) return { data: { __typename: 'Query' } }
    const start = Number(variables.after ?? 0)
    const nodes = launches.slice(start, start + variables.first)
    return {
      data: {
        launches: {
          nodes,
          pageInfo: { hasNextPage: start + nodes.length < launches.length, endCursor: String(start + nodes.length) },
        },
      },
    }
  },
}
for (const post of posts)
  routes[`/posts/${post.id}/comments`] = () => [0, 1].map((index) => ({ id: post.id * 10 + index, postId: post.id }))

const server = createServer(async (request, response) => {
  const url = new URL(request.url!, 'http://localhost')
  let body = ''
  for await (const piece of request) body += piece
  const route = routes[url.pathname]
  response.writeHead(route ? 200 : 404, { 'content-type': 'application/json' })
  response.end(JSON.stringify(route ? route(url.searchParams, request, body) : {}))
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
after(() => new Promise((resolve) => server.close(resolve)))
const base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

interface Example {
  stream: string
  config: Record<string, unknown>
  authentication?: { type: string; params: Record<string, string> }
  ids: string[]
}

const examples: Record<string, Example> = {
  greenhouse: { stream: 'plants', config: { plants: 2 }, ids: ['1', '2'] },
  helpdesk: {
    stream: 'tickets',
    config: { base_url: base, page_size: 2 },
    authentication: { type: 'bearer', params: { token: 'desk-token' } },
    ids: tickets.map(({ id }) => String(id)),
  },
  music_catalog: {
    stream: 'new_releases',
    config: { base_url: base },
    authentication: {
      type: 'oauth2_client_credentials',
      params: { token_url: `${base}/token`, client_id: 'id', client_secret: 'the client secret' },
    },
    ids: albums.map(({ id }) => id),
  },
  forum: {
    stream: 'comments',
    config: { base_url: base, page_size: 3 },
    ids: posts.flatMap(({ id }) => [String(id * 10), String(id * 10 + 1)]),
  },
  earthquakes: {
    stream: 'events',
    config: { base_url: base, start_date: '2024-01-01', end_date: '2024-01-04' },
    ids: ['q2024-01-01', 'q2024-01-02', 'q2024-01-03'],
  },
  spacecraft: {
    stream: 'launches',
    config: { url: `${base}/graphql`, page_size: 2 },
    authentication: { type: 'api_key', params: { token: 'space-token' } },
    ids: launches.map(({ id }) => id),
  },
}

async function outputIds(run: string): Promise<string[]> {
  const output = await call('GET', `/api/pipelines/runs/${run}/output`, { as: person })
  return output.text
    .split('\n')
    .filter(Boolean)
    .map((line) => JSON.parse(line)._record_id)
}

for (const file of readdirSync(FOLDER).filter((name) => name.endsWith('.py'))) {
  const name = file.replace('.py', '')
  test(`${name}: validate, save, preview, check and run`, async () => {
    const { stream, config, authentication = { type: 'none', params: {} }, ids } = examples[name]!
    const code = readFileSync(new URL(file, FOLDER), 'utf8')
    const valid = await call('POST', '/api/custom-sources/validate', { as: person, body: { code } })
    assert.deepEqual([valid.body.valid, valid.body.errors, valid.body.warnings], [true, [], []])
    assert.equal(valid.body.extracted_source_name, name)
    const saved = await call('POST', '/api/custom-sources', {
      as: person,
      body: { name, source_name: name, code, description: '' },
    })
    assert.equal(saved.status, 201, saved.text)

    const source = { name, stream, authentication, config }
    const preview = await call('POST', '/api/custom-sources/preview', {
      as: person,
      body: { source_id: saved.body.id, stream, authentication, config, max_records: 2 },
    })
    assert.deepEqual([preview.body.success, preview.body.error ?? null], [true, null])
    assert.deepEqual(
      preview.body.records.map((record: { id: string }) => record.id),
      ids.slice(0, 2),
    )

    const pipeline = await engine.createPipeline({
      source,
      sync: name === 'earthquakes' ? { mode: 'incremental', write: 'append' } : {},
    })
    const run = await engine.finished(await engine.trigger(pipeline))
    assert.equal(run.status, 'success', `${run.error}\n${await engine.logs(run.id)}`)
    assert.deepEqual(await outputIds(run.id), ids)
    if (name === 'earthquakes') await goesOn(pipeline, source)
  })
}

/** The next run starts with the state of the last one. */
async function goesOn(pipeline: string, source: { config: Record<string, unknown> }): Promise<void> {
  const state = await call('GET', `/api/pipelines/${pipeline}/state`, { as: person })
  assert.deepEqual(state.body.cursor, { next_day: '2024-01-04' })
  const config = {
    name: 'on',
    source: { ...source, config: { ...source.config, end_date: '2024-01-06' } },
    destination: { name: 'file' },
    sync: { mode: 'incremental', write: 'append' },
  }
  const put = await call('PUT', `/api/pipelines/${pipeline}`, { as: person, body: { config } })
  assert.equal(put.status, 200, put.text)
  assert.match(put.body.notice, /^The settings of the source changed, and the next run continues from the cursor/)
  const run = await engine.finished(await engine.trigger(pipeline))
  assert.deepEqual(await outputIds(run.id), ['q2024-01-04', 'q2024-01-05'])
  assert.match(await engine.logs(run.id), /The settings of the source changed since the last run/)
}
