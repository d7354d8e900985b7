import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server } from 'node:https'
import { after, before, test } from 'node:test'
import { getCACertificates, setDefaultCACertificates } from 'node:tls'
import { createEgress, type Egress } from '../../src/egress/policy.ts'
import { issueCertificate } from './certificate.ts'

const trusted = getCACertificates('default')
let server: Server
let egress: Egress
let port: number

before(async () => {
  const certificate = issueCertificate('secure.example')
  setDefaultCACertificates([certificate.cert])
  server = createServer(certificate, (request, response) => {
    if (request.url === '/down') response.writeHead(302, { location: `http://secure.example:${port}/` }).end()
    else response.end(`host ${request.headers.host}`)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  port = (server.address() as { port: number }).port
  egress = createEgress({
    allow: ['127.0.0.0/8'],
    self: [],
    lookup: async () => [{ address: '127.0.0.1', family: 4 }],
  })
})

after(async () => {
  setDefaultCACertificates(trusted)
  await egress.close()
  server.close()
})

test('the certificate is checked against the requested name', async () => {
  const { body } = await egress.fetch(`https://secure.example:${port}/`)
  assert.equal(body.toString(), `host secure.example:${port}`)
  await assert.rejects(egress.fetch(`https://other.example:${port}/`), {
    name: 'EgressFailed',
    reason: 'connection',
    message: /does not match certificate/,
  })
})

test('a redirect from https to http is not followed', async () => {
  await assert.rejects(egress.fetch(`https://secure.example:${port}/down`), {
    name: 'EgressRefused',
    reason: 'redirect',
  })
})
