import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { after, test } from 'node:test'
import pino from 'pino'
import { createTraces, readTraceParent, type Span } from '../../src/traces.ts'
import { startEngine } from '../harness/engine.ts'

interface OtlpSpan {
  traceId: string
  spanId: string
  parentSpanId?: string
  name: string
  kind: number
  startTimeUnixNano: string
  endTimeUnixNano: string
  status?: { code: number }
  attributes: { key: string; value: { stringValue?: string; intValue?: string } }[]
}

const received: OtlpSpan[] = []
const posts: { path: string | undefined; type: string | undefined; spans: number }[] = []
let answer = 200
const collector = createServer(async (request, response) => {
  const body = (await json(request)) as { resourceSpans: { scopeSpans: { spans: OtlpSpan[] }[] }[] }
  const spans = body.resourceSpans.flatMap((each) => each.scopeSpans.flatMap((scope) => scope.spans))
  posts.push({ path: request.url, type: request.headers['content-type'], spans: spans.length })
  if (answer === 200) received.push(...spans)
  response.writeHead(answer).end('{}')
}).listen(0, '127.0.0.1')
await once(collector, 'listening')
after(() => collector.close())
const endpoint = `http://127.0.0.1:${(collector.address() as AddressInfo).port}`

const attributesOf = (span: OtlpSpan) =>
  Object.fromEntries(span.attributes.map(({ key, value }) => [key, value.stringValue ?? Number(value.intValue)]))

const span = (more: Partial<Span> = {}): Span => ({
  name: 'one',
  kind: 'internal',
  started: 1_700_000_000_000.25,
  ended: 1_700_000_000_001,
  attributes: {},
  failed: false,
  ...more,
})

const lines: string[] = []
const log = pino({ level: 'warn' }, { write: (line: string) => void lines.push(line) })

test('requests and runs become spans, without what belongs to a tenant', async () => {
  const engine = await startEngine({ OTEL_EXPORTER_OTLP_ENDPOINT: `${endpoint}/` })
  await engine.work()
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  await engine.call('GET', '/api/pipelines?search=secret', { as: engine.person, headers: { traceparent } })
  const good = await engine.trigger(await engine.createPipeline({ dummy: { records: 3 } }))
  const bad = await engine.trigger(await engine.createPipeline({ dummy: { records: 3, fail_after: 1 } }))
  await engine.finished(good)
  await engine.finished(bad)
  await engine.services.traces!.close()

  const listed = received.find(({ name }) => name === 'GET /api/pipelines')!
  assert.equal(listed.traceId, '0af7651916cd43dd8448eb211c80319c')
  assert.equal(listed.parentSpanId, 'b7ad6b7169203331')
  assert.equal(listed.kind, 2)
  assert.match(listed.spanId, /^[0-9a-f]{16}$/)
  assert.ok(BigInt(listed.endTimeUnixNano) >= BigInt(listed.startTimeUnixNano))
  const { 'sluice.request_id': request, ...rest } = attributesOf(listed)
  assert.match(String(request), /^[0-9a-f-]{36}$/)
  assert.deepEqual(rest, {
    'http.request.method': 'GET',
    'http.route': '/api/pipelines',
    'http.response.status_code': 200,
  })

  const runs = received.filter(({ name }) => name === 'run')
  const ofRun = (id: string) => runs.find(({ traceId }) => traceId === id.replaceAll('-', ''))!
  assert.equal(attributesOf(ofRun(good))['sluice.end'], 'success')
  assert.equal(ofRun(good).status, undefined)
  assert.deepEqual(ofRun(bad).status, { code: 2 })
  const { 'sluice.pipeline_id': pipeline, ...failed } = attributesOf(ofRun(bad))
  assert.match(String(pipeline), /^[0-9a-f-]{36}$/)
  assert.deepEqual(failed, {
    'sluice.run_id': bad,
    'sluice.attempt': 1,
    'sluice.source': 'dummy',
    'sluice.destination': 'file',
    'sluice.end': 'failure',
    'error.type': 'source',
  })
  assert.doesNotMatch(JSON.stringify(received), /secret/)
  assert.ok(posts.every(({ path, type }) => path === '/v1/traces' && type === 'application/json'))
})

test('a batch is sent as soon as it is full, the rest at the end', async () => {
  posts.length = 0
  const traces = createTraces(endpoint, log)
  for (let index = 0; index < 600; index++) traces.add(span())
  await traces.close()
  assert.deepEqual(
    posts.map(({ spans }) => spans),
    [512, 88],
  )
  assert.equal(received.at(-1)!.startTimeUnixNano, '1700000000000250000')
})

test('a collector that fails or is away costs spans and a line of the log, nothing else', async () => {
  answer = 503
  const failing = createTraces(endpoint, log)
  for (let index = 0; index < 1000; index++) failing.add(span())
  await failing.close()
  answer = 200
  const away = createTraces('http://127.0.0.1:9', log)
  away.add(span())
  await away.close()
  assert.equal(lines.length, 2)
  assert.match(lines[0]!, /512 spans lost so far.*it answered 503/)
  assert.match(lines[1]!, /1 spans lost so far/)
})

test('what is no traceparent is ignored', () => {
  const zeros = '0'.repeat(32)
  for (const header of [undefined, '', 'x', ['a', 'b'], `00-${zeros}-b7ad6b7169203331-01`, `00-${'a'.repeat(32)}-00`])
    assert.deepEqual(readTraceParent(header), {})
})
