import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import { buffer } from 'node:stream/consumers'
import { after, before, describe, test } from 'node:test'
import * as zlib from 'node:zlib'
import { asFetch, createEgress, type Egress, type EgressOptions } from '../../src/egress/policy.ts'

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown
const routes = new Map<string, Handler>()
let server: Server
let base: string
let port: number
let egress: Egress
let seen: string[] = []

before(async () => {
  server = createServer((request, response) => {
    const path = request.url!.split('?')[0]!
    seen.push(path)
    const handler = routes.get(path)
    if (handler) handler(request, response)
    else response.writeHead(404).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  port = (server.address() as { port: number }).port
  base = `http://127.0.0.1:${port}`
  egress = open()
})

after(async () => {
  await egress.close()
  server.closeAllConnections()
  server.close()
})

function open(options: Partial<EgressOptions> = {}): Egress {
  return createEgress({ allow: ['127.0.0.0/8', '::1'], self: [], ...options })
}

function redirect(from: string, to: string, status = 302): void {
  routes.set(from, (_request, response) => response.writeHead(status, { location: to }).end('moved'))
}

function serve(path: string, body: Buffer | string, headers: Record<string, string> = {}): void {
  routes.set(path, (_request, response) => response.writeHead(200, headers).end(body))
}

interface Received {
  method: string
  headers: Record<string, string>
  body: string
}

async function received(response: Promise<Response>): Promise<Received> {
  return (await (await response).json()) as Received
}

/** Answers with what was received. */
function echo(path: string): void {
  routes.set(path, async (request, response) => {
    const body = String(await buffer(request))
    response.end(JSON.stringify({ method: request.method, headers: request.headers, body }))
  })
}

describe('checks', () => {
  test('only http and https, no credentials in the address', async () => {
    for (const url of ['file:///etc/passwd', 'ftp://example.com/', 'data:text/plain,x', 'unix:/x', 'ws://example.com/'])
      await assert.rejects(egress.fetch(url), { name: 'EgressRefused', reason: 'protocol' }, url)
    await assert.rejects(egress.fetch(`http://me:secret@127.0.0.1:${port}/`), (error: Error) => {
      assert.equal((error as { reason?: string }).reason, 'credentials')
      assert.ok(!error.message.includes('secret'))
      return true
    })
    await assert.rejects(egress.fetch('not an address'), { reason: 'host' })
    await assert.rejects(egress.fetch(base, { method: 'CONNECT' }), { reason: 'method' })
  })

  test('literal addresses in every form are refused where they are closed', async () => {
    const closed = createEgress({ allow: [], self: [] })
    for (const host of [
      '127.0.0.1',
      '127.1',
      '2130706433',
      '0x7f000001',
      '017700000001',
      '[::1]',
      '[::ffff:127.0.0.1]',
      '0',
      '[::]',
      '%31%32%37.0.0.1',
      'localhost',
    ])
      await assert.rejects(closed.fetch(`http://${host}:${port}/`), { name: 'EgressRefused', reason: 'address' }, host)
    await closed.close()
  })

  test('a name that leads to a closed address is refused at connect time, by the dispatcher alone too', async () => {
    const guarded = open({ lookup: async () => [{ address: '10.0.0.5', family: 4 }] })
    const message =
      'connections to rebind.example (private network) are not allowed; an operator can add it to EGRESS_ALLOW'
    await assert.rejects(guarded.fetch('http://rebind.example/'), { name: 'EgressRefused', message })
    await assert.rejects(guarded.dispatcher.request({ origin: 'http://rebind.example', path: '/', method: 'GET' }), {
      name: 'EgressRefused',
      message,
    })
    await assert.rejects(guarded.fetch('https://rebind.example/'), { name: 'EgressRefused', message })
    await guarded.close()
  })

  test('the service itself is refused, by a redirect too', async () => {
    const self = [{ host: '127.0.0.1', port }]
    const guarded = open({ self })
    await assert.rejects(guarded.fetch(`${base}/`), { reason: 'self' })
    await guarded.close()
  })
})

describe('redirects', () => {
  test('are followed, and the answer says where it came from', async () => {
    redirect('/first', '/second')
    redirect('/second', `${base}/end`)
    serve('/end', 'there')
    const response = await egress.fetch(`${base}/first`)
    assert.deepEqual([response.status, response.url, await response.text()], [200, `${base}/end`, 'there'])
  })

  test('to a closed address are refused before anything is sent', async () => {
    for (const to of [
      'http://10.0.0.5/',
      'http://169.254.169.254/latest/meta-data/',
      'http://[::ffff:a00:5]/',
      'file:///etc/passwd',
      'http://a:b@127.0.0.1/',
    ]) {
      redirect('/out', to)
      await assert.rejects(egress.fetch(`${base}/out`), { name: 'EgressRefused' }, to)
    }
  })

  test('to a name are checked again after DNS', async () => {
    const guarded = open({ lookup: async () => [{ address: '192.168.0.1', family: 4 }] })
    redirect('/out', 'http://inside.example/')
    await assert.rejects(guarded.fetch(`${base}/out`), { reason: 'address', message: /inside\.example/ })
    await guarded.close()
  })

  test('to another origin carry no credentials, to the same one they do', async () => {
    echo('/echo')
    const headers = { Authorization: 'Bearer s', Cookie: 'a=b', 'X-Api-Key': 'k', Accept: 'text/plain' }
    redirect('/same', '/echo')
    const same = await received(egress.fetch(`${base}/same`, { headers }))
    assert.equal(same.headers.authorization, 'Bearer s')
    redirect('/cross', `http://localhost:${port}/echo`)
    const cross = await received(egress.fetch(`${base}/cross`, { headers }))
    assert.deepEqual(
      [cross.headers.authorization, cross.headers.cookie, cross.headers['x-api-key'], cross.headers.accept],
      [undefined, undefined, undefined, 'text/plain'],
    )
  })

  test('end at their limit; a limit of 0 gives the redirect itself', async () => {
    redirect('/loop', '/loop')
    seen = []
    await assert.rejects(egress.fetch(`${base}/loop`, { maxRedirects: 3 }), {
      name: 'EgressFailed',
      reason: 'redirects',
    })
    assert.equal(seen.length, 4)
    const response = await egress.fetch(`${base}/loop`, { maxRedirects: 0 })
    assert.deepEqual([response.status, response.headers.get('location')], [302, '/loop'])
    await response.body?.cancel()
  })
})

describe('requests', () => {
  test('send method, headers and body, and never a Host of the caller', async () => {
    echo('/echo')
    const sent = await received(
      egress.fetch(`${base}/echo`, {
        method: 'post',
        body: 'text',
        headers: { Host: 'victim', 'Transfer-Encoding': 'chunked', 'X-A': '1' },
      }),
    )
    assert.deepEqual(
      [sent.method, sent.body, sent.headers.host, sent.headers['x-a']],
      ['POST', 'text', `127.0.0.1:${port}`, '1'],
    )
    assert.equal(sent.headers['content-length'], '4')
    assert.equal(sent.headers['user-agent'], 'sluice')
  })

  test('with a header that breaks the line are refused', async () => {
    await assert.rejects(egress.fetch(base, { headers: { 'X-A': 'a\r\nX-B: b' } }), {
      name: 'EgressFailed',
      reason: 'request',
    })
  })
})

describe('bodies', () => {
  const text = 'A sentence that compresses. '.repeat(500)
  const forms: Record<string, Buffer> = {
    gzip: zlib.gzipSync(text),
    br: zlib.brotliCompressSync(text),
    zstd: zlib.zstdCompressSync(text),
    deflate: zlib.deflateSync(text),
    'deflate, gzip': zlib.gzipSync(zlib.deflateSync(text)),
  }

  for (const [encoding, body] of Object.entries(forms)) {
    test(`in ${encoding} are decompressed`, async () => {
      serve('/body', body, { 'content-encoding': encoding, 'x-kept': 'yes' })
      const response = await egress.fetch(`${base}/body`)
      assert.deepEqual([response.headers.get('content-encoding'), response.headers.get('x-kept')], [null, 'yes'])
      assert.equal(await response.text(), text)
    })
  }

  test('in deflate without its header are decompressed too', async () => {
    serve('/body', zlib.deflateRawSync(text), { 'content-encoding': 'deflate' })
    assert.equal(await (await egress.fetch(`${base}/body`)).text(), text)
  })

  test('that cannot be decompressed say so', async () => {
    for (const encoding of ['gzip', 'br', 'zstd', 'deflate']) {
      serve('/body', 'plainly not compressed', { 'content-encoding': encoding })
      const response = await egress.fetch(`${base}/body`)
      await assert.rejects(response.text(), { name: 'EgressFailed', reason: 'encoding' }, encoding)
    }
    serve('/body', forms.gzip!.subarray(0, 40), { 'content-encoding': 'gzip' })
    await assert.rejects((await egress.fetch(`${base}/body`)).text(), { reason: 'encoding' })
    serve('/body', 'x', { 'content-encoding': 'rot13' })
    await assert.rejects(egress.fetch(`${base}/body`), { reason: 'encoding', message: /rot13/ })
    serve('/body', 'x', { 'content-encoding': 'gzip, gzip, gzip, gzip' })
    await assert.rejects(egress.fetch(`${base}/body`), { reason: 'encoding' })
  })

  test('stop at their size limit, known beforehand or not', async () => {
    serve('/body', 'x'.repeat(1000), { 'content-length': '1000' })
    await assert.rejects(egress.fetch(`${base}/body`, { maxBytes: 999 }), { name: 'EgressFailed', reason: 'too_large' })
    assert.equal((await (await egress.fetch(`${base}/body`, { maxBytes: 1000 })).text()).length, 1000)
    routes.set('/body', (_request, response) => {
      response.write('x'.repeat(600))
      response.end('x'.repeat(400))
    })
    await assert.rejects((await egress.fetch(`${base}/body`, { maxBytes: 999 })).text(), { reason: 'too_large' })
  })

  test('that are bombs stop at the limit with little memory', async () => {
    const zeros = Buffer.alloc(64 * 1024 * 1024)
    const bombs: Record<string, Buffer> = {
      gzip: zlib.gzipSync(zeros, { level: 1 }),
      br: zlib.brotliCompressSync(zeros, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }),
      zstd: zlib.zstdCompressSync(zeros),
    }
    for (const [encoding, body] of Object.entries(bombs)) {
      serve('/bomb', body, { 'content-encoding': encoding })
      const { body: answer } = await egress.stream(`${base}/bomb`, { maxBytes: 1_000_000 })
      let bytes = 0
      await assert.rejects(
        async () => {
          for await (const chunk of answer) bytes += chunk.length
        },
        { reason: 'too_large' },
        encoding,
      )
      assert.ok(bytes <= 1_000_000, `${encoding} gave ${bytes} bytes`)
    }
  })

  test('of HEAD, 204 and 304 are empty whatever the headers say', async () => {
    routes.set('/empty', (request, response) => {
      const status = Number(new URL(request.url!, base).searchParams.get('status'))
      response.writeHead(status, { 'content-encoding': 'gzip' }).end()
    })
    assert.equal(await (await egress.fetch(`${base}/empty?status=200`, { method: 'HEAD' })).text(), '')
    for (const status of [204, 304]) {
      const response = await egress.fetch(`${base}/empty?status=${status}`)
      assert.deepEqual([response.status, response.body], [status, null])
    }
  })

  test('stream with back pressure: a slow reader holds the server back', async () => {
    let written = 0
    routes.set('/endless', (_request, response) => {
      const chunk = Buffer.alloc(64 * 1024)
      const write = () => {
        while (written < 512 * 1024 * 1024) {
          written += chunk.length
          if (!response.write(chunk)) return
        }
      }
      response.on('drain', write)
      write()
    })
    const { status, body } = await egress.stream(`${base}/endless`)
    assert.equal(status, 200)
    await once(body, 'readable')
    body.read(1)
    await new Promise(setImmediate)
    assert.ok(written < 64 * 1024 * 1024, `${written} bytes were sent to a reader that took one`)
    body.destroy()
  })

  test('can be given as they were sent', async () => {
    serve('/body', forms.gzip!, { 'content-encoding': 'gzip' })
    const { body, headers } = await egress.stream(`${base}/body`, { decompress: false })
    assert.equal(headers.get('content-encoding'), 'gzip')
    assert.deepEqual(await buffer(body), forms.gzip)
  })

  test('that break off fail, they do not end', async () => {
    routes.set('/broken', (_request, response) => {
      response.writeHead(200, { 'content-length': '100' })
      response.write('part', () => response.destroy())
    })
    await assert.rejects((await egress.fetch(`${base}/broken`)).text(), { name: 'EgressFailed', reason: 'connection' })
  })
})

describe('deadlines', () => {
  const hang: Handler = () => {}

  test('end a request without an answer, redirects included', async () => {
    routes.set('/hang', hang)
    redirect('/to-hang', '/hang')
    await assert.rejects(egress.fetch(`${base}/to-hang`, { timeoutMs: 50 }), {
      name: 'EgressFailed',
      reason: 'timeout',
    })
  })

  test('end a request while it still connects', async () => {
    const stuck = open({ lookup: () => new Promise(() => {}) })
    await assert.rejects(stuck.fetch('http://slow.example/', { timeoutMs: 30 }), { reason: 'timeout' })
    await stuck.close()
  })

  test('end a body that drips', async () => {
    routes.set('/drip', (_request, response) => response.write('a'))
    const response = await egress.fetch(`${base}/drip`, { timeoutMs: 1000 })
    await assert.rejects(response.text(), { name: 'EgressFailed', reason: 'timeout' })
  })

  test('leave the abort of the caller as it is, before and inside the body', async () => {
    const cancelled = new Error('cancelled')
    routes.set('/hang', hang)
    routes.set('/drip', (_request, response) => response.write('a'))
    const first = new AbortController()
    const waiting = egress.fetch(`${base}/hang`, { signal: first.signal })
    first.abort(cancelled)
    await assert.rejects(waiting, cancelled)
    const second = new AbortController()
    const { body } = await egress.stream(`${base}/drip`, { signal: second.signal })
    await once(body, 'readable')
    second.abort(cancelled)
    await assert.rejects(buffer(body), cancelled)
    await assert.rejects(egress.fetch(base, { signal: AbortSignal.abort(cancelled) }), cancelled)
  })
})

test('asFetch follows redirects only where it is asked to, and sends forms', async () => {
  echo('/echo')
  redirect('/first', '/echo')
  const fetch = asFetch(egress)
  assert.equal((await fetch(`${base}/first`, { redirect: 'manual' })).status, 302)
  assert.equal((await fetch(`${base}/first`)).status, 200)
  const form = await received(
    fetch(`${base}/echo`, {
      method: 'POST',
      body: new URLSearchParams({ a: 'b c' }),
      headers: new Headers({ 'x-a': '1' }),
    }),
  )
  assert.deepEqual([form.body, form.headers['x-a']], ['a=b+c', '1'])
})
