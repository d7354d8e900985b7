/** Receivers that refuse, delay, redirect and never end, and what they find in a request. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import type { ServerResponse } from 'node:http'
import { after, afterEach, before, describe, it } from 'node:test'
import { ConnectorError, type Sync } from '../../src/connectors/contract.ts'
import { pauseBefore } from '../../src/connectors/webhook/send-batch.ts'
import type { Job } from '../../src/engine/execute.ts'
import { plainRows } from '../harness/conformance.ts'
import { lineSource } from '../harness/line-source.ts'
import { type RecordReceiver, startRecordReceiver } from '../harness/record-receiver.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'

const TOKEN = 'token-of-the-receiver'
const SECRET = 'secret-of-the-receiver'

describe('the webhook destination', () => {
  let bench: RunBench
  let receiver: RecordReceiver
  before(async () => {
    bench = await openRunBench()
    receiver = await startRecordReceiver({ token: TOKEN, secret: SECRET })
  })
  afterEach(() => {
    receiver.intercept = null
    receiver.requests.length = 0
  })
  after(async () => {
    await receiver?.close()
    await bench?.close()
  })

  let made = 0
  const load = (rows: readonly string[], config: object = {}, sync: Partial<Sync> = {}): Job =>
    bench.job({
      source: lineSource(rows),
      destination: {
        name: 'webhook',
        config: {
          url: `${receiver.url}/t${++made}`,
          headers: { authorization: `Bearer ${TOKEN}` },
          secret: SECRET,
          ...config,
        },
      },
      sync: { write: 'append', ...sync },
    })
  const failure = async (job: Job): Promise<ConnectorError> => {
    const error = await bench.run(job).then(
      () => null,
      (reason: unknown) => reason,
    )
    assert.ok(error instanceof ConnectorError, String(error))
    return error
  }
  const pathOf = (job: Job): string => new URL(String(job.destination.config.url)).pathname

  it('divides records by number and by size, as an object or as lines', async () => {
    const job = load(plainRows(25), { batch_records: 10 })
    await bench.run(job)
    const bodies = receiver.requests.map(({ body }) => JSON.parse(body.toString()))
    assert.deepEqual(
      bodies.map(({ records }) => records.length),
      [10, 10, 5],
    )
    assert.equal(bodies[0].batch, receiver.requests[0]!.headers['idempotency-key'])
    assert.deepEqual([bodies[0].run_id, bodies[0].stream], [job.run_id, 'rows'])
    receiver.requests.length = 0
    const big = [`{"id":1,"t":"${'x'.repeat(2000)}"}`, '{"id":2}', '{"id":3}']
    const lines = load(big, { batch_bytes: 1024, format: 'ndjson', method: 'PUT' })
    await bench.run(lines)
    assert.deepEqual(
      receiver.requests.map(({ body, method }) => [method, body.toString()]),
      [
        ['PUT', `${big[0]}\n`],
        ['PUT', '{"id":2}\n{"id":3}\n'],
      ],
    )
  })

  it('sends the same bytes under the same key until the receiver is ready', async () => {
    let left = 2
    receiver.intercept = (_, response) => {
      if (left-- <= 0) return false
      response.writeHead(left === 0 ? 429 : 503, { 'retry-after': '0' }).end()
      return true
    }
    const job = load(plainRows(3))
    await bench.run(job)
    assert.equal(receiver.records(pathOf(job)).length, 3)
    assert.deepEqual(
      receiver.requests.map(({ headers }) => headers['x-sluice-attempt']),
      ['1', '2', '3'],
    )
    assert.equal(new Set(receiver.requests.map(({ headers }) => headers['idempotency-key'])).size, 1)
    assert.equal(new Set(receiver.requests.map(({ body }) => body.toString())).size, 1)
  })

  it('gives up after max_attempts, in a way that a later attempt may mend, and quarantines nothing', async () => {
    receiver.intercept = (_, response) => {
      response.writeHead(503, { 'retry-after': '0' }).end()
      return true
    }
    const error = await failure(load(plainRows(3), { max_attempts: 2 }, { on_error: 'quarantine', max_error_share: 1 }))
    assert.match(error.message, /answered 503/)
    assert.equal(error.transient, true)
    assert.equal(receiver.requests.length, 2)
  })

  it('waits at most five minutes, whatever the receiver asks for', () => {
    assert.equal(pauseBefore(1, { headers: { 'retry-after': '31536000' } }), 300_000)
    assert.equal(pauseBefore(1, { headers: { 'retry-after': new Date(Date.now() + 1e12).toUTCString() } }), 300_000)
    assert.equal(pauseBefore(1, { headers: { 'retry-after': 'soon' } }), 1000)
    assert.equal(pauseBefore(30, { headers: {} }), 60_000)
  })

  it('does not follow a redirect, so headers never reach another address', async () => {
    receiver.intercept = ({ path }, response) => {
      if (path === '/elsewhere') return false
      response.writeHead(307, { location: `${receiver.url}/elsewhere` }).end()
      return true
    }
    const error = await failure(load(plainRows(1), {}, { on_error: 'quarantine', max_error_share: 1 }))
    assert.deepEqual([error.kind, error.transient], ['config', false])
    assert.match(error.message, /redirects are not followed/)
    assert.deepEqual(
      receiver.requests.filter(({ path }) => path === '/elsewhere'),
      [],
    )
  })

  it('reads little of an endless answer, whatever its status', async () => {
    const endless = (status: number) => (_: unknown, response: ServerResponse) => {
      response.writeHead(status)
      const write = (): void => {
        while (!response.destroyed && response.write('x'.repeat(65_536)));
      }
      response.on('drain', write)
      write()
      return true
    }
    receiver.intercept = endless(200)
    await bench.run(load(plainRows(2)))
    receiver.intercept = endless(422)
    const job = load(plainRows(2), {}, { on_error: 'quarantine', max_error_share: 1 })
    const { quarantine } = await bench.run(job)
    const [line] = (await bench.readParts(quarantine!)).toString().split('\n')
    assert.match(line!, /"reason":"The receiver answered 422: x{200}"/)
  })

  it('does not wait longer than timeout_seconds for an answer', async () => {
    receiver.intercept = () => true
    const error = await failure(load(plainRows(1), { timeout_seconds: 1, max_attempts: 1 }))
    assert.deepEqual([error.kind, error.transient], ['destination', true])
  })

  it('keeps its secrets out of reasons, even if the receiver repeats them', async () => {
    receiver.intercept = ({ headers }, response) => {
      response.writeHead(400).end(`bad: ${headers.authorization} ${SECRET}`)
      return true
    }
    const job = load(plainRows(2), { batch_records: 1 }, { on_error: 'quarantine', max_error_share: 1 })
    const { quarantine, records_written } = await bench.run(job)
    assert.equal(records_written, 0)
    const text = (await bench.readParts(quarantine!)).toString()
    assert.equal(text.split('\n').length, 3)
    assert.match(text, /The receiver answered 400: bad: /)
    assert.ok(!text.includes(TOKEN) && !text.includes(SECRET), text)
  })

  it('is verified by the code on its page', async () => {
    const page = readFileSync(new URL('../../../docs/connectors/webhook.md', import.meta.url), 'utf8')
    const code = /```js\n([\s\S]*?)```/.exec(page)![1]!
    const { isGenuine } = await import(`data:text/javascript,${encodeURIComponent(code)}`)
    await bench.run(load(plainRows(2)))
    const { headers, body } = receiver.requests[0]!
    assert.equal(isGenuine(SECRET, headers, body), true)
    assert.equal(isGenuine(SECRET, headers, Buffer.concat([body, Buffer.from(' ')])), false)
    assert.equal(isGenuine('another secret', headers, body), false)
    assert.equal(isGenuine(SECRET, { ...headers, 'x-sluice-timestamp': '1000' }, body), false)
    assert.equal(isGenuine(SECRET, {}, body), false)
  })
})
