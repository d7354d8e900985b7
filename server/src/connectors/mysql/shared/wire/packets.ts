/** The packets of a server, parsed strictly: every length is checked against the end of the packet. */
import { Violation } from './violation.ts'

export const capabilities = {
  longPassword: 1,
  /** An UPDATE counts the rows it found, not those it changed. */
  foundRows: 2,
  longFlag: 4,
  connectWithDatabase: 8,
  localFiles: 128,
  protocol41: 512,
  tls: 2048,
  transactions: 8192,
  secureConnection: 32768,
  pluginAuthentication: 1 << 19,
  connectAttributes: 1 << 20,
  lengthEncodedAuthentication: 1 << 21,
} as const

/** Reads one packet from its start to its end. */
export class Cursor {
  readonly bytes: Buffer
  readonly end: number
  readonly #name: string
  at: number

  constructor(bytes: Buffer, at: number, end: number, name: string) {
    this.bytes = bytes
    this.at = at
    this.end = end
    this.#name = name
  }

  get left(): number {
    return this.end - this.at
  }

  take(length: number): Buffer {
    if (length > this.left) throw new Violation(`its ${this.#name} is shorter than its content`)
    const part = this.bytes.subarray(this.at, this.at + length)
    this.at += length
    return part
  }

  integer(length: number): number {
    return this.take(length).readUIntLE(0, length)
  }

  /** A length-encoded number; throws for NULL and for what no honest server counts. */
  number(): number {
    const first = this.integer(1)
    if (first < 0xfb) return first
    if (first === 0xfc) return this.integer(2)
    if (first === 0xfd) return this.integer(3)
    if (first === 0xfe) {
      const value = this.take(8).readBigUInt64LE(0)
      if (value <= BigInt(Number.MAX_SAFE_INTEGER)) return Number(value)
    }
    throw new Violation(`its ${this.#name} has a number that cannot be one`)
  }

  /** A length-encoded string. */
  text(): string {
    return this.take(this.number()).toString('utf8')
  }

  zeroTerminated(): string {
    const zero = this.bytes.indexOf(0, this.at)
    if (zero < 0 || zero >= this.end) throw new Violation(`a string in its ${this.#name} is not terminated`)
    const text = this.bytes.toString('utf8', this.at, zero)
    this.at = zero + 1
    return text
  }
}

/** An error that the server reports. */
export class ServerError extends Error {
  override readonly name = 'ServerError'
  readonly errno: number
  readonly state: string
  constructor(errno: number, state: string, message: string) {
    super(message)
    this.errno = errno
    this.state = state
  }
}

const MAX_MESSAGE = 4096

export function readError(bytes: Buffer, at: number, end: number): ServerError {
  const cursor = new Cursor(bytes, at + 1, end, 'error')
  const errno = cursor.integer(2)
  if (errno === 0xffff) throw new Violation('it reports progress, which nobody asked for')
  let state = ''
  if (cursor.left >= 6 && bytes[cursor.at] === 0x23) state = cursor.take(6).toString('latin1', 1)
  const message = cursor.take(Math.min(cursor.left, MAX_MESSAGE)).toString('utf8')
  return new ServerError(errno, state, message)
}

export interface Done {
  affectedRows: number
  /** Bit 1: more results follow. */
  status: number
  warnings: number
  /** "Records: 3  Deleted: 0  Skipped: 0  Warnings: 0" */
  info: string
}

export function readDone(bytes: Buffer, at: number, end: number): Done {
  const cursor = new Cursor(bytes, at + 1, end, 'OK packet')
  const affectedRows = cursor.number()
  cursor.number()
  const status = cursor.integer(2)
  const warnings = cursor.integer(2)
  const info = cursor.take(Math.min(cursor.left, MAX_MESSAGE)).toString('utf8')
  return { affectedRows, status, warnings, info }
}

export interface ColumnDefinition {
  name: string
  /** 63: binary. */
  charset: number
  length: number
  type: number
  flags: number
  decimals: number
}

export function readColumn(bytes: Buffer, at: number, end: number): ColumnDefinition {
  const cursor = new Cursor(bytes, at, end, 'column definition')
  // Catalog, schema, table and the table's own name.
  for (let skipped = 0; skipped < 4; skipped += 1) cursor.take(cursor.number())
  const name = cursor.text()
  cursor.take(cursor.number())
  if (cursor.number() !== 12) throw new Violation('its column definition has an unknown form')
  return {
    name,
    charset: cursor.integer(2),
    length: cursor.integer(4),
    type: cursor.integer(1),
    flags: cursor.integer(2),
    decimals: cursor.integer(1),
  }
}

export interface Handshake {
  version: string
  capabilities: number
  plugin: string
  /** 20 random bytes. */
  salt: Buffer
  connectionId: number
}

const PROTOCOL = 10
const SALT = 20

export function readHandshake(bytes: Buffer, at: number, end: number): Handshake {
  const cursor = new Cursor(bytes, at, end, 'handshake')
  const protocol = cursor.integer(1)
  if (protocol !== PROTOCOL) throw new Violation(`it speaks version ${protocol} of the protocol, not ${PROTOCOL}`)
  const version = cursor.zeroTerminated()
  const connectionId = cursor.integer(4)
  const first = Buffer.from(cursor.take(8))
  cursor.take(1)
  const low = cursor.integer(2)
  cursor.take(3)
  const all = low + cursor.integer(2) * 0x10000
  const saltLength = cursor.integer(1)
  cursor.take(10)
  const needed = capabilities.protocol41 | capabilities.secureConnection | capabilities.pluginAuthentication
  if ((all & needed) !== needed)
    throw new Violation(
      'it is older than MySQL 5.7 and MariaDB 10.2: it does not know the ways to log in of today',
      'cannot be used',
    )
  const second = Buffer.from(cursor.take(Math.max(13, saltLength - 8)))
  const plugin = cursor.zeroTerminated()
  return { version, capabilities: all, plugin, salt: Buffer.concat([first, second]).subarray(0, SALT), connectionId }
}
