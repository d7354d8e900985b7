/**
 * Negotiates TLS. The server answers with a single byte, S or N; anything else is not PostgreSQL, and bytes that come
 * with it were sent before encryption, possibly by a man in the middle.
 */
import { isIP, type Socket } from 'node:net'
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls'
import { kinds, Violation } from './frames.ts'

const request = Buffer.from([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])
const YES = 0x53
const NO = 0x4e

/** Null if the server does not offer TLS. The caller must destroy the socket if this takes too long. */
export async function startTls(socket: Socket, host: string, options: ConnectionOptions): Promise<TLSSocket | null> {
  const answer = await askForTls(socket)
  if (answer.length === 1 && answer[0] === NO) return null
  // A server that is being shut down says no, and with it why it ends the connection: this is one that was lost.
  if (answer[0] === NO && answer[1] === kinds.error) throw new Error('the connection was closed')
  if (answer.length !== 1 || answer[0] !== YES)
    throw new Violation(
      `it answered the request for TLS with ${JSON.stringify(answer.toString('latin1', 0, 40))} instead of S or N`,
    )
  return encrypt(socket, host, options)
}

function askForTls(socket: Socket): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const settle = () => {
      socket.off('data', take).off('error', fail).off('close', close)
      socket.pause()
    }
    const take = (chunk: Buffer) => {
      settle()
      resolve(chunk)
    }
    const fail = (error: Error) => {
      settle()
      reject(error)
    }
    const close = () => fail(new Error('the connection was closed'))
    socket.once('data', take).once('error', fail).once('close', close)
    socket.write(request)
  })
}

function encrypt(socket: Socket, host: string, options: ConnectionOptions): Promise<TLSSocket> {
  return new Promise((resolve, reject) => {
    // SNI: a host name, never an address (RFC 6066).
    const name = isIP(host) === 0 ? { servername: host } : {}
    const secure = connect({ socket, host, ...name, ...options })
    // The listener stays: an unhandled 'error' event would end the process.
    secure.on('error', reject)
    secure.once('close', () => reject(new Error('the connection was closed')))
    secure.once('secureConnect', () => resolve(secure))
  })
}
