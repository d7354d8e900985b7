/**
 * Hostile web servers, each a few lines on 127.0.0.1, written in raw bytes because Node's server would refuse to send
 * these.
 */
import type { Socket } from 'node:net'
import { brotliCompressSync, constants, createGzip, gzipSync, zstdCompressSync } from 'node:zlib'
import { listen, type Peer, sendForever } from './peers.ts'

export interface HostileHttp {
  answer(socket: Socket): void
  /** Only visible when reading on: the first bytes look like an ordinary file. */
  later?: boolean
  /** Only a timeout ends it. */
  silent?: boolean
}

const MB = 1 << 20
const ok = 'HTTP/1.1 200 OK\r\n'
const chunked = `${ok}transfer-encoding: chunked\r\n\r\n`

const redirect = (to: string) => `HTTP/1.1 302 Found\r\nlocation: ${to}\r\ncontent-length: 0\r\n\r\n`

const whole = (body: Buffer | string, headers = '') =>
  Buffer.concat([
    Buffer.from(`${ok}content-length: ${Buffer.byteLength(body)}\r\n${headers}\r\n`),
    Buffer.from(body as string),
  ])

/** A small body that decompresses to more than any answer may have. */
function bomb(encoding: string, pack: (bytes: Buffer) => Buffer): HostileHttp {
  let body: Buffer | null = null
  return {
    later: true,
    answer(socket) {
      body ??= pack(Buffer.alloc(80 * MB))
      socket.write(whole(body, `content-encoding: ${encoding}\r\n`))
    },
  }
}

/** Sends a byte now and then. */
function drip(socket: Socket, text: string): void {
  let at = 0
  const timer = setInterval(() => socket.writable && socket.write(text[at++ % text.length]!), 50)
  socket.on('close', () => clearInterval(timer))
}

