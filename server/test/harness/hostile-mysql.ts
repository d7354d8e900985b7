/** Servers that look like MySQL to a point and then mean harm, each a few lines on 127.0.0.1. */
import type { Socket } from 'node:net'
import { listen, type Peer, sendForever } from './peers.ts'

export const packet = (sequence: number, ...parts: (string | Buffer)[]): Buffer => {
  const payload = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part, 'latin1') : part)))
  const head = Buffer.alloc(4)
  head.writeUIntLE(payload.length, 0, 3)
  head[3] = sequence & 0xff
  return Buffer.concat([head, payload])
}

const PROTOCOL_41 = 0x200
const SECURE = 0x8000
const PLUGINS = 0x8_0000
const SALT = 'abcdefgh12345678abcd'

/** The first packet of a server, with or without TLS. */
export function handshake(plugin = 'mysql_native_password', extra = 0): Buffer {
  const flags = (PROTOCOL_41 | SECURE | PLUGINS | extra) >>> 0
  const numbers = Buffer.alloc(9)
  numbers.writeUInt16LE(flags & 0xffff, 0)
  numbers.writeUInt8(45, 2)
  numbers.writeUInt16LE(2, 3)
  numbers.writeUInt16LE(flags >>> 16, 5)
  numbers.writeUInt8(21, 7)
  return packet(
    0,
    '\x0a8.4.0\0',
    Buffer.from([1, 0, 0, 0]),
    SALT.slice(0, 8),
    '\0',
    numbers.subarray(0, 8),
    Buffer.alloc(10),
    SALT.slice(8),
    '\0',
    plugin,
    '\0',
  )
}

export const ok = (sequence: number): Buffer => packet(sequence, Buffer.from([0, 0, 0, 2, 0, 0, 0]))
const eof = (sequence: number): Buffer => packet(sequence, Buffer.from([0xfe, 0, 0, 2, 0]))
const text = (value: string): Buffer => Buffer.concat([Buffer.from([value.length]), Buffer.from(value)])
const column = (sequence: number): Buffer =>
  packet(
    sequence,
    text('def'),
    text(''),
    text(''),
    text(''),
    text('a'),
    text(''),
    Buffer.from([12, 45, 0, 0, 1, 0, 0, 253, 0, 0, 0, 0, 0]),
  )
const request = (sequence: number, file: string): Buffer => packet(sequence, '\xfb', file)
const moreData = (sequence: number, ...bytes: number[]): Buffer => packet(sequence, Buffer.from([1, ...bytes]))
const switchTo = (sequence: number, plugin: string): Buffer => packet(sequence, '\xfe', plugin, '\0', SALT, '\0')

export interface HostileMysql {
  /** What it sends first. Absent: an honest handshake. */
  greet?(socket: Socket): void
  /** Answers the login. Absent: everybody is let in. */
  login?(socket: Socket): void
  /** Answers every query after those that open a session. */
  query?(socket: Socket): void
}

