/**
 * Servers that look like PostgreSQL up to a point and then turn hostile, each a few lines on 127.0.0.1. Some would keep
 * a careless client busy forever, some would end its process, some would fill its memory.
 */
import { connect, type Socket } from 'node:net'
import { listen, type Peer, sendForever } from './peers.ts'
import {
  authentication,
  complete,
  dataRow,
  frame,
  head,
  int16,
  int32,
  keyData,
  notice,
  notification,
  parameter,
  ready,
  rowDescription,
  serverError,
  welcome,
} from './postgres-frames.ts'

export interface HostilePostgres {
  /** Answers the TLS request. Absent: TLS is not offered. */
  tls?(socket: Socket): void
  /** Answers the start of a session. Absent: everyone is let in. */
  login?(socket: Socket): void
  /** Answers everything after that. */
  query?(socket: Socket): void
  /** Only a timeout ends it. */
  silent?: boolean
}

const number = 23
const timestamp = 1184
const digits = dataRow(['9'.repeat(40_000)])
const copyOutResponse = frame('H', '\0', int16(1), int16(0))
const copyInResponse = frame('G', '\0', int16(1), int16(0))

export const hostilePostgres: Record<string, HostilePostgres> = {
  'says nothing': { login() {}, silent: true },
  'speaks HTTP': { login: (socket) => socket.end('HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n') },
  'sends an empty error': { login: (socket) => socket.write(head('E', 4)) },
  'sends an error with an unterminated text': { login: (socket) => socket.write(frame('E', 'SERROR\0Mno end')) },
  'sends an unterminated error': { login: (socket) => socket.write(frame('E', 'SERROR\0CXX000\0Mx\0')) },
  'sends an error of two gigabytes': {
    login(socket) {
      socket.write(head('E', 0x7fffffff))
      sendForever(socket, Buffer.alloc(1 << 20, 'x'))
    },
  },
  'sends an error of a megabyte': { login: (socket) => socket.write(serverError('x'.repeat(1_000_000))) },
  'asks for authentication of an unknown type': { login: (socket) => socket.write(authentication(99)) },
  'asks for Kerberos': { login: (socket) => socket.write(authentication(7)) },
  'asks for a thousand rounds of SASL': {
    login(socket) {
      socket.write(authentication(10, 'SCRAM-SHA-256\0\0'))
      socket.write(Buffer.concat(new Array(1000).fill(authentication(11, 'r=x,s=eA==,i=4096'))))
    },
  },
  'asks for a billion hash iterations': {
    login(socket) {
      socket.write(authentication(10, 'SCRAM-SHA-256\0\0'))
      socket.once('data', (answer) => {
        const nonce = /r=([^,]+)$/.exec(answer.toString())?.[1]
        socket.write(authentication(11, `r=${nonce}x,s=c2FsdA==,i=1000000000`))
      })
    },
  },
  'asks for the password a million times': { login: (socket) => sendForever(socket, authentication(3)) },
  'is ready before the login': { login: (socket) => socket.write(ready) },
  'wants another protocol': { login: (socket) => socket.write(frame('v', int32(0), int32(0))) },
  'sends a key of odd size': {
    login: (socket) => socket.write(Buffer.concat([authentication(0), frame('K', Buffer.alloc(5))])),
  },
  'sends parameters endlessly': {
    login(socket) {
      socket.write(authentication(0))
      sendForever(socket, parameter('server_version', '1.'.repeat(10_000)))
    },
  },
  'sends notices endlessly': { login: (socket) => sendForever(socket, notice) },
  'sends keys endlessly': {
    login(socket) {
      socket.write(authentication(0))
      sendForever(socket, keyData)
    },
  },
  'answers the TLS request with an error': { tls: (socket) => socket.write(serverError('no TLS today')) },
  'answers the TLS request with noise': { tls: (socket) => socket.write('\x16\x03\x01') },
  'refuses TLS and keeps talking': { tls: (socket) => socket.write(Buffer.concat([Buffer.from('N'), welcome])) },
  'agrees to TLS and sends plain text': { tls: (socket) => socket.write(Buffer.concat([Buffer.from('S'), welcome])) },
  'agrees to TLS and sends noise': {
    tls(socket) {
      socket.write('S')
      socket.once('data', () => sendForever(socket, Buffer.alloc(1 << 16, 7)))
    },
  },
  'agrees to TLS and never starts it': { tls: (socket) => socket.write('S'), silent: true },
  'describes 65,535 columns': { query: (socket) => socket.write(frame('T', int16(0xffff))) },
  'describes columns that are not there': { query: (socket) => socket.write(frame('T', int16(1000), 'a\0')) },
  'sends a row of 32,767 values without bytes': {
    query: (socket) => socket.write(Buffer.concat([rowDescription([['a', number]]), frame('D', int16(0x7fff))])),
  },
  'sends a value of negative length': {
    query: (socket) =>
      socket.write(Buffer.concat([rowDescription([['a', number]]), frame('D', int16(1), int32(-1_000_000))])),
  },
  'sends rows that do not fit their description': {
    query: (socket) => socket.write(Buffer.concat([rowDescription([['a', number]]), dataRow(['1', '2'])])),
  },
  'sends a time of 40,000 digits': {
    query(socket) {
      socket.write(rowDescription([['a', timestamp]]))
      for (let row = 0; row < 200; row += 1) socket.write(digits)
      socket.end()
    },
  },
  'sends rows endlessly': {
    query(socket) {
      socket.write(rowDescription([['a', number]]))
      sendForever(socket, dataRow(['1']))
    },
  },
  'sends empty rows endlessly': {
    query(socket) {
      socket.write(rowDescription([]))
      sendForever(socket, dataRow([]))
    },
  },
  'sends results endlessly': { query: (socket) => sendForever(socket, complete()) },
  'sends wide results endlessly': {
    query: (socket) =>
      sendForever(
        socket,
        Buffer.concat([
          rowDescription(Array.from({ length: 1664 }, (_, index) => [`c${index}`, number])),
          complete('SELECT 0'),
        ]),
      ),
  },
  'sends notifications endlessly': { query: (socket) => sendForever(socket, notification) },
  'never becomes ready': { query: (socket) => socket.write(complete()), silent: true },
  'is ready three times': { query: (socket) => socket.write(Buffer.concat([complete(), ready, ready, ready])) },
  'is ready without an answer': { query: (socket) => socket.write(ready) },
  'suspends a portal': { query: (socket) => sendForever(socket, frame('s')) },
  'describes parameters': { query: (socket) => socket.write(frame('t', int16(0x7fff))) },
  'asks for rows that are not sent': { query: (socket) => socket.write(frame('G', '\0', int16(0))) },
  'copies rows that were not requested': {
    query(socket) {
      socket.write(frame('H', '\0', int16(0)))
      sendForever(socket, frame('d', 'a row\n'))
    },
  },
  replicates: { query: (socket) => socket.write(frame('W', '\0', int16(0))) },
  'sends a message of an unknown kind': { query: (socket) => socket.write(frame('?', 'what')) },
}

