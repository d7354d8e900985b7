/** What a store refuses, and what one does that is broken or hostile: each ends with a sentence that says what to do. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, beforeEach, describe, it } from 'node:test'
import { ConnectorError } from '../../src/connectors/contract.ts'
import { compileGlob } from '../../src/connectors/formats/glob.ts'
import { s3Destination } from '../../src/connectors/s3/destination/destination.ts'
import { s3Source } from '../../src/connectors/s3/source/source.ts'
import { createEgress } from '../../src/egress/policy.ts'
import { readBlocks, readTag } from '../../src/s3/xml.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'
import { type S3Server, startS3Server } from '../harness/s3-server.ts'
import { sourceContext } from '../harness/source-context.ts'

let bench: RunBench
let server: S3Server
before(async () => {
  bench = await openRunBench()
  bench.use(s3Source as never)
  server = await startS3Server()
})
after(async () => {
  await server.close()
  await bench.close()
})
beforeEach(() => {
  server.objects.clear()
  server.objects.set('in/a.jsonl', { body: Buffer.from('{"id":1}\n'), modified: new Date() })
  server.intercept = null
})

function configOf(more: Record<string, unknown> = {}): Record<string, unknown> {
  const { bucket, endpoint, region, accessKeyId, secretAccessKey } = server
  return { bucket, endpoint, region, access_key_id: accessKeyId, secret_access_key: secretAccessKey, ...more }
}

const contextOf = (more: Record<string, unknown>, stream: string | null) => ({
  ...sourceContext(bench, s3Source as never, { config: configOf(more) }),
  stream,
})
const check = (more: Record<string, unknown> = {}, stream: string | null = 'in') =>
  s3Source.check(contextOf(more, stream) as never)
const checkTarget = (more: Record<string, unknown> = {}) => s3Destination.check(contextOf(more, 'rows') as never)

function fails(acting: Promise<unknown>, kind: string, message: RegExp, transient = false): Promise<void> {
  return assert.rejects(acting, (error: unknown) => {
    assert.ok(error instanceof ConnectorError, String(error))
    assert.match(error.message, message)
    assert.equal(error.kind, kind, error.message)
    assert.equal(error.transient, transient, error.message)
    return true
  })
}

const answerWith =
  (status: number, body: string, headers: Record<string, string> = {}) =>
  (_: IncomingMessage, response: ServerResponse): boolean => {
    response.writeHead(status, headers).end(body)
    return true
  }
const errorBody = (code: string, more = ''): string =>
  `<Error><Code>${code}</Code><Message>a reason</Message>${more}</Error>`

describe('what a store refuses', () => {
  it('wrong keys, a wrong bucket and missing rights are told apart', async () => {
    await fails(check({ access_key_id: 'AKIDNONE' }), 'auth', /does not know the access key; check access_key_id/)
    await fails(check({ secret_access_key: 'wrong' }), 'auth', /check secret_access_key/)
    await fails(check({ session_token: 'none' }), 'auth', /session_token is not valid/)
    await fails(check({ bucket: 'other-bucket' }), 'config', /no bucket 'other-bucket' at .*; create it/)
    const user = (denied: string) => {
      server.users.set('AKIDUSER', { secret: 'user-secret', token: 'a-token', may: (action) => action !== denied })
      return { access_key_id: 'AKIDUSER', secret_access_key: 'user-secret', session_token: 'a-token' }
    }
    await check(user('none'))
    await fails(check(user('list')), 'auth', /may not list the bucket .*s3:ListBucket/)
    await fails(check(user('get')), 'auth', /may not read the bucket .*s3:GetObject/)
    await checkTarget(user('get'))
    await fails(checkTarget(user('put')), 'auth', /may not write to the bucket .*s3:PutObject/)
    await fails(checkTarget(user('delete')), 'auth', /may not delete from the bucket .*s3:DeleteObject/)
  })

  it('a wrong region, clock, token or state of an object', async () => {
    const cases: [number, string, string, RegExp, Record<string, string>?][] = [
      [
        301,
        errorBody('PermanentRedirect'),
        'config',
        /is in the region eu-west-9, not eu-test-1; set region to eu-west-9/,
        { 'x-amz-bucket-region': 'eu-west-9' },
      ],
      [
        400,
        errorBody('AuthorizationHeaderMalformed', '<Region>us-west-7</Region>'),
        'config',
        /set region to us-west-7/,
      ],
      [400, errorBody('AuthorizationHeaderMalformed'), 'config', /signature for the region eu-test-1; set region/],
      [403, errorBody('RequestTimeTooSkewed'), 'source', /clock .* differ too much; an operator/],
      [400, errorBody('ExpiredToken'), 'auth', /have expired; set new keys/],
      [403, errorBody('InvalidObjectState'), 'source', /is archived and cannot be read; restore it/],
      [405, errorBody('constructor'), 'source', /refused to .* \(constructor: a reason\)/],
      [418, 'no xml at all', 'source', /refused to .* \(HTTP 418\)/],
    ]
    for (const [status, body, kind, message, headers] of cases) {
      server.intercept = answerWith(status, body, headers)
      await fails(check(), kind, message)
    }
  })

  it('too many requests: Retry-After is waited for, and then the failure is transient', async () => {
    server.failNext(1, 503, { 'retry-after': '1' })
    const started = performance.now()
    await check()
    assert.ok(performance.now() - started >= 990)
    server.failNext(1, 503, { 'retry-after': '3600' })
    await fails(check(), 'rate_limited', /asks to slow down \(SlowDown\)/, true)
    server.intercept = answerWith(500, errorBody('InternalError'))
    await fails(check(), 'source', /does not work at the moment: it answers 500/, true)
  })
})

describe('a server that is broken or hostile', () => {
  it('redirects: they are not followed, so nobody else gets the signature', async () => {
    let asked = 0
    const other = createServer((_, response) => {
      asked++
      response.end()
    })
    other.listen(0, '127.0.0.1')
    await once(other, 'listening')
    try {
      const location = `http://127.0.0.1:${(other.address() as AddressInfo).port}/`
      for (const status of [301, 302, 307, 308]) {
        server.intercept = answerWith(status, '', { location })
        await fails(check(), 'config', /redirects requests .* which is not followed; set endpoint and region/)
      }
      assert.equal(asked, 0)
    } finally {
      other.close()
      other.closeAllConnections()
    }
  })

  it('listings: malformed, of other keys, of pages without end', async () => {
    const page = (inner: string): string =>
      `<ListBucketResult><IsTruncated>false</IsTruncated>${inner}</ListBucketResult>`
    const entry = (key: string, size = '1', modified = '2026-01-01T00:00:00Z'): string =>
      `<Contents><Key>${key}</Key><LastModified>${modified}</LastModified><Size>${size}</Size></Contents>`
    for (const body of [
      '',
      '<html>welcome</html>',
      '<ListBucketResult><Contents>',
      page('<Contents><Size>1</Size></Contents>'),
      page(entry('elsewhere/a.jsonl')),
      page(entry('../../etc/passwd')),
      page(entry('in/a.jsonl', '-1')),
      page(entry('in/a.jsonl', '1e400')),
      page(entry('in/a.jsonl', '1', 'yesterday')),
      page(entry(`in/${'x'.repeat(2000)}`)),
      `<!DOCTYPE x [<!ENTITY a "in/a.jsonl">]>${page(entry('&a;'))}`,
      `<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>`,
    ]) {
      server.intercept = answerWith(200, body)
      await fails(check(), 'source', /listing that cannot be used/)
    }
    server.intercept = answerWith(
      200,
      `<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>same</NextContinuationToken></ListBucketResult>`,
    )
    await fails(check(), 'source', /same next page/)
  })

  it('answers without end are cut off, and memory stays flat', async () => {
    const chunk = Buffer.alloc(64 * 1024, 'x')
    const endless = (status: number) => (_: IncomingMessage, response: ServerResponse) => {
      response.writeHead(status)
      const more = (): void => {
        while (!response.destroyed && response.write(chunk));
        if (!response.destroyed) response.once('drain', more)
      }
      response.on('error', () => undefined)
      more()
      return true
    }
    const before = process.memoryUsage().rss
    server.intercept = endless(200)
    await fails(check(), 'source', /endless answer; check that endpoint/)
    server.intercept = endless(403)
    await fails(check(), 'auth', /may not list/)
    assert.ok(process.memoryUsage().rss - before < 300 * 1024 * 1024)
  })

  it('an object that is longer or shorter than it was listed', async () => {
    const body = server.objects.get('in/a.jsonl')!.body
    const run = () =>
      bench.run(bench.job({ source: { name: 's3', stream: 'in', config: configOf() }, destination: { name: 'file' } }))
    server.intercept = (request, response) =>
      !request.url!.includes('list-type') && answerWith(200, `${body}${body}`)(request, response)
    await fails(run(), 'source', /'in\/a.jsonl' is longer than the 9 bytes of the listing/)
    server.intercept = (request, response) =>
      !request.url!.includes('list-type') && answerWith(200, '')(request, response)
    await fails(run(), 'source', /does not return all 9 bytes/, true)
  })

  it('private addresses are refused like those of every other connector', async () => {
    const egress = createEgress({ allow: [], self: [] })
    try {
      const context = { ...contextOf({}, 'in'), egress }
      await fails(s3Source.check(context as never), 'config', /not allowed; an operator can add it to EGRESS_ALLOW/)
      await fails(s3Destination.check(context as never), 'config', /EGRESS_ALLOW/)
    } finally {
      await egress.close()
    }
  })
})

it('XML is searched in one pass and nothing in it is expanded', () => {
  assert.equal(
    readTag('<a><Code>x &lt;&#65;&#x42;&amp;lt; &unknown; &#9999999; &constructor;</Code></a>', 'Code'),
    'x <AB&lt; &unknown; &#9999999; &constructor;',
  )
  assert.equal(readTag('<Code>never closed', 'Code'), null)
  const started = performance.now()
  assert.deepEqual(readBlocks('<Contents>'.repeat(800_000), 'Contents'), [])
  assert.ok(performance.now() - started < 20_000)
})

it('a glob takes no longer than its length times that of the name', () => {
  const matches = (pattern: string, name: string): boolean => compileGlob(pattern)(name)
  for (const [pattern, name, expected] of [
    ['**', 'a/b', true],
    ['*', 'a/b', false],
    ['a/**/b', 'a/b', true],
    ['a/**/b', 'a/x/y/b', true],
    ['a/**/b', 'axb', false],
    ['**/b', 'ab', false],
    ['a**b', 'a/x/b', true],
    ['?.csv', 'é.csv', true],
    ['{a,b{1,2}}.csv', 'b2.csv', true],
    ['{a}', '{a}', true],
    ['a.c', 'abc', false],
    ['', '', true],
  ] as const)
    assert.equal(matches(pattern, name), expected, `${pattern} ${name}`)
  const started = performance.now()
  assert.equal(matches(`${'*a'.repeat(100)}b`, 'a'.repeat(1000)), false)
  assert.equal(matches(`${'**/'.repeat(100)}b`, 'a/'.repeat(500)), false)
  assert.ok(performance.now() - started < 20_000)
  assert.throws(() => compileGlob('{a,b}'.repeat(10)), /more than 100 patterns/)
})
