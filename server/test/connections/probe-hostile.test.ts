/** Hostile servers in interactive calls. */
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { after, test } from 'node:test'
import { registerPerson, startApp } from '../harness/app.ts'

const app = await startApp({ EGRESS_ALLOW: '127.0.0.1' })
const person = await registerPerson(app)
const sockets = new Set<Socket>()
const servers: Server[] = []
after(() => {
  for (const socket of sockets) socket.destroy()
  for (const server of servers) server.close()
})

async function listen(answer: (socket: Socket) => void): Promise<number> {
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('data', () => answer(socket))
  })
  servers.push(server)
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return (server.address() as AddressInfo).port
}

const check = (port: number, as = person) =>
  app.call('POST', '/api/connectors/check', {
    as,
    body: { source: { name: 'postgres', config: { host: '127.0.0.1', port, user: 'u', tls: { mode: 'disable' } } } },
  })

test('a message without an end is cut off', async () => {
  let sent = 0
  const port = await listen((socket) => {
    const chunk = Buffer.alloc(1 << 20, 'x')
    const head = Buffer.from('E\0\0\0\0')
    head.writeUInt32BE(0x7fffffff, 1)
    socket.write(head)
    const send = (): void => {
      while (!socket.destroyed) {
        sent += chunk.length
        if (!socket.write(chunk)) return void socket.once('drain', send)
      }
    }
    send()
  })
  const { status, body } = await check(port)
  assert.deepEqual([status, body.success], [200, false])
  assert.ok(sent < 1 << 30, `${sent} bytes were taken`)
  assert.ok(body.message.length < 5000)
})

test('one organization has a limit of concurrent and waiting probes, and another is not delayed', async () => {
  const AT_ONCE = 4
  const IN_ALL = 64
  const hanging = Promise.withResolvers<void>()
  let waiting = 0
  let most = 0
  let released = false
  const port = await listen((socket) => {
    if (released) return void socket.destroy()
    most = Math.max(most, ++waiting)
    // On a busy machine one may have given up before the end of the test.
    socket.once('close', () => waiting--)
    if (waiting === AT_ONCE) hanging.resolve()
  })
  const checks = Array.from({ length: IN_ALL }, () => check(port))
  await hanging.promise
  const refused = await check(port)
  assert.equal(refused.status, 429)
  assert.ok(Number(refused.headers['retry-after']) > 0)
  const other = await registerPerson(app, 'Other')
  const answer = await app.call('POST', '/api/connectors/check', { as: other, body: { source: { name: 'dummy' } } })
  assert.equal(answer.body.success, true)
  assert.equal(most, AT_ONCE)
  released = true
  for (const socket of sockets) socket.destroy()
  for (const { status, body } of await Promise.all(checks)) assert.deepEqual([status, body.success], [200, false])
  assert.equal((await check(await listen((socket) => socket.destroy()))).status, 200)
})