export const hostileMysql: Record<string, HostileMysql> = {
  'speaks HTTP': { greet: (socket) => socket.end('HTTP/1.1 400 Bad Request\r\n\r\n') },
  'announces a giant packet': { greet: (socket) => socket.write(Buffer.from([0xff, 0xff, 0xff, 0, 10])) },
  'sends a packet without end': {
    greet(socket) {
      socket.write(Buffer.from([0xff, 0xff, 0, 0]))
      sendForever(socket, Buffer.alloc(65536, 10))
    },
  },
  'sends a handshake that is cut off': { greet: (socket) => socket.write(packet(0, '\x0a8.4.0\0abc')) },
  'sends a version without end': { greet: (socket) => socket.write(packet(0, '\x0a', 'x'.repeat(1000))) },
  'speaks an old protocol': { greet: (socket) => socket.write(packet(0, '\x093.23\0')) },
  'begins with the wrong number': { greet: (socket) => socket.write(Buffer.concat([packet(5, '\x0a8.4.0\0')])) },
  'sends two handshakes': {
    greet: (socket) =>
      socket.write(Buffer.concat([handshake(), packet(1, 'x'), packet(2, 'x'), packet(3, 'x'), packet(4, 'x')])),
  },
  'asks for the old password': { login: (socket) => socket.write(packet(2, '\xfe')) },
  'asks for the password in clear text': { login: (socket) => socket.write(switchTo(2, 'mysql_clear_password')) },
  'asks for the whole password without TLS': {
    greet: (socket) => socket.write(handshake('caching_sha2_password')),
    login: (socket) => socket.write(moreData(2, 4)),
  },
  'asks for a plugin that nobody has': { login: (socket) => socket.write(switchTo(2, 'dialog')) },
  'asks for one plugin after another': {
    login(socket) {
      socket.write(switchTo(2, 'mysql_native_password'))
      let sequence = 2
      socket.on('data', () => {
        sequence += 2
        socket.write(switchTo(sequence, 'mysql_native_password'))
      })
    },
  },
  'goes on with the login for ever': {
    greet: (socket) => socket.write(handshake('caching_sha2_password')),
    login(socket) {
      for (let sequence = 2; sequence < 200; sequence += 1) socket.write(moreData(sequence, 3))
    },
  },
  'asks for a file at the login': { login: (socket) => socket.write(request(2, '/etc/passwd')) },
  'sends more after the login': { login: (socket) => socket.write(Buffer.concat([ok(2), ok(3)])) },
  'asks for a file in answer to a query': { query: (socket) => socket.write(request(1, '/etc/passwd')) },
  'announces two billion columns': {
    query: (socket) => socket.write(packet(1, Buffer.from([0xfe, 0, 0, 0, 0x80, 0, 0, 0, 0]))),
  },
  'announces more columns than there can be': {
    query: (socket) => socket.write(packet(1, Buffer.from([0xfc, 0xff, 0xff]))),
  },
  'sends columns without end': {
    query(socket) {
      socket.write(packet(1, Buffer.from([2])))
      let sequence = 2
      const send = (): void => {
        if (socket.writable) socket.write(column(sequence++), () => setImmediate(send))
      }
      send()
    },
  },
  'sends a column that is cut off': {
    query: (socket) => socket.write(Buffer.concat([packet(1, '\x01'), packet(2, '\x03def\x00')])),
  },
  'sends rows out of order': {
    query: (socket) => socket.write(Buffer.concat([packet(1, '\x01'), column(2), eof(3), packet(9, text('x'))])),
  },
  'sends a row that is shorter than its value': {
    query: (socket) => socket.write(Buffer.concat([packet(1, '\x01'), column(2), eof(3), packet(4, '\xc8abc')])),
  },
  'sends a row with too many values': {
    query: (socket) =>
      socket.write(Buffer.concat([packet(1, '\x01'), column(2), eof(3), packet(4, text('1'), text('2'))])),
  },
  'sends rows without end': {
    query(socket) {
      socket.write(Buffer.concat([packet(1, '\x01'), column(2), eof(3)]))
      let sequence = 4
      const row = Buffer.alloc(0x8000, 'x')
      const send = (): void => {
        if (socket.writable)
          socket.write(packet(sequence++, Buffer.from([0xfc, 0xf0, 0x7f]), row.subarray(0, 0x7ff0)), () =>
            setImmediate(send),
          )
      }
      send()
    },
  },
  'sends a row of a gigabyte': {
    query(socket) {
      socket.write(Buffer.concat([packet(1, '\x01'), column(2), eof(3)]))
      const full = Buffer.alloc(0xffffff + 4, 'x')
      let sequence = 4
      const send = (): void => {
        full.writeUIntLE(0xffffff, 0, 3)
        full[3] = sequence++ & 0xff
        if (sequence < 70 && socket.writable) socket.write(Buffer.from(full), () => setImmediate(send))
      }
      send()
    },
  },
  'reports progress without end': {
    query(socket) {
      let sequence = 1
      const send = (): void => {
        if (socket.writable)
          socket.write(packet(sequence++, '\xff\xff\xff\x01\x01\x01\x00\x00\x00'), () => setImmediate(send))
      }
      send()
    },
  },
  'sends compressed bytes': {
    query: (socket) =>
      socket.write(
        Buffer.from([20, 0, 0, 0, 60, 0, 0, 0x78, 0x9c, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17]),
      ),
  },
  'announces a second result': { query: (socket) => socket.write(packet(1, Buffer.from([0, 0, 0, 10, 0, 0, 0]))) },
  'hangs up in the middle of a row': {
    query(socket) {
      socket.end(Buffer.concat([packet(1, '\x01'), column(2), eof(3), packet(4, text('hello')).subarray(0, 6)]))
    },
  },
  'sends a second answer': {
    query: (socket) => socket.write(Buffer.concat([packet(1, '\x01'), column(2), eof(3), eof(4), ok(5), ok(6)])),
  },
}

/** Everything that the client sent is kept. */
export async function startHostileMysql(kind: HostileMysql): Promise<Peer & { received(): Buffer }> {
  const received: Buffer[] = []
  const peer = await listen((socket) => {
    let asked = -1
    if (kind.greet === undefined) socket.write(handshake())
    else kind.greet(socket)
    socket.on('data', (chunk: Buffer) => {
      received.push(chunk)
      asked += 1
      if (asked === 0) kind.login === undefined ? socket.write(ok(2)) : kind.login(socket)
      else if (asked > 3 && kind.query !== undefined && !chunk.includes('@@max_allowed_packet')) kind.query(socket)
      else if (kind.login === undefined) socket.write(ok(1))
    })
  })
  return { ...peer, received: () => Buffer.concat(received) }
}