export const hostileHttp: Record<string, HostileHttp> = {
  'says nothing': { answer() {}, silent: true },
  'hangs up': { answer: (socket) => socket.destroy() },
  'does not speak HTTP': { answer: (socket) => socket.end('220 ready for mail\r\n') },
  'sends noise endlessly': { answer: (socket) => sendForever(socket, Buffer.alloc(1 << 16, 7)) },
  'starts HTTP/2 unasked': {
    answer: (socket) => socket.write(Buffer.concat([Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0]), Buffer.alloc(9)])),
  },
  'sends an endless status line': {
    silent: true,
    answer(socket) {
      socket.write('HTTP/1.1 200 ')
      sendForever(socket, Buffer.alloc(1 << 16, 'O'))
    },
  },
  'sends headers endlessly': {
    answer(socket) {
      socket.write(ok)
      sendForever(socket, Buffer.from('x-header: value\r\n'))
    },
  },
  'sends an endless header': {
    answer(socket) {
      socket.write(`${ok}x-header: `)
      sendForever(socket, Buffer.alloc(1 << 16, 'x'))
    },
  },
  'sends a header of a megabyte': { answer: (socket) => socket.write(`${ok}x: ${'x'.repeat(MB)}\r\n\r\n`) },
  'sends a hundred thousand headers': { answer: (socket) => socket.write(`${ok}${'a:b\r\n'.repeat(100_000)}\r\n`) },
  'sends its headers a byte at a time': {
    silent: true,
    answer(socket) {
      socket.write(ok)
      drip(socket, 'x-header: value\r\n')
    },
  },
  'sends 100 Continue endlessly': {
    answer: (socket) => sendForever(socket, Buffer.from('HTTP/1.1 100 Continue\r\n\r\n')),
  },
  'sends early hints endlessly': {
    silent: true,
    answer: (socket) => sendForever(socket, Buffer.from('HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n')),
  },
  'announces more than it sends': { answer: (socket) => socket.end(`${ok}content-length: 100\r\n\r\n{"id": 1}\n`) },
  'has two lengths': { answer: (socket) => socket.write(`${ok}content-length: 2\r\ncontent-length: 3\r\n\r\n{}\n`) },
  'has a length that is not a number': { answer: (socket) => socket.write(`${ok}content-length: many\r\n\r\n{}\n`) },
  'has a length and chunks': {
    answer: (socket) =>
      socket.write(`${ok}content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n3\r\n{}\n\r\n0\r\n\r\n`),
  },
  'sends invalid chunks': { answer: (socket) => socket.write(`${chunked}no number\r\n{}\r\n`) },
  'sends a chunk with an endless size': {
    answer(socket) {
      socket.write(chunked)
      sendForever(socket, Buffer.alloc(1 << 16, '0'))
    },
  },
  'sends an endless chunk extension': {
    silent: true,
    answer(socket) {
      socket.write(`${chunked}3;`)
      sendForever(socket, Buffer.alloc(1 << 16, 'x'))
    },
  },
  'sends trailers endlessly': {
    answer(socket) {
      socket.write(`${chunked}3\r\n{}\n\r\n0\r\n`)
      sendForever(socket, Buffer.from('x-trailer: value\r\n'))
    },
  },
  'redirects in a circle': {
    answer: (socket) => socket.write('HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n'),
  },
  'redirects endlessly, with endless bodies': {
    answer(socket) {
      socket.write('HTTP/1.1 302 Found\r\nlocation: /again\r\n\r\n')
      sendForever(socket, Buffer.alloc(1 << 16, 'x'))
    },
  },
  'redirects to a private address': { answer: (socket) => socket.write(redirect('http://10.1.2.3/')) },
  'redirects to the metadata of the machine': {
    answer: (socket) => socket.write(redirect('http://169.254.169.254/latest/meta-data/')),
  },
  'redirects to a file': { answer: (socket) => socket.write(redirect('file:///etc/passwd')) },
  'redirects to an invalid address': { answer: (socket) => socket.write(redirect('http://[::/')) },
  'sends a gzip bomb': bomb('gzip', (bytes) => gzipSync(bytes)),
  'sends a Brotli bomb': bomb('br', (bytes) =>
    brotliCompressSync(bytes, { params: { [constants.BROTLI_PARAM_QUALITY]: 2 } }),
  ),
  'sends a zstd bomb': bomb('zstd', (bytes) => zstdCompressSync(bytes)),
  'sends a bomb in a bomb': bomb('gzip, gzip', (bytes) => gzipSync(gzipSync(bytes))),
  'sends an endless gzip stream': {
    later: true,
    answer(socket) {
      socket.write(`${ok}content-encoding: gzip\r\n\r\n`)
      const packed = createGzip()
      packed.on('data', (chunk) => socket.write(chunk))
      const zeros = Buffer.alloc(MB)
      const more = (): void => {
        if (socket.writable) packed.write(zeros, () => setImmediate(more))
      }
      more()
    },
  },
  'is compressed ten times': {
    answer: (socket) => socket.write(whole('{}\n', `content-encoding: ${new Array(10).fill('gzip').join(', ')}\r\n`)),
  },
  'has an unknown encoding': { answer: (socket) => socket.write(whole('{}\n', 'content-encoding: mystery\r\n')) },
  'announces gzip and sends none': {
    answer: (socket) => socket.write(whole('{"id": 1}\n', 'content-encoding: gzip\r\n')),
  },
  'sends an endless body': {
    later: true,
    answer(socket) {
      socket.write(`${ok}\r\n`)
      sendForever(socket, Buffer.from('{"id": 1}\n'))
    },
  },
  'sends an endless line': {
    later: true,
    answer(socket) {
      socket.write(`${ok}\r\n{"id": "`)
      sendForever(socket, Buffer.alloc(1 << 16, 'x'))
    },
  },
  'sends its body a byte at a time': {
    silent: true,
    answer(socket) {
      socket.write(`${ok}content-length: 1000000\r\n\r\n`)
      drip(socket, '{"id": 1}\n')
    },
  },
  'sends JSON a hundred thousand levels deep': {
    later: true,
    answer: (socket) => socket.write(whole(`${'{"a":'.repeat(100_000)}1${'}'.repeat(100_000)}\n`)),
  },
  'sends lists a hundred thousand levels deep': {
    later: true,
    answer: (socket) => socket.write(whole(`{"a":${'['.repeat(100_000)}${']'.repeat(100_000)}}\n`)),
  },
  'sends bytes that are not text': {
    later: true,
    answer: (socket) => socket.write(whole(Buffer.alloc(100_000, 0xff))),
  },
}

export function startHostileHttp(kind: HostileHttp): Promise<Peer> {
  return listen((socket) => {
    let asked = ''
    const hear = (chunk: Buffer): void => {
      asked += chunk.toString('latin1')
      if (!asked.includes('\r\n\r\n')) return
      asked = ''
      kind.answer(socket)
    }
    socket.on('data', hear)
  })
}
