/**
 * From the first packet to a session: handshake, TLS, authentication. Every step is counted: a server may ask for another
 * plugin once, and go on a few times, but never in a loop.
 */
import { isIP, type Socket } from 'node:net'
import { connect as connectTls, type ConnectionOptions as TlsOptions } from 'node:tls'
import type { Target } from '../settings.ts'
import { answerMore, answerPlugin, type Secrets } from './authentication.ts'
import type { Connection } from './connection.ts'
import { Cursor, capabilities as can, type Handshake, readDone, readError, readHandshake } from './packets.ts'
import { Violation } from './violation.ts'

/** utf8mb4_general_ci; the session's own settings follow. */
const CHARSET = 45
const MAX_PACKET = 0x40000000
/** The plugin that the handshake names, and one that the user's account needs. */
const MAX_SWITCHES = 1
const MAX_ROUNDS = 3

export interface LoginOptions {
  target: Target
  /** Whether the session loads rows by LOAD DATA LOCAL. */
  localRows: boolean
  /** Shown in performance_schema.session_connect_attrs. */
  program: string
}

export async function login(connection: Connection, options: LoginOptions): Promise<Handshake> {
  const { target } = options
  const first = await connection.nextPacket()
  if (first[0] === 0xff) throw readError(first, 0, first.length)
  const handshake = readHandshake(first, 0, first.length)
  const encrypted = target.tls.mode !== 'disable' && (handshake.capabilities & can.tls) !== 0
  if (!encrypted && target.tls.mode !== 'disable' && target.tls.mode !== 'prefer')
    throw new Error('the server does not support TLS')
  const flags = chooseFlags(options, encrypted)
  if (encrypted) {
    connection.send(head(flags))
    connection.attach(await encrypt(connection.detach(), target))
  }
  const secrets: Secrets = { password: target.password, encrypted, publicKey: target.serverPublicKey }
  await authenticate(connection, { handshake, flags, secrets, options })
  connection.loggedIn()
  return handshake
}

function chooseFlags({ target, localRows }: LoginOptions, encrypted: boolean): number {
  return (
    can.longPassword |
    can.foundRows |
    can.longFlag |
    can.protocol41 |
    can.transactions |
    can.secureConnection |
    can.pluginAuthentication |
    can.connectAttributes |
    can.lengthEncodedAuthentication |
    (target.database === undefined ? 0 : can.connectWithDatabase) |
    (localRows ? can.localFiles : 0) |
    (encrypted ? can.tls : 0)
  )
}

function head(flags: number): Buffer {
  const bytes = Buffer.alloc(32)
  bytes.writeUInt32LE(flags, 0)
  bytes.writeUInt32LE(MAX_PACKET, 4)
  bytes[8] = CHARSET
  return bytes
}

interface Authentication {
  handshake: Handshake
  flags: number
  secrets: Secrets
  options: LoginOptions
}

async function authenticate(connection: Connection, input: Authentication): Promise<void> {
  const { handshake, flags, secrets, options } = input
  const { target, program } = options
  let { salt } = handshake
  // A plugin that we do not have is not refused yet: the account itself may need another.
  let plugin = handshake.plugin === 'caching_sha2_password' ? handshake.plugin : 'mysql_native_password'
  connection.send(
    Buffer.concat([
      head(flags),
      terminated(target.user),
      lengthEncoded(answerPlugin(plugin, salt, secrets)),
      target.database === undefined ? Buffer.alloc(0) : terminated(target.database),
      terminated(plugin),
      lengthEncoded(Buffer.concat([text('program_name'), text(program)])),
    ]),
  )
  let switches = 0
  for (let round = 0; round <= MAX_ROUNDS + MAX_SWITCHES; round += 1) {
    const packet = await connection.nextPacket()
    if (packet.length === 0) throw new Violation('it sent an empty packet')
    if (packet[0] === 0xff) throw readError(packet, 0, packet.length)
    if (packet[0] === 0) return void readDone(packet, 0, packet.length)
    if (packet[0] === 0xfe) {
      if (packet.length === 1)
        throw new Violation(
          'it asks for the way to log in of MySQL 4.0, which gives the password away',
          'cannot be logged in to',
        )
      switches += 1
      if (switches > MAX_SWITCHES) throw new Violation('it asks for one authentication plugin after another')
      const cursor = new Cursor(packet, 1, packet.length, 'request for another plugin')
      plugin = cursor.zeroTerminated()
      salt = Buffer.from(cursor.take(cursor.left)).subarray(0, 20)
      connection.send(answerPlugin(plugin, salt, secrets))
    } else if (packet[0] === 1) {
      const answer = answerMore(plugin, packet.subarray(1), salt, secrets)
      if (answer !== null) connection.send(answer)
    } else throw new Violation(`it answered the login with a packet of the unknown kind ${packet[0]}`)
  }
  throw new Violation('it never comes to the end of the login')
}

function terminated(value: string): Buffer {
  if (value.includes('\0')) throw new Violation('a name in the settings holds a U+0000', 'cannot be asked')
  return Buffer.from(`${value}\0`)
}

function text(value: string): Buffer {
  return lengthEncoded(Buffer.from(value))
}

function lengthEncoded(bytes: Buffer): Buffer {
  if (bytes.length < 0xfb) return Buffer.concat([Buffer.from([bytes.length]), bytes])
  const length = Buffer.from([0xfc, bytes.length & 0xff, bytes.length >> 8])
  return Buffer.concat([length, bytes])
}

function encrypt(socket: Socket, target: Target): Promise<Socket> {
  return new Promise((resolve, reject) => {
    // SNI: a host name, never an address (RFC 6066).
    const name = isIP(target.host) === 0 ? { servername: target.host } : {}
    const secure = connectTls({ socket, host: target.host, ...name, ...tlsOptions(target) })
    // The listener stays: an unhandled 'error' event would end the process.
    secure.on('error', reject)
    secure.once('close', () => reject(new Error('the connection was closed during the TLS handshake')))
    secure.once('secureConnect', () => resolve(secure))
  })
}

function tlsOptions({ tls }: Target): TlsOptions {
  const trusted = { ...(tls.ca === undefined ? {} : { ca: tls.ca }) }
  const own = tls.cert === undefined ? {} : { cert: tls.cert, key: tls.key! }
  if (tls.mode === 'verify-full') return { ...trusted, ...own, rejectUnauthorized: true }
  if (tls.mode === 'verify-ca' || (tls.mode === 'require' && tls.ca !== undefined))
    return { ...trusted, ...own, rejectUnauthorized: true, checkServerIdentity: () => undefined }
  return { ...own, rejectUnauthorized: false }
}
