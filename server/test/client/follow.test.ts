/** A run is followed through an outage of its service, and replay asks for what it should. */
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { makeClient, startOther } from '../harness/client.ts'

const ID = '5c1b0be7-ad02-4cf8-8eb7-5fb518958696'
const run = {
  id: ID,
  pipeline_id: ID,
  status: 'running',
  created_at: '2026-01-01T00:00:00Z',
  started_at: '2026-01-01T00:00:00Z',
  finished_at: null as string | null,
  error: null,
  records_read: 1,
  records_written: 1,
  bytes_written: 10,
}
const over = { ...run, status: 'success', finished_at: '2026-01-01T00:00:03Z' }

test('a service that restarts while its run is followed is waited for', async () => {
  let asked = 0
  const other = await startOther((request, response) => {
    const send = (value: unknown) => response.end(JSON.stringify(value))
    if (request.url === `/api/pipelines/${ID}`) return send({ id: ID, name: 'Orders' })
    if (request.method === 'POST') return send({ id: ID, status: 'pending' })
    asked++
    if (asked === 2) return response.destroy()
    if (asked === 3) return response.writeHead(503).end('{"detail":"The service is starting"}')
    return send(asked < 5 ? run : over)
  })
  const client = makeClient({ SLUICE_URL: other.url, SLUICE_API_KEY: 'k' })
  const { code, stdout } = await client.run(['run', ID, '--follow'])
  other.close()
  assert.equal(code, 0, stdout)
  assert.match(
    stdout,
    /^Orders: run \S+ running.*\nOrders: the service does not answer, waiting.*\nOrders: running.*\nOrders: success, 1 record, 10 B in 3 s \(run /,
  )
})

test('a log continues after the last line that was shown when the connection breaks', async () => {
  const resumed: unknown[] = []
  const other = await startOther((request, response) => {
    if (!request.url!.endsWith('/logs/stream')) return response.end(JSON.stringify(run))
    resumed.push(request.headers['last-event-id'])
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    if (resumed.length === 1)
      return response.write('id: 7\nevent: line\ndata: one\n\nid: 8\nevent: line\ndata: tw', () => response.destroy())
    return response.end('id: 8\nevent: line\ndata: two\n\nevent: end\ndata: {"status":"success"}\n\n')
  })
  const client = makeClient({ SLUICE_URL: other.url, SLUICE_API_KEY: 'k' })
  const { code, stdout } = await client.run(['logs', ID, '-f'])
  other.close()
  assert.deepEqual([code, stdout, resumed], [0, 'one\ntwo\n', [undefined, '7']])
})

test('replay names the run, and another destination only if one is given', async () => {
  const sent: unknown[] = []
  const other = await startOther((request, response) => {
    if (request.method === 'GET') return response.end(JSON.stringify(over))
    let body = ''
    request.on('data', (chunk) => {
      body += chunk
    })
    request.on('end', () => {
      sent.push([request.url, JSON.parse(body)])
      response.writeHead(201).end(JSON.stringify({ id: ID, status: 'pending', triggered_by: 'replay' }))
    })
    return request
  })
  const client = makeClient({ SLUICE_URL: other.url, SLUICE_API_KEY: 'k' })
  const destination = { name: 'file', config: {} }
  writeFileSync(path.join(client.folder, 'other.json'), JSON.stringify(destination))
  assert.equal((await client.run(['replay', ID])).code, 0)
  const followed = await client.run(['replay', ID, '--destination', 'other.json', '--follow'])
  other.close()
  assert.equal(followed.code, 0, followed.stderr)
  const place = `/api/pipelines/runs/${ID}/replay`
  assert.deepEqual(sent, [
    [place, {}],
    [place, { destination }],
  ])
})
