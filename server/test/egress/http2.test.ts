import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createSecureServer, type Http2SecureServer } from 'node:http2'
import { after, before, test } from 'node:test'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { gzipSync } from 'node:zlib'
import { createEgress, type Egress } from '../../src/egress/policy.ts'
import { issueCertificate } from './certificate.ts'

const trusted = getCACertificates('default')
let server: Http2SecureServer
let egress: Egress
let base: string
let connections = 0

before(async () => {
  const certificate = issueCertificate('secure.example')
  setDefaultCACertificates([certificate.cert])
  server = createSecureServer({ ...certificate, allowHTTP1: true }, async (request, response) => {
    let body = ''
    for await (const piece of request) body += piece
    if (request.url === '/moved') {
      response.writeHead(302, { location: '/' })
      response.end()
      return
    }
    response.setHeader('content-encoding', 'gzip')
    response.end(
      gzipSync(
        JSON.stringify({
          version: request.httpVersion,
          method: request.method,
          body,
          seen: request.headers['x-own'] ?? null,
        }),
      ),
    )
  })
  server.on('secureConnection', () => connections++)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  base = `https://secure.example:${(server.address() as { port: number }).port}`
  egress = createEgress({ allow: ['127.0.0.0/8'], self: [], lookup: async () => [{ address: '127.0.0.1', family: 4 }] })
})

after(async () => {
  setDefaultCACertificates(trusted)
  await egress.close()
  server.close()
})

test('a server that offers HTTP/2 is used with it, including bodies, compression and redirects', async () => {
  const get = await egress.fetch(`${base}/`, { headers: { 'x-own': 'yes', connection: 'keep-alive' } })
  assert.deepEqual(JSON.parse(String(get.body)), { version: '2.0', method: 'GET', body: '', seen: 'yes' })
  const post = await egress.fetch(`${base}/`, { method: 'POST', body: 'hello' })
  assert.deepEqual(JSON.parse(String(post.body)), { version: '2.0', method: 'POST', body: 'hello', seen: null })
  assert.equal((await egress.fetch(`${base}/moved`)).status, 200)
})

test('sequential requests share its connection', async () => {
  const before = connections
  for (let index = 0; index < 50; index++) await egress.fetch(`${base}/`)
  // A second one may be opened while the first is still closing its stream, but never one per request.
  assert.ok(connections - before <= 2, `${connections - before} more connections`)
})
