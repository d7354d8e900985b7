/** The rules for requests. Each is tested for both kinds of answers: collected in memory, and as a stream. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { buffer } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import * as zlib from 'node:zlib'
import { createDial, createDispatcher } from '../../src/egress/connect.ts'
import { createGuard } from '../../src/egress/guard.ts'
import { type AnswerHead, asFetch, type Egress, type EgressRequest, headerOf } from '../../src/egress/policy.ts'
import { type Handler, openEgress, startServer } from './http-server.ts'

const server = await startServer()
const { base, port } = server
const egress = openEgress()

type Ask = (egress: Egress, url: string, request?: EgressRequest) => Promise<AnswerHead & { body: Buffer }>

const ways: Record<string, Ask> = {
  'the whole answer': (from, url, request) => from.fetch(url, request),
  'a stream': async (from, url, request) => {
    const answer = await from.stream(url, request)
    return { ...answer, body: await buffer(answer.body) }
  },
}

interface Received {
  method: string
  headers: Record<string, string>
  body: string
}

const text = 'A sentence that compresses. '.repeat(500)
const forms: Record<string, Buffer> = {
  gzip: zlib.gzipSync(text),
  'x-gzip': zlib.gzipSync(text),
  br: zlib.brotliCompressSync(text),
  zstd: zlib.zstdCompressSync(text),
  deflate: zlib.deflateSync(text),
  'deflate, gzip': zlib.gzipSync(zlib.deflateSync(text)),
  'gzip, identity, br, zstd': zlib.zstdCompressSync(zlib.brotliCompressSync(zlib.gzipSync(text))),
}

for (const [way, ask] of Object.entries(ways)) {
  const read = async (url: string, request?: EgressRequest): Promise<string> =>
    (await ask(egress, url, request)).body.toString()
  const received = async (url: string, request: EgressRequest): Promise<Received> =>
    JSON.parse(await read(url, request))

  describe(`checks, ${way}`, () => {
    test('only http and https, no credentials in the address, no endless address', async () => {
      for (const url of ['file:///etc/passwd', 'ftp://example.com/', 'data:text/plain,x', 'unix:/x', 'ws://a.example/'])
        await assert.rejects(ask(egress, url), { name: 'EgressRefused', reason: 'protocol' }, url)
      await assert.rejects(ask(egress, `http://me:secret@127.0.0.1:${port}/`), (error: Error) => {
        assert.equal((error as { reason?: string }).reason, 'credentials')
        assert.ok(!error.message.includes('secret'))
        return true
      })
      await assert.rejects(ask(egress, 'not an address'), { reason: 'host' })
      await assert.rejects(ask(egress, `${base}/${'x'.repeat(70_000)}`), {
        reason: 'host',
        message: /65536 characters/,
      })
      await assert.rejects(ask(egress, base, { method: 'CONNECT' }), { reason: 'method' })
    })

    test('literal addresses in every notation are refused if they are closed', async () => {
      const closed = openEgress({ allow: [] })
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
        await assert.rejects(ask(closed, `http://${host}:${port}/`), { name: 'EgressRefused', reason: 'address' }, host)
    })

    test('a name that resolves to a closed address is refused at connect time', async () => {
      const guarded = openEgress({ lookup: async () => [{ address: '10.0.0.5', family: 4 }] })
      const message =
        'connections to rebind.example (private network) are not allowed; an operator can add it to EGRESS_ALLOW'
      await assert.rejects(ask(guarded, 'http://rebind.example/'), { name: 'EgressRefused', message })
      await assert.rejects(ask(guarded, 'https://rebind.example/'), { name: 'EgressRefused', message })
    })

    test('the service itself is refused, also through a redirect', async () => {
      const guarded = openEgress({ self: [{ host: '127.0.0.1', port }] })
      await assert.rejects(ask(guarded, `${base}/`), { reason: 'self' })
      const elsewhere = openEgress({ self: [{ host: '127.0.0.1', port: 1 }] })
      server.redirect('/to-self', 'http://127.0.0.1:1/')
      await assert.rejects(ask(elsewhere, `${base}/to-self`), { reason: 'self' })
    })
  })

  describe(`redirects, ${way}`, () => {
    test('are followed, and the answer contains its final URL and the number of requests', async () => {
      server.redirect('/first', '/second')
      server.redirect('/second', `${base}/end`)
      server.serve('/end', 'there')
      const { status, url, requests, body } = await ask(egress, `${base}/first`)
      assert.deepEqual([status, url, requests, body.toString()], [200, `${base}/end`, 3, 'there'])
    })

    test('to a closed address are refused before anything is sent', async () => {
      for (const to of [
        'http://10.0.0.5/',
        'http://169.254.169.254/latest/meta-data/',
        'http://[::ffff:a00:5]/',
        'file:///etc/passwd',
        'http://a:b@127.0.0.1/',
      ]) {
        server.redirect('/out', to)
        await assert.rejects(ask(egress, `${base}/out`), { name: 'EgressRefused' }, to)
      }
    })

    test('to a name are checked again after DNS', async () => {
      const guarded = openEgress({ lookup: async () => [{ address: '192.168.0.1', family: 4 }] })
      server.redirect('/out', 'http://inside.example/')
      await assert.rejects(ask(guarded, `${base}/out`), { reason: 'address', message: /inside\.example/ })
    })

    test('to another origin carry no credentials, to the same one they do', async () => {
      server.echo('/echo')
      const headers = { Authorization: 'Bearer s', Cookie: 'a=b', 'X-Api-Key': 'k', Accept: 'text/plain' }
      server.redirect('/same', '/echo')
      const same = await received(`${base}/same`, { headers })
      assert.equal(same.headers.authorization, 'Bearer s')
      server.redirect('/cross', `http://localhost:${port}/echo`)
      const cross = await received(`${base}/cross`, { headers })
      assert.deepEqual(
        [cross.headers.authorization, cross.headers.cookie, cross.headers['x-api-key'], cross.headers.accept],
        [undefined, undefined, undefined, 'text/plain'],
      )
    })

    test('end at their limit; a limit of 0 returns the redirect itself', async () => {
      server.redirect('/loop', '/loop')
      server.seen.length = 0
      await assert.rejects(ask(egress, `${base}/loop`, { maxRedirects: 3 }), {
        name: 'EgressFailed',
        reason: 'redirects',
      })
      assert.equal(server.seen.length, 4)
      const answer = await ask(egress, `${base}/loop`, { maxRedirects: 0 })
      assert.deepEqual([answer.status, headerOf(answer, 'location'), answer.body.toString()], [302, '/loop', 'moved'])
    })

    test('are followed after reading only a little of their body', async () => {
      let written = 0
      server.on('/chatty', (_, response) => {
        response.writeHead(302, { location: '/end' })
        const chunk = Buffer.alloc(64 * 1024)
        const write = () => {
          while (written < 512 * 1024 * 1024) {
            written += chunk.length
            if (!response.write(chunk)) return
          }
        }
        response.on('drain', write)
        response.on('error', () => {})
        write()
      })
      server.serve('/end', 'there')
      assert.equal(await read(`${base}/chatty`, { maxBytes: 1000 }), 'there')
      assert.ok(written < 64 * 1024 * 1024, `${written} bytes of a redirect were taken`)
    })
  })

  describe(`requests, ${way}`, () => {
    test('send method, headers and body, and never a Host from the caller', async () => {
      server.echo('/echo')
      const sent = await received(`${base}/echo`, {
        method: 'post',
        body: 'text',
        headers: { Host: 'victim', 'Transfer-Encoding': 'chunked', 'X-A': '1' },
      })
      assert.deepEqual(
        [sent.method, sent.body, sent.headers.host, sent.headers['x-a']],
        ['POST', 'text', `127.0.0.1:${port}`, '1'],
      )
      assert.equal(sent.headers['content-length'], '4')
      assert.equal(sent.headers['user-agent'], 'sluice')
    })

    test('with a header that contains a line break are refused', async () => {
      await assert.rejects(ask(egress, base, { headers: { 'X-A': 'a\r\nX-B: b' } }), {
        name: 'EgressFailed',
        reason: 'request',
      })
    })

    test('ask for a range uncompressed, and for other answers compressed', async () => {
      server.echo('/echo')
      const encoding = async (request: EgressRequest) =>
        (await received(`${base}/echo`, request)).headers['accept-encoding']
      assert.equal(await encoding({}), 'gzip, deflate, br, zstd')
      assert.equal(await encoding({ headers: { Range: 'bytes=0-3' } }), 'identity')
      assert.equal(await encoding({ decompress: false }), 'identity')
    })
  })

  describe(`answers, ${way}`, () => {
    test('may have headers named like object members', async () => {
      server.serve('/odd', 'fine', { constructor: 'a', __proto__: 'b', tostring: 'c', 'x-two': '1' })
      const answer = await ask(egress, `${base}/odd`)
      assert.deepEqual([answer.body.toString(), headerOf(answer, 'constructor')], ['fine', 'a'])
    })

    for (const [encoding, body] of Object.entries(forms)) {
      test(`in ${encoding} are decompressed`, async () => {
        server.serve('/body', body, { 'content-encoding': encoding, 'x-kept': 'yes' })
        const answer = await ask(egress, `${base}/body`)
        assert.deepEqual([headerOf(answer, 'content-encoding'), headerOf(answer, 'x-kept')], [undefined, 'yes'])
        assert.equal(headerOf(answer, 'content-length'), undefined)
        assert.equal(answer.body.toString(), text)
      })
    }

    test('in deflate without its header are decompressed too', async () => {
      server.serve('/body', zlib.deflateRawSync(text), { 'content-encoding': 'deflate' })
      assert.equal(await read(`${base}/body`), text)
    })

    test('that are empty stay empty in any encoding', async () => {
      for (const encoding of ['gzip', 'br', 'zstd', 'deflate']) {
        server.serve('/body', '', { 'content-encoding': encoding })
        assert.equal(await read(`${base}/body`), '', encoding)
      }
    })

    test('in zstd may not require a window larger than 8 MiB', async () => {
      const params = { [zlib.constants.ZSTD_c_windowLog]: 24 }
      const body = zlib.zstdCompressSync(Buffer.alloc(20 * 1024 * 1024, text), { params })
      server.serve('/body', body, { 'content-encoding': 'zstd' })
      await assert.rejects(read(`${base}/body`), { name: 'EgressFailed', reason: 'encoding' })
    })

    test('that cannot be decompressed are reported as such', async () => {
      for (const encoding of ['gzip', 'br', 'zstd', 'deflate']) {
        server.serve('/body', 'plainly not compressed', { 'content-encoding': encoding })
        await assert.rejects(read(`${base}/body`), { name: 'EgressFailed', reason: 'encoding' }, encoding)
      }
      server.serve('/body', forms.gzip!.subarray(0, 40), { 'content-encoding': 'gzip' })
      await assert.rejects(read(`${base}/body`), { reason: 'encoding' })
      server.serve('/body', 'x', { 'content-encoding': 'rot13' })
      await assert.rejects(read(`${base}/body`), { reason: 'encoding', message: /rot13/ })
      server.serve('/body', 'x', { 'content-encoding': 'gzip, gzip, gzip, gzip' })
      await assert.rejects(read(`${base}/body`), { reason: 'encoding' })
    })

    test('stop at their size limit, announced or not', async () => {
      server.serve('/body', 'x'.repeat(1000), { 'content-length': '1000' })
      await assert.rejects(read(`${base}/body`, { maxBytes: 999 }), { name: 'EgressFailed', reason: 'too_large' })
      assert.equal((await read(`${base}/body`, { maxBytes: 1000 })).length, 1000)
      server.on('/body', (_, response) => {
        response.write('x'.repeat(600))
        response.end('x'.repeat(400))
      })
      await assert.rejects(read(`${base}/body`, { maxBytes: 999 }), { reason: 'too_large' })
      assert.equal((await read(`${base}/body`, { maxBytes: 1000 })).length, 1000)
    })

    test('that are decompression bombs stop at the limit', async () => {
      const zeros = Buffer.alloc(64 * 1024 * 1024)
      const bombs: Record<string, Buffer> = {
        gzip: zlib.gzipSync(zeros, { level: 1 }),
        br: zlib.brotliCompressSync(zeros, { params: { [zlib.constants.BROTLI_PARAM_QUALITY]: 1 } }),
        zstd: zlib.zstdCompressSync(zeros),
      }
      bombs['gzip, gzip'] = zlib.gzipSync(bombs.gzip!)
      for (const [encoding, body] of Object.entries(bombs)) {
        server.serve('/bomb', body, { 'content-encoding': encoding })
        await assert.rejects(read(`${base}/bomb`, { maxBytes: 1_000_000 }), { reason: 'too_large' }, encoding)
      }
    })

    test('of HEAD, 204 and 304 are empty whatever the headers say', async () => {
      server.on('/empty', (request, response) => {
        const status = Number(new URL(request.url!, base).searchParams.get('status'))
        const length = request.method === 'HEAD' ? { 'content-length': '5000' } : {}
        response.writeHead(status, { 'content-encoding': 'gzip', ...length }).end()
      })
      assert.equal(await read(`${base}/empty?status=200`, { method: 'HEAD', maxBytes: 10 }), '')
      for (const status of [204, 304]) {
        const answer = await ask(egress, `${base}/empty?status=${status}`)
        assert.deepEqual([answer.status, answer.body.length], [status, 0])
      }
    })

    test('can be returned as they were sent', async () => {
      server.serve('/body', forms.gzip!, { 'content-encoding': 'gzip' })
      const answer = await ask(egress, `${base}/body`, { decompress: false })
      assert.equal(headerOf(answer, 'content-encoding'), 'gzip')
      assert.deepEqual(answer.body, forms.gzip)
    })

    test('that break off fail, and do not just end', async () => {
      server.on('/broken', (_, response) => {
        response.writeHead(200, { 'content-length': '100' })
        response.write('part', () => response.destroy())
      })
      await assert.rejects(read(`${base}/broken`), { name: 'EgressFailed', reason: 'connection' })
    })
  })

  describe(`deadlines, ${way}`, () => {
    const hang: Handler = () => {}

    test('end a request without an answer, redirects included', async () => {
      server.on('/hang', hang)
      server.redirect('/to-hang', '/hang')
      await assert.rejects(read(`${base}/to-hang`, { timeoutMs: 50 }), {
        name: 'EgressFailed',
        reason: 'timeout',
        message: 'no complete answer within 50 ms',
      })
    })

    test('end a request while it still connects', async () => {
      const stuck = openEgress({ lookup: () => new Promise(() => {}) })
      await assert.rejects(ask(stuck, 'http://slow.example/', { timeoutMs: 30 }), { reason: 'timeout' })
      await stuck.close()
    })

    test('end a slowly dripping body', async () => {
      server.on('/drip', (_, response) => response.write('a'))
      await assert.rejects(read(`${base}/drip`, { timeoutMs: 200 }), { name: 'EgressFailed', reason: 'timeout' })
    })

    test('do not change an abort by the caller, before, at the start of and inside the body', async () => {
      const cancelled = new Error('cancelled')
      const gone = (path: string) =>
        new Promise<void>((resolve) =>
          server.on(path, (request, response) => {
            if (path === '/drip') response.write('a')
            request.socket.once('close', () => resolve())
          }),
        )
      for (const path of ['/hang', '/drip']) {
        const closed = gone(path)
        const controller = new AbortController()
        server.seen.length = 0
        const waiting = ask(egress, `${base}${path}`, { signal: controller.signal })
        while (!server.seen.includes(path)) await new Promise(setImmediate)
        controller.abort(cancelled)
        await assert.rejects(waiting, cancelled)
        await closed
      }
      await assert.rejects(ask(egress, base, { signal: AbortSignal.abort(cancelled) }), cancelled)
    })

    test("leave no listener on the caller's signal", async () => {
      server.serve('/end', 'there')
      const { signal } = new AbortController()
      let listeners = 0
      const counted = new Proxy(signal, {
        get(target, name) {
          if (name === 'addEventListener') listeners++
          if (name === 'removeEventListener') listeners--
          const value = Reflect.get(target, name, target)
          return typeof value === 'function' ? value.bind(target) : value
        },
      })
      for (let index = 0; index < 5; index++) await read(`${base}/end`, { signal: counted })
      await new Promise(setImmediate)
      assert.equal(listeners, 0)
    })
  })
}

test('every connection of the dispatcher is checked, whatever uses it', async () => {
  const dial = createDial(createGuard([], []), async () => [{ address: '10.0.0.5', family: 4 }])
  const dispatcher = createDispatcher(dial, new AbortController().signal)
  await assert.rejects(dispatcher.request({ origin: 'http://rebind.example', path: '/', method: 'GET' }), {
    name: 'EgressRefused',
    reason: 'address',
  })
  await dispatcher.close()
})

describe('streams', () => {
  test('apply backpressure while the reader is slow', async () => {
    let written = 0
    server.on('/endless', (_, response) => {
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

  test('give up on silence after the time that the request allows', { timeout: 30_000 }, async () => {
    server.on('/silent', () => undefined)
    await assert.rejects(egress.stream(`${base}/silent`, { silenceMs: 1000 }), { reason: 'timeout' })
    server.on('/pausing', (_, response) => void response.write('begun'))
    const { body } = await egress.stream(`${base}/pausing`, { silenceMs: 1000 })
    await assert.rejects(buffer(body), { reason: 'timeout' })
  })

  test('return no byte beyond their limit', async () => {
    server.serve('/bomb', zlib.gzipSync(Buffer.alloc(64 * 1024 * 1024), { level: 1 }), { 'content-encoding': 'gzip' })
    const { body } = await egress.stream(`${base}/bomb`, { maxBytes: 1_000_000 })
    let bytes = 0
    await assert.rejects(
      async () => {
        for await (const chunk of body) bytes += chunk.length
      },
      { reason: 'too_large' },
    )
    assert.ok(bytes <= 1_000_000, `${bytes} bytes`)
  })
})

test('asFetch follows redirects only if asked to, and sends forms', async () => {
  server.echo('/echo')
  server.redirect('/first', '/echo')
  const fetch = asFetch(egress)
  assert.equal((await fetch(`${base}/first`, { redirect: 'manual' })).status, 302)
  const answer = await fetch(`${base}/first`)
  assert.deepEqual([answer.status, answer.url], [200, `${base}/echo`])
  const form = await fetch(`${base}/echo`, {
    method: 'POST',
    body: new URLSearchParams({ a: 'b c' }),
    headers: new Headers({ 'x-a': '1' }),
  })
  const sent = (await form.json()) as Received
  assert.deepEqual([sent.body, sent.headers['x-a']], ['a=b+c', '1'])
  server.on('/nothing', (_, response) => response.writeHead(204).end())
  assert.equal((await fetch(`${base}/nothing`)).body, null)
})
