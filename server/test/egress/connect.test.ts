import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { createEgress, type EgressOptions } from '../../src/egress/policy.ts'

/** Sends a greeting, so that a test sees whether it was reached. */
let server: Server
let port: number
const accepted = new Set<Socket>()

before(async () => {
  server = createServer((socket) => {
    accepted.add(socket.on('error', () => {}))
    socket.write('hello')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  port = (server.address() as { port: number }).port
})

after(() => {
  for (const socket of accepted) socket.destroy()
  server.close()
})

function open(options: Partial<EgressOptions> = {}) {
  return createEgress({ allow: ['127.0.0.0/8', '::1'], self: [], ...options })
}

const noLookup = async () => assert.fail('a literal address is not looked up')

describe('connect', () => {
  test('returns a connected socket for an allowed address', async () => {
    const socket = await open({ lookup: noLookup }).connect('127.0.0.1', port)
    const [greeting] = await once(socket, 'data')
    assert.equal(String(greeting), 'hello')
    socket.destroy()
  })

  test('reaches a name at its checked answer', async () => {
    const asked: string[] = []
    const lookup = async (host: string) => {
      asked.push(host)
      return [{ address: '127.0.0.1', family: 4 }]
    }
    const socket = await open({ lookup }).connect('Db.Internal.', port)
    assert.equal(socket.remotePort, port)
    assert.deepEqual(asked, ['db.internal'])
    socket.destroy()
  })

  test('a name that changes its answer after the check is still reached at the checked one', async () => {
    // The classic rebinding server: public first, then ours. It is asked only once, so it never gives a second answer.
    const answers = [[{ address: '127.0.0.1', family: 4 }], [{ address: '10.0.0.5', family: 4 }]]
    const egress = open({ lookup: async () => answers.shift() ?? assert.fail('asked too often') })
    const socket = await egress.connect('rebind.example', port)
    assert.equal(socket.remoteAddress, '127.0.0.1')
    assert.equal(answers.length, 1)
    socket.destroy()
    await assert.rejects(egress.connect('rebind.example', port), {
      reason: 'address',
      message: /rebind\.example \(private network\)/,
    })
  })

  test('only answers that pass are dialled', async () => {
    const answers = [
      { address: '10.255.255.1', family: 4 },
      { address: 'fe80::1%lo', family: 6 },
      { address: '127.0.0.1', family: 4 },
    ]
    const socket = await open({ lookup: async () => answers }).connect('many.example', port)
    assert.equal(socket.remoteAddress, '127.0.0.1')
    socket.destroy()
  })

  test('a name with only closed answers is refused without revealing the addresses', async () => {
    const lookup = async () => [
      { address: '10.0.0.5', family: 4 },
      { address: '::ffff:10.0.0.6', family: 6 },
    ]
    await assert.rejects(open({ lookup }).connect('db.internal', port), {
      name: 'EgressRefused',
      reason: 'address',
      message: 'connections to db.internal (private network) are not allowed; an operator can add it to EGRESS_ALLOW',
    })
  })

  test('every notation of loopback is refused unless allowed', async () => {
    const egress = createEgress({ allow: [], self: [] })
    for (const host of [
      '127.0.0.1',
      '127.1',
      '2130706433',
      '0x7f000001',
      '0177.0.0.1',
      '0x7f.1',
      '::1',
      '[::1]',
      '0.0.0.0',
      '::ffff:127.0.0.1',
      '::ffff:7f00:1',
      'localhost',
      'LOCALHOST.',
      '①②⑦.0.0.1',
    ])
      await assert.rejects(egress.connect(host, port), { name: 'EgressRefused', reason: 'address' }, host)
  })

  test('invalid hosts are refused before anything is resolved', async () => {
    const egress = open({ lookup: async () => assert.fail('looked up') })
    for (const host of ['/var/run/postgresql', '@abstract'])
      await assert.rejects(egress.connect(host, port), { reason: 'unix_socket' }, host)
    for (const host of [
      '',
      ' ',
      'fe80::1%eth0',
      '::1%lo',
      'a b',
      'user@host',
      'host/path',
      'host:5432',
      'ho\0st',
      '..',
      'a'.repeat(300),
      '[::1',
      'x\n',
    ])
      await assert.rejects(egress.connect(host, port), { reason: 'host' }, JSON.stringify(host))
    for (const wrong of [0, -1, 65536, 1.5, Number.NaN])
      await assert.rejects(egress.connect('127.0.0.1', wrong), { reason: 'port' }, String(wrong))
  })

  test('our own database is also refused by the address of its name; a public name of ours does not close others', async () => {
    const lookup = async (host: string) => {
      if (host === 'gone.internal') throw new Error('no such name')
      return [{ address: '127.0.0.1', family: 4 }]
    }
    const self = [
      { host: 'db.internal', port, by_address: true },
      { host: 'gone.internal', port, by_address: true },
    ]
    for (const host of ['127.0.0.1', 'alias.example', 'db.internal'])
      await assert.rejects(open({ self, lookup }).connect(host, port), { reason: 'self' }, host)
    const named = open({ self: [{ host: 'sluice.example', port }, self[1]!], lookup })
    const socket = await named.connect('127.0.0.1', port)
    socket.destroy()
  })

  test('the service itself is refused although loopback is allowed', async () => {
    const egress = open({ self: [{ host: '127.0.0.1', port }] })
    for (const host of ['127.0.0.1', '::ffff:127.0.0.1', 'localhost'])
      await assert.rejects(egress.connect(host, port), { name: 'EgressRefused' }, host)
  })

  test('a driver that calls connect again does not dial', async () => {
    const socket = await open().connect('127.0.0.1', port)
    const before = socket.localPort
    socket.connect(port, '127.0.0.1')
    await once(socket, 'connect')
    assert.equal(socket.localPort, before)
    socket.destroy()
  })

  test('failures say what to check', async () => {
    const closed = createServer().listen(0, '127.0.0.1')
    await once(closed, 'listening')
    const free = (closed.address() as { port: number }).port
    closed.close()
    await once(closed, 'close')
    await assert.rejects(open().connect('127.0.0.1', free), {
      name: 'EgressFailed',
      reason: 'connection',
      message: `cannot connect to 127.0.0.1:${free}: the connection was refused`,
    })
    const lookup = async () => Promise.reject(Object.assign(new Error('x'), { code: 'ENOTFOUND' }))
    await assert.rejects(open({ lookup }).connect('no.example', 1), {
      name: 'EgressFailed',
      reason: 'unknown_host',
      transient: false,
      message: 'the host no.example does not exist; check its name',
    })
    await assert.rejects(open({ lookup: async () => [] }).connect('no.example', 1), { reason: 'unknown_host' })
  })

  test('a name server that does not answer is a failure that may pass', async () => {
    const lookup = async () => Promise.reject(Object.assign(new Error('x'), { code: 'EAI_AGAIN' }))
    await assert.rejects(open({ lookup }).connect('some.example', 1), {
      reason: 'dns',
      transient: true,
      message: 'the host some.example cannot be resolved at the moment; try again later',
    })
  })

  test('a slow resolver ends with the timeout, a cancelled one at once', async () => {
    const egress = open({ lookup: () => new Promise(() => {}) })
    await assert.rejects(egress.connect('slow.example', port, { timeoutMs: 20 }), {
      name: 'EgressFailed',
      reason: 'timeout',
    })
    const cancelled = new Error('cancelled')
    const controller = new AbortController()
    const connecting = egress.connect('slow.example', port, { signal: controller.signal })
    controller.abort(cancelled)
    await assert.rejects(connecting, cancelled)
    await assert.rejects(open().connect('127.0.0.1', port, { signal: AbortSignal.abort(cancelled) }), cancelled)
  })
})