const TLS_REQUEST = 80_877_103

export function startHostilePostgres(kind: HostilePostgres): Promise<Peer> {
  return listen((socket) => {
    let letIn = false
    const hear = (chunk: Buffer): void => {
      if (letIn) return void kind.query?.(socket)
      if (chunk.length === 8 && chunk.readUInt32BE(4) === TLS_REQUEST) {
        if (!kind.tls) return void socket.write('N')
        socket.off('data', hear)
        return void kind.tls(socket)
      }
      letIn = true
      if (!kind.login) return void socket.write(welcome)
      socket.off('data', hear)
      kind.login(socket)
    }
    socket.on('data', hear)
  })
}

/**
 * A real server behind a tampered connection: when `text` is queried, the answer is ours, and the server is not heard
 * again.
 */
export function startTamperedPostgres(
  target: { host: string; port: number },
  text: string,
  answer: (socket: Socket) => void,
): Promise<Peer> {
  return listen((client) => {
    const upstream = connect(target.port, target.host)
    upstream.on('error', () => client.destroy()).on('close', () => client.destroy())
    client.on('close', () => upstream.destroy())
    upstream.on('data', (chunk) => client.write(chunk))
    const hear = (chunk: Buffer): void => {
      if (!chunk.includes(text)) return void upstream.write(chunk)
      client.off('data', hear)
      client.resume()
      upstream.removeAllListeners('data').resume()
      answer(client)
    }
    client.on('data', hear)
  })
}

/** What such a connection may send instead of an honest answer to COPY … TO STDOUT. */
export const hostileCopyOut: Record<string, (socket: Socket) => void> = {
  'sends a row of impossible length': (socket) => socket.write(Buffer.concat([copyOutResponse, head('d', 3)])),
  'sends a row of two gigabytes': (socket) => socket.write(Buffer.concat([copyOutResponse, head('d', 0x80000000)])),
  'asks for rows instead of sending them': (socket) => socket.write(frame('G', '\0', int16(0))),
  'sends rows before it announces them': (socket) => socket.write(frame('d', '1\n')),
  'sends binary rows': (socket) => socket.write(frame('H', '\x01', int16(0))),
  'is ready in the middle': (socket) => socket.write(Buffer.concat([copyOutResponse, frame('d', '1\n'), ready])),
  'sends notices endlessly': (socket) => {
    socket.write(copyOutResponse)
    sendForever(socket, notice)
  },
  'describes a result': (socket) => socket.write(rowDescription([['a', number]])),
  'fails without a message': (socket) => socket.write(Buffer.concat([copyOutResponse, frame('E', '\0')])),
}

/** The same for COPY … FROM STDIN. */
export const hostileCopyIn: Record<string, (socket: Socket) => void> = {
  'sends rows instead of taking them': (socket) => socket.write(copyOutResponse),
  'confirms all rows before they were sent': (socket) =>
    socket.write(Buffer.concat([copyInResponse, complete('COPY 10'), ready])),
  'is ready instead of taking rows': (socket) => socket.write(ready),
  'sends notifications endlessly': (socket) => {
    socket.write(copyInResponse)
    sendForever(socket, notification)
  },
  'suspends a portal': (socket) => socket.write(Buffer.concat([copyInResponse, frame('s')])),
}

const sendRows = (rows: string) => (socket: Socket) =>
  socket.write(Buffer.concat([copyOutResponse, frame('d', rows), frame('c'), complete('COPY 1'), ready]))

/** The same for an incremental read, which requests its cursor with each row. */
export const hostileCursors: Record<string, (socket: Socket) => void> = {
  'leaves out the cursor': sendRows('{"id":1}\n'),
  'sends an invalid cursor': sendRows('{"id":1}\x02[\x02[1]\n'),
}
