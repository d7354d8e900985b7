/** A service that is not ours, broken or malicious: nothing it sends reaches the terminal as a command. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import path from 'node:path'
import { test } from 'node:test'
import { makeClient, startOther } from '../harness/client.ts'

const ID = '5c1b0be7-ad02-4cf8-8eb7-5fb518958696'
const EVIL = 'a\x1b[2J\x1b]0;title\x07\x9b31mname\r\nsecond line\u202e'
const run = {
  id: ID,
  pipeline_id: ID,
  status: 'failed',
  triggered_by: EVIL,
  created_at: '2026-01-01T00:00:00Z',
  started_at: null,
  finished_at: EVIL,
  error: EVIL,
  attempt: 1,
  records_read: 0,
  records_written: 0,
  records_quarantined: 0,
  bytes_written: 0,
  output_file_size: null,
  pipeline_name: EVIL,
}
const pipeline = {
  id: ID,
  name: EVIL,
  source_name: EVIL,
  stream: EVIL,
  enabled: true,
  schedule: EVIL,
  domain_name: EVIL,
  destination_name: EVIL,
  last_run_status: EVIL,
  last_run_at: EVIL,
  next_run_at: EVIL,
}

const answers: Record<string, unknown> = {
  '/api/pipelines': [pipeline],
  '/api/runs': [run],
  [`/api/pipelines/runs/${ID}`]: run,
  [`/api/pipelines/runs/${ID}/logs`]: {
    logs: `${EVIL}\n2026-01-01T00:00:00Z WARN  ${EVIL}`,
    numbers: null,
    more: false,
  },
  '/api/auth/me': { name: EVIL, email: EVIL, role: EVIL, organization: { id: ID, name: EVIL }, permissions: [EVIL] },
  [`/api/pipelines/runs/${ID}/query`]: {
    columns: [{ name: EVIL, type: 'text' }],
    rows: [[EVIL], [{ a: EVIL }]],
    truncated: false,
  },
}

async function withServer<T>(
  listener: RequestListener,
  use: (client: ReturnType<typeof makeClient>, url: string) => Promise<T>,
): Promise<T> {
  const other = await startOther(listener)
  try {
    return await use(makeClient({ SLUICE_URL: other.url, SLUICE_API_KEY: 'svc_live_secret' }), other.url)
  } finally {
    other.close()
  }
}

const ESCAPES = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]/
const commands = [
  ['pipelines'],
  ['runs'],
  ['show', ID],
  ['logs', ID],
  ['whoami'],
  ['output', ID, '--sql', 'SELECT 1'],
  ['pipelines', '--json'],
  ['logs', ID, '--json'],
  ['output', ID, '--sql', 'SELECT 1', '--json'],
  ['run', 'nothing'],
  ['cancel', ID],
]

test('no escape sequence of a service is printed, on a pipe or on a terminal', async () => {
  const listener: RequestListener = (request, response) => {
    const known = answers[request.url!.split('?')[0]!]
    response.setHeader('content-type', 'application/json')
    response.writeHead(known === undefined ? 409 : 200, { 'x-request-id': 'r1' })
    response.end(JSON.stringify(known ?? { detail: EVIL }))
  }
  await withServer(listener, async (client) => {
    for (const args of commands) {
      const { stdout, stderr } = await client.run(args)
      assert.match(stdout + stderr, /name/, args.join(' '))
      assert.doesNotMatch(stdout + stderr, ESCAPES, args.join(' '))
    }
    const terminal = client.onTerminal(['pipelines'])
    const { stdout } = await terminal.ended
    const ours = stdout.replaceAll(/\x1b\[\d+m/g, '').replaceAll('\r\n', '\n')
    assert.doesNotMatch(ours, ESCAPES)
    assert.notEqual(ours, stdout, 'a terminal gets colours')
    const plain = await client.onTerminal(['pipelines'], { NO_COLOR: '1' }).ended
    assert.doesNotMatch(plain.stdout, /\x1b/)
    for (const line of plain.stdout.split('\r\n')) assert.ok(line.length <= 80, line)
  })
})

test('a redirect is refused: the key goes nowhere else, and is never printed', async () => {
  const seen: unknown[] = []
  const elsewhere = await startOther((request, response) => {
    seen.push(request.headers)
    response.end('[]')
  })
  await withServer(
    (_, response) => response.writeHead(302, { location: `${elsewhere.url}/x` }).end(),
    async (client) => {
      const { code, stderr, stdout } = await client.run(['pipelines'])
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(
        stderr,
        /redirects to http\S+\/x, and the key is not sent there \(status 302, without a request id\)\. If that is/,
      )
      assert.doesNotMatch(stderr, /svc_live_secret/)
    },
  )
  elsewhere.close()
  assert.deepEqual(seen, [])
})

test('what is no Sluice, or answers with nonsense, is one sentence', async () => {
  const cases: [RequestListener, RegExp][] = [
    [
      (_, response) => response.end('<html>'),
      /sent an unexpected answer \(status 200, .*Check that the address is that of a Sluice/,
    ],
    [
      (_, response) => response.writeHead(404).end('nginx'),
      /sent an unexpected answer \(status 404, .*Check that the address/,
    ],
    [
      (_, response) => response.writeHead(503, { 'x-request-id': 'r9' }).end('{"detail":"Starting"}'),
      /^Starting \(status 503, request r9\)\. Try again/,
    ],
    [
      (_, response) => response.writeHead(429, { 'retry-after': '7' }).end('{"detail":"Slow down."}'),
      /^Slow down \(status 429, .*Try again in 7 s\.$/,
    ],
    [(_, response) => response.destroy(), /cannot be reached: the connection was closed\. Check the address/],
  ]
  for (const [listener, expected] of cases)
    await withServer(listener, async (client) => {
      const { code, stdout, stderr } = await client.run(['pipelines'])
      assert.deepEqual([code, stdout], [1, ''])
      assert.match(stderr.trim(), expected)
      assert.equal(stderr.trim().split('\n').length, 1)
    })
})

test('a download that breaks off leaves neither half a file nor a changed one', async () => {
  const listener: RequestListener = (request, response) => {
    if (!request.url!.endsWith('/output')) return response.end(JSON.stringify(run))
    response.writeHead(200, { 'content-length': '1000' })
    response.write('x'.repeat(500), () => response.destroy())
    return response
  }
  await withServer(listener, async (client) => {
    const file = path.join(client.folder, 'out.jsonl')
    const first = await client.run(['output', ID, '-o', file])
    assert.equal(first.code, 1)
    assert.match(first.stderr, /^The download broke off: .*Nothing was kept; run the command again\.$/m)
    assert.ok(!existsSync(file))
    writeFileSync(file, 'kept')
    assert.equal((await client.run(['output', ID, '-o', file])).code, 1)
    assert.equal(readFileSync(file, 'utf8'), 'kept')
    assert.deepEqual(
      readdirSync(client.folder).filter((name) => name.endsWith('.part')),
      [],
    )
  })
})

test('the service names a file, never a folder, and no file is overwritten by its name', async () => {
  const listener: RequestListener = (request, response) => {
    if (!request.url!.endsWith('/output')) return response.end(JSON.stringify(run))
    return response.writeHead(200, { 'content-disposition': 'attachment; filename="../../.bashrc"' }).end('evil')
  }
  await withServer(listener, async (client) => {
    const first = await client.onTerminal(['output', ID]).ended
    assert.equal(first.code, 0, first.stdout)
    assert.equal(readFileSync(path.join(client.folder, 'bashrc'), 'utf8'), 'evil')
    const second = await client.onTerminal(['output', ID]).ended
    assert.equal(second.code, 2)
    assert.match(second.stdout, /bashrc exists and was left as it is/)
    const piped = await client.run(['output', ID])
    assert.deepEqual([piped.code, piped.stdout], [0, 'evil'])
  })
})

test('an output is written as it is, escape sequences and all', async () => {
  const bytes = Buffer.from('\x1b[31m\x00\xff', 'latin1')
  const listener: RequestListener = (request, response) =>
    response.end(request.url!.endsWith('/output') ? bytes : JSON.stringify(run))
  await withServer(listener, async (client) => {
    assert.equal((await client.run(['output', ID, '-o', 'raw'])).code, 0)
    assert.deepEqual(readFileSync(path.join(client.folder, 'raw')), bytes)
  })
})
