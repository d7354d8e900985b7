import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import fastify, { type FastifyReply } from 'fastify'
import { AppError } from '../../src/errors.ts'
import { type Begin, createEventStreams, type EventStreams, type StreamLimits } from '../../src/http/event-streams.ts'

const MB = 'x'.repeat(1024 * 1024)
const limits: StreamLimits = { inAll: 5, perOrganization: 3, perPerson: 1, writeMs: 30_000 }
const isRefused = (error: unknown) => error instanceof AppError && error.code === 'too_many_requests'

/** A server whose one route is a stream; `served` resolves when the first one has released its slot. */
async function startServer(
  t: TestContext,
  streams: EventStreams,
  work: (begin: Begin, reply: FastifyReply) => Promise<void>,
): Promise<{ read(): Socket; served: Promise<void> }> {
  const app = fastify()
  const sockets: Socket[] = []
  const served = Promise.withResolvers<void>()
  app.get('/', (_request, reply) =>
    streams.serve('acme', (begin) => work(begin, reply)).finally(() => served.resolve()),
  )
  const url = new URL(await app.listen({ host: '127.0.0.1', port: 0 }))
  t.after(async () => {
    for (const socket of sockets) socket.destroy()
    streams.end()
    await app.close()
  })
  return {
    served: served.promise,
    read() {
      const socket = connect(Number(url.port), url.hostname)
      socket.on('error', () => {})
      socket.write('GET / HTTP/1.1\r\nHost: here\r\n\r\n')
      sockets.push(socket)
      return socket
    },
  }
}

test('a slot is taken before anything is awaited, and released at the end', async () => {
  const streams = createEventStreams(limits)
  const gate = Promise.withResolvers<void>()
  const of = (organization: string) => streams.serve(organization, () => gate.promise)
  const open = [of('acme'), of('acme'), of('acme')]
  await assert.rejects(of('acme'), (error: unknown) => isRefused(error) && /3 event streams open/.test(String(error)))
  open.push(of('other'), of('other'))
  await assert.rejects(of('third'), isRefused, 'there is a limit over all')
  gate.resolve()
  await Promise.all(open)
  await of('acme')
})

test('an error before the stream starts releases the slot and is an ordinary error', async () => {
  const streams = createEventStreams({ ...limits, perOrganization: 1 })
  for (let tries = 0; tries < 3; tries++)
    await assert.rejects(
      streams.serve('acme', async () => {
        throw new Error('no such run')
      }),
      /no such run/,
    )
})

test('a reader that does not read is cut off', async (t) => {
  const streams = createEventStreams({ ...limits, perOrganization: 1, writeMs: 300 })
  const server = await startServer(t, streams, async (begin, reply) => {
    const { send, signal } = begin(reply)
    while (!signal.aborted) await send(MB)
  })
  const socket = server.read()
  socket.pause()
  await server.served
  await streams.serve('acme', async () => {})
  socket.resume()
  await once(socket, 'close')
})

test('the end of a stream does not wait for a reader that does not read', async (t) => {
  const streams = createEventStreams({ ...limits, writeMs: 300 })
  const closed = Promise.withResolvers<void>()
  const server = await startServer(t, streams, async (begin, reply) => {
    reply.raw.once('close', () => closed.resolve())
    const { send } = begin(reply)
    // More than the kernel takes, and ended at once.
    void send(MB.repeat(32))
  })
  server.read().pause()
  await closed.promise
})

test('a reader that reads slowly but steadily stays', async (t) => {
  const streams = createEventStreams({ ...limits, writeMs: 5000 })
  const sent = Promise.withResolvers<boolean>()
  const server = await startServer(t, streams, async (begin, reply) => {
    const { send, signal } = begin(reply)
    for (let part = 0; part < 20; part++) await send(MB)
    sent.resolve(signal.aborted)
  })
  const socket = server.read()
  let bytes = 0
  for await (const chunk of socket) {
    bytes += chunk.length
    if (bytes > 20 * MB.length) break
  }
  assert.equal(await sent.promise, false)
})

test('a reader that goes ends the stream, also before it begins', async (t) => {
  const streams = createEventStreams({ ...limits, perOrganization: 1 })
  const asked = Promise.withResolvers<void>()
  const done = Promise.withResolvers<boolean>()
  const server = await startServer(t, streams, async (begin, reply) => {
    asked.resolve()
    await once(reply.raw, 'close')
    const { send, signal } = begin(reply)
    await send(MB)
    done.resolve(signal.aborted)
  })
  const socket = server.read()
  await asked.promise
  socket.destroy()
  assert.equal(await done.promise, true)
  await server.served
  await streams.serve('acme', async () => {})
})

test('ending all of them ends each', async (t) => {
  const streams = createEventStreams(limits)
  const began = Promise.withResolvers<void>()
  const server = await startServer(t, streams, async (begin, reply) => {
    const { signal } = begin(reply)
    began.resolve()
    await once(signal, 'abort')
  })
  const socket = server.read().setEncoding('utf8')
  await began.promise
  streams.end()
  for await (const text of socket) if (text.endsWith('0\r\n\r\n')) break
  await server.served
})
