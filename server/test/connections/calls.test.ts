/** Interactive calls through the API: in separate processes, per organization. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readdirSync, readFileSync } from 'node:fs'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { after, test } from 'node:test'
import type { Person } from '../harness/app.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'

const app = await startEngine({ EGRESS_ALLOW: '127.0.0.1' })
const { person } = app

const source = (body: string) => `
from svc.source.base import AbstractSource
from svc.source.models import SourceRecord


class Sky(AbstractSource):
    def get_streams(self):
        return ["a"]

    def check_connection(self):
        return True

    def get_records(self, stream):
        ${body}
`

const preview = (body: string, as: Person = person) =>
  app.call('POST', '/api/custom-sources/preview', { as, body: { code: source(body), stream: 'a' } })

const check = (config: object, as: Person = person) =>
  app.call('POST', '/api/connectors/check', { as, body: { source: config } })

/** The executors of this process. */
const executors = (): string[] =>
  readdirSync('/proc').filter((name) => {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8').split(') ').at(-1)!.split(' ')
      const command = readFileSync(`/proc/${name}/cmdline`, 'utf8')
      return Number(stat[1]) === process.pid && stat[0] !== 'Z' && command.includes('executor.ts')
    } catch {
      return false
    }
  })

test('a hundred previews of one organization do not delay a check of another', async () => {
  const crowd = await registerPerson(app, 'Crowd')
  let previewed = 0
  const previews = Array.from({ length: 100 }, async () => {
    const answer = await preview('import time; time.sleep(0.1); yield {"n": 1}', crowd)
    if (answer.status === 200) previewed++
    return answer
  })
  const answer = await check({ name: 'dummy' })
  const before = previewed
  assert.deepEqual(answer.body, { success: true, message: 'The connection works' })
  const answers = await Promise.all(previews)
  const served = answers.filter(({ status }) => status === 200)
  assert.ok(before < served.length, 'the check waited for all of the crowd')
  assert.equal(served.length, 64)
  assert.ok(
    served.every(({ body }) => body.success),
    served.find(({ body }) => !body.success)?.text,
  )
  const refused = answers.filter(({ status }) => status !== 200)
  assert.ok(refused.every(({ status, headers }) => status === 429 && Number(headers['retry-after']) > 0))
})

test('a preview answers with every digit, and with what was yielded before it failed', async () => {
  const { text, body } = await preview('import decimal; yield {"n": decimal.Decimal("12345678901234567890.123456789")}')
  assert.match(text, /"n":12345678901234567890.123456789/)
  assert.deepEqual([body.success, body.total_count, body.partial_records, body.error], [true, 1, [], null])
  const failed = await preview('yield {"n": 1}; raise ValueError("no luck")')
  assert.deepEqual([failed.body.success, failed.body.records, failed.body.total_count], [false, [], 0])
  assert.equal(failed.body.partial_records[0].data.n, 1)
  assert.equal(failed.body.error, 'ValueError: no luck')
})

test('a check reads an output of the organization in a process that is not reused', async () => {
  const worker = await app.work()
  const run = await app.finished(await app.trigger(await app.createPipeline({})))
  await worker.stop(AbortSignal.abort())
  await check({ name: 'dummy' })
  const before = executors()
  const found = await check({ name: 'file', config: { run_id: run.id } })
  assert.deepEqual(found.body, { success: true, message: 'The connection works' })
  await check({ name: 'dummy' })
  assert.ok(
    before.some((pid) => !executors().includes(pid)),
    'it was given the way to all blobs, and serves on',
  )
  const other = await registerPerson(app, 'Other')
  const foreign = await check({ name: 'file', config: { run_id: run.id } }, other)
  assert.equal(foreign.body.success, false)
})

test('a key of one domain describes only outputs of its domain, inline or saved', async () => {
  const post = async (path: string, body: object, as: object = person) =>
    (await app.call('POST', path, { as, body })).body
  const { id: domain_id } = await post('/api/domains', { name: 'Here' })
  const config = { source: { name: 'dummy', stream: 'plants' }, destination: { name: 'file' } }
  const inside = await post('/api/pipelines', { name: 'inside', config, domain_id })
  const worker = await app.work()
  const [own, foreign] = await Promise.all(
    [inside.id, await app.createPipeline({})].map(async (id) => app.finished(await app.trigger(id))),
  )
  await worker.stop(AbortSignal.abort())
  const scopes = { permissions: ['pipelines:write', 'pipelines:read'], domain_id }
  const key = await post('/api/api-keys', { name: 'k', scopes })
  const saved = { connector_name: 'file', name: 's', config: { config: { run_id: foreign!.id } } }
  const { id: saved_connector_id } = await post('/api/saved/sources', saved)
  const plan = (source: object, as: object = key) => {
    const target = { name: 'postgres', config: { host: 'db.example', user: 'u' } }
    const sketch = { source, destination: target, sync: { write: 'upsert' } }
    return post('/api/pipelines/bulk', { dry_run: true, streams: ['rows'], config: sketch, domain_id }, as)
  }
  const [described] = (await plan({ name: 'file', config: { run_id: own!.id } })).problems
  assert.match(described, /primary_key: is required/, 'it was described and has no key')
  for (const source of [{ name: 'file', config: { run_id: foreign!.id } }, { saved_connector_id }]) {
    assert.match((await plan(source)).problems[0], /no readable output/)
    assert.match((await plan(source, person)).problems[0], /primary_key: is required/)
  }
})

test('a caller that disconnects ends the call', async () => {
  const sockets: Socket[] = []
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => {}))
  }).listen(0, '127.0.0.1')
  after(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const url = await app.app.listen({ host: '127.0.0.1', port: 0 })
  const gone = new AbortController()
  const config = { host: '127.0.0.1', port, user: 'u', tls: { mode: 'disable' } }
  const asked = fetch(`${url}/api/connectors/check`, {
    method: 'POST',
    headers: { authorization: `Bearer ${person.access_token}`, 'content-type': 'application/json' },
    body: JSON.stringify({ source: { name: 'postgres', config } }),
    signal: gone.signal,
  })
  await once(server, 'connection')
  const ended = once(sockets[0]!, 'close')
  sockets[0]!.resume()
  gone.abort()
  await assert.rejects(asked)
  await ended
})

test('a server that breaks the driver gives an error, and the next call finds a process', async () => {
  const answers = [
    // An unknown authentication type, an unterminated error, garbage bytes.
    Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 99]),
    Buffer.from([0x45, 0, 0, 0, 30, 0x53]),
    Buffer.from('HTTP/1.1 400 Bad Request\r\n\r\n'),
  ]
  for (const answer of answers) {
    const server = createServer((socket) => {
      socket.on('error', () => {}).once('data', () => socket.end(answer))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const config = { host: '127.0.0.1', port, user: 'u', password: 'the-password', tls: { mode: 'disable' } }
    const { status, body } = await check({ name: 'postgres', config })
    assert.deepEqual([status, body.success], [200, false])
    assert.ok(body.message.length > 0 && !body.message.includes('the-password'))
    server.close()
  }
  assert.equal((await check({ name: 'dummy' })).body.success, true)
})
