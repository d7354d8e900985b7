/** One stream tells a browser about every run that its user may see. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type ClientRequest, get, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { type Person, registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
await engine.work()
const { call, person, services } = engine
await engine.app.listen({ port: 0, host: '127.0.0.1' })
const { port } = engine.app.server.address() as AddressInfo
const open = new Set<ClientRequest>()
after(() => {
  for (const request of open) request.destroy()
})

interface Event {
  event: string
  data: Record<string, unknown>
}

class Stream {
  readonly events: Event[] = []
  readonly #response: IncomingMessage
  #rest = ''
  ended = false

  constructor(response: IncomingMessage) {
    this.#response = response
    response.setEncoding('utf8').on('data', (text: string) => {
      const blocks = (this.#rest + text).split('\n\n')
      this.#rest = blocks.pop()!
      for (const block of blocks) {
        const [, event, data] = /^event: (\w+)\ndata: (.*)$/s.exec(block)!
        this.events.push({ event: event!, data: JSON.parse(data!) })
      }
      response.emit('events')
    })
    response.once('close', () => {
      this.ended = true
      response.emit('events')
    })
  }

  async until(what: (stream: Stream) => boolean): Promise<void> {
    const signal = AbortSignal.timeout(60_000)
    while (!what(this)) await once(this.#response, 'events', { signal })
  }
  statuses = (run: string) => this.events.filter(({ data }) => data.id === run).map(({ data }) => data.status)
}

async function follow(headers: Record<string, string>): Promise<Stream> {
  const request = get({ port, host: '127.0.0.1', path: '/api/runs/events', headers })
  open.add(request)
  request.on('error', () => {})
  const [response] = (await once(request, 'response')) as [IncomingMessage]
  assert.equal(response.statusCode, 200)
  assert.match(response.headers['content-type']!, /^text\/event-stream/)
  return new Stream(response)
}
const as = ({ access_token }: Person) => ({ authorization: `Bearer ${access_token}` })
const saw = (run: string, status: string) => (stream: Stream) => stream.statuses(run).includes(status)

test('a stream begins with the runs that have not ended, and tells of every run until its end', async () => {
  const slow = await engine.trigger(await engine.createPipeline({ dummy: { records: 100_000, delay_ms: 50 } }))
  await engine.until(slow, ({ status }) => status === 'running')
  const stream = await follow(as(person))
  await stream.until(saw(slow, 'running'))
  assert.equal(stream.events[0]!.event, 'heartbeat')
  const quick = await engine.trigger(await engine.createPipeline({ dummy: { records: 3 } }))
  await stream.until(saw(quick, 'success'))
  const last = stream.events.findLast(({ data }) => data.id === quick)!.data
  assert.deepEqual(
    [last.records_read, last.pipeline_name, last.triggered_by, typeof last.finished_at],
    [3, 'test', 'manual', 'string'],
  )
  await call('POST', `/api/pipelines/runs/${slow}/cancel`, { as: person })
  await stream.until(saw(slow, 'cancelled'))
})

test('a run that ended while the stream opened is told of', async () => {
  const late = await registerPerson(engine, 'Late')
  const run = await engine.trigger(await engine.createPipeline({ dummy: { records: 1 } }, late), late)
  await engine.finished(run)
  for (const stream of [await follow(as(late)), await follow(as(late))]) await stream.until(saw(run, 'success'))
})

test('nobody hears of the runs of another organization', async () => {
  const stranger = await registerPerson(engine, 'Stranger')
  const [ours, theirs] = [await follow(as(person)), await follow(as(stranger))]
  const run = await engine.trigger(await engine.createPipeline({ dummy: { records: 1 } }))
  const other = await engine.trigger(await engine.createPipeline({ dummy: { records: 1 } }, stranger), stranger)
  await ours.until(saw(run, 'success'))
  await theirs.until(saw(other, 'success'))
  assert.deepEqual([theirs.statuses(run), ours.statuses(other)], [[], []])
})

test('a key of one domain hears of that domain alone, and of nothing once it is revoked', async () => {
  const body = { name: 'Sales', color: '#112233' }
  const domain_id = (await call('POST', '/api/domains', { as: person, body })).body.id
  const made = await call('POST', '/api/api-keys', {
    as: person,
    body: { name: 'k', expires_in_days: null, scopes: { permissions: ['pipelines:read'], domain_id } },
  })
  assert.equal(made.status, 201, made.text)
  const stream = await follow({ 'x-api-key': made.body.key })
  const outside = await engine.trigger(await engine.createPipeline({ dummy: { records: 1 } }))
  const pipeline = await engine.createPipeline({ dummy: { records: 1 } })
  await call('PUT', `/api/pipelines/${pipeline}`, { as: person, body: { domain_id } })
  const inside = await engine.trigger(pipeline)
  await stream.until(saw(inside, 'success'))
  await engine.finished(outside)
  assert.deepEqual(stream.statuses(outside), [])
  await call('DELETE', `/api/api-keys/${made.body.id}`, { as: person })
  await engine.trigger(pipeline)
  await stream.until(({ ended }) => ended)
})

test('a run that goes with its pipeline is reported as deleted', async () => {
  const pipeline = await engine.createPipeline({ dummy: { records: 1 } })
  const run = await engine.trigger(pipeline)
  await engine.finished(run)
  // One that no worker takes.
  await services.db.execute(
    sql`UPDATE runs SET status = 'pending', finished_at = NULL, output_file = NULL, available_at = now() + interval '1 hour' WHERE id = ${run}`,
  )
  const stream = await follow(as(person))
  await stream.until(saw(run, 'pending'))
  await call('DELETE', `/api/pipelines/${pipeline}`, { as: person })
  await stream.until(({ events }) => events.some(({ event, data }) => event === 'deleted' && data.id === run))
})

test('streams are limited per person, and end when they were asked to', async () => {
  const crowd = await registerPerson(engine, 'Crowd')
  const streams = await Promise.all(Array.from({ length: 20 }, () => follow(as(crowd))))
  assert.equal((await call('GET', '/api/runs/events?seconds=1', { as: crowd })).status, 429)
  assert.equal(streams.length, 20)
  const timed = await call('GET', '/api/runs/events?seconds=1', { as: person })
  assert.equal(timed.status, 200)
  for (const seconds of ['0', '3601', 'x'])
    assert.equal((await call('GET', `/api/runs/events?seconds=${seconds}`, { as: person })).status, 400)
})
