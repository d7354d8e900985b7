/**
 * Validates the messages of a PostgreSQL server: how long each kind may be and what it must contain. The driver reads a
 * message without checking its length: an unterminated string makes it read on into the next message or forever, and a
 * negative count throws past every handler. So each message is checked here first, down to its last byte.
 */

/** A server that breaks the protocol. `verdict` completes a sentence about the server, and the message says why. */
export class Violation extends Error {
  override readonly name = 'Violation'
  readonly verdict: string
  constructor(reason: string, verdict = "does not speak PostgreSQL's protocol") {
    super(reason)
    this.verdict = verdict
  }
}

/** The first byte of each message that may come. */
export const kinds = {
  authentication: 0x52,
  keyData: 0x4b,
  parameter: 0x53,
  ready: 0x5a,
  error: 0x45,
  notice: 0x4e,
  notification: 0x41,
  rowDescription: 0x54,
  dataRow: 0x44,
  complete: 0x43,
  emptyQuery: 0x49,
  parsed: 0x31,
  bound: 0x32,
  closed: 0x33,
  noData: 0x6e,
  copyIn: 0x47,
  copyOut: 0x48,
  copyData: 0x64,
  copyDone: 0x63,
} as const

/** PostgreSQL's limit for columns in a result. */
const MAX_COLUMNS = 1664
const KB = 1024
const MB = 1024 * KB

interface Rule {
  name: string
  /** Bounds of the length field, which includes its own four bytes. */
  least: number
  most: number
  /** Throws if the bytes from `at` to `end`, after the length, are not valid for the kind. */
  check?(bytes: Buffer, at: number, end: number): void
}

const rules: (Rule | undefined)[] = []
rules[kinds.authentication] = { name: 'Authentication', least: 8, most: 16 * KB, check: checkAuthentication }
rules[kinds.keyData] = { name: 'BackendKeyData', least: 12, most: 12 }
rules[kinds.parameter] = { name: 'ParameterStatus', least: 6, most: 64 * KB, check: checkParameter }
rules[kinds.ready] = { name: 'ReadyForQuery', least: 5, most: 5, check: checkReady }
rules[kinds.error] = { name: 'ErrorResponse', least: 5, most: MB, check: checkError }
rules[kinds.notice] = { name: 'NoticeResponse', least: 5, most: MB, check: checkNotice }
rules[kinds.notification] = { name: 'NotificationResponse', least: 10, most: 64 * KB, check: checkNotification }
rules[kinds.rowDescription] = { name: 'RowDescription', least: 6, most: MB, check: checkRowDescription }
rules[kinds.dataRow] = { name: 'DataRow', least: 6, most: 32 * MB, check: checkDataRow }
rules[kinds.complete] = { name: 'CommandComplete', least: 5, most: KB, check: checkComplete }
rules[kinds.emptyQuery] = { name: 'EmptyQueryResponse', least: 4, most: 4 }
rules[kinds.parsed] = { name: 'ParseComplete', least: 4, most: 4 }
rules[kinds.bound] = { name: 'BindComplete', least: 4, most: 4 }
rules[kinds.closed] = { name: 'CloseComplete', least: 4, most: 4 }
rules[kinds.noData] = { name: 'NoData', least: 4, most: 4 }
rules[kinds.copyIn] = { name: 'CopyInResponse', least: 7, most: 7 + 2 * MAX_COLUMNS, check: checkCopyResponse }
rules[kinds.copyOut] = { name: 'CopyOutResponse', least: 7, most: 7 + 2 * MAX_COLUMNS, check: checkCopyResponse }
// PostgreSQL itself cannot build a longer message.
rules[kinds.copyData] = { name: 'CopyData', least: 4, most: 0x3fffffff + 4 }
rules[kinds.copyDone] = { name: 'CopyDone', least: 4, most: 4 }

/** Messages of PostgreSQL that never answer anything we send. */
const neverAsked: Record<string, string> = {
  s: 'PortalSuspended',
  t: 'ParameterDescription',
  v: 'NegotiateProtocolVersion',
  V: 'FunctionCallResponse',
  W: 'CopyBothResponse',
}

/** The length in a five-byte header, or a Violation if the kind is unknown or cannot be that long. */
export function readHead(bytes: Buffer, at: number): number {
  const rule = rules[bytes[at]!]
  if (rule === undefined) throw new Violation(`it sent ${nameOf(bytes[at]!)}`)
  const length = bytes.readUInt32BE(at + 1)
  if (length < rule.least || length > rule.most)
    throw new Violation(`it sent a message ${rule.name} with a length of ${length} bytes`)
  return length
}

export function nameOf(kind: number): string {
  const rule = rules[kind]
  if (rule !== undefined) return rule.name
  const letter = String.fromCharCode(kind)
  const known = Object.hasOwn(neverAsked, letter) ? neverAsked[letter] : undefined
  if (known !== undefined) return `${known}, which does not answer anything it was sent`
  return `a message of the unknown kind 0x${kind.toString(16).padStart(2, '0')}`
}

/** A whole message, from its kind to its `end`. */
export function checkFrame(bytes: Buffer, at: number, end: number): void {
  rules[bytes[at]!]?.check?.(bytes, at + 5, end)
}

/** The position after the string that starts at `at`. */
function skipText(bytes: Buffer, at: number, end: number, name: string): number {
  const zero = bytes.indexOf(0, at)
  if (zero < 0 || zero >= end) throw new Violation(`a string in its ${name} is not terminated`)
  return zero + 1
}

function expectEnd(at: number, end: number, name: string): void {
  if (at !== end) throw new Violation(`its ${name} is ${at < end ? 'longer' : 'shorter'} than its content`)
}

function checkReady(bytes: Buffer, at: number): void {
  // Idle, in a transaction, in one that failed.
  if (!'ITE'.includes(String.fromCharCode(bytes[at]!))) throw new Violation('its ReadyForQuery has an unknown status')
}

function checkComplete(bytes: Buffer, at: number, end: number): void {
  expectEnd(skipText(bytes, at, end, 'CommandComplete'), end, 'CommandComplete')
}

function checkParameter(bytes: Buffer, at: number, end: number): void {
  const value = skipText(bytes, at, end, 'ParameterStatus')
  expectEnd(skipText(bytes, value, end, 'ParameterStatus'), end, 'ParameterStatus')
}

function checkNotification(bytes: Buffer, at: number, end: number): void {
  const payload = skipText(bytes, at + 4, end, 'NotificationResponse')
  expectEnd(skipText(bytes, payload, end, 'NotificationResponse'), end, 'NotificationResponse')
}

/** Fields of one letter and a string each. Returns the letters. */
function checkFields(bytes: Buffer, from: number, end: number, name: string): string {
  let letters = ''
  let at = from
  while (at < end && bytes[at] !== 0) {
    letters += String.fromCharCode(bytes[at]!)
    at = skipText(bytes, at + 1, end, name)
    // There are about twenty fields; a million of them would only be sent to keep us busy.
    if (letters.length > 64) throw new Violation(`its ${name} has too many fields`)
  }
  expectEnd(at + 1, end, name)
  return letters
}

function checkNotice(bytes: Buffer, at: number, end: number): void {
  checkFields(bytes, at, end, 'NoticeResponse')
}

function checkError(bytes: Buffer, at: number, end: number): void {
  const letters = checkFields(bytes, at, end, 'ErrorResponse')
  for (const needed of 'SCM')
    if (!letters.includes(needed)) throw new Violation('its ErrorResponse has no severity, code or message')
}

function checkCount(bytes: Buffer, at: number, name: string): number {
  const count = bytes.readInt16BE(at)
  if (count < 0 || count > MAX_COLUMNS) throw new Violation(`its ${name} has ${count & 0xffff} columns`)
  return count
}

/** Bytes after the name of a column: table, number, type, size, modifier and format. */
const COLUMN_BYTES = 18

function checkRowDescription(bytes: Buffer, from: number, end: number): void {
  let at = from + 2
  for (let left = checkCount(bytes, from, 'RowDescription'); left > 0; left -= 1) {
    at = skipText(bytes, at, end, 'RowDescription') + COLUMN_BYTES
    if (at > end) break
    if (bytes.readInt16BE(at - 2) !== 0) throw new Violation('it describes a column in binary form')
  }
  expectEnd(at, end, 'RowDescription')
}

function checkDataRow(bytes: Buffer, from: number, end: number): void {
  let at = from + 2
  for (let left = checkCount(bytes, from, 'DataRow'); left > 0; left -= 1) {
    if (at + 4 > end) throw new Violation('its DataRow is shorter than its content')
    const length = bytes.readInt32BE(at)
    // -1 stands for null.
    if (length < -1 || length > end - at - 4) throw new Violation(`its DataRow has a value of ${length} bytes`)
    at += 4 + Math.max(length, 0)
  }
  expectEnd(at, end, 'DataRow')
}

/** Whether the form is the one that was asked for, the conversation knows. */
function checkCopyResponse(bytes: Buffer, at: number, end: number): void {
  expectEnd(at + 3 + 2 * checkCount(bytes, at + 1, 'answer to COPY'), end, 'answer to COPY')
}

/** By the type number at the start of an Authentication message. */
export const authentications = { ok: 0, password: 3, md5: 5, sasl: 10, saslContinue: 11, saslFinal: 12 } as const

const unsupported: Record<number, string> = { 2: 'Kerberos', 6: 'SCM', 7: 'GSSAPI', 8: 'GSSAPI', 9: 'SSPI' }
const exactLengths: Record<number, number> = { 0: 4, 3: 4, 5: 8 }

/**
 * PBKDF2 runs on the few threads that the whole process shares: a million iterations take one of them about half a
 * second.
 */
export const MAX_SCRAM_ROUNDS = 1_000_000

function checkAuthentication(bytes: Buffer, at: number, end: number): void {
  const type = bytes.readInt32BE(at)
  if (unsupported[type] !== undefined)
    throw new Violation(
      `it asks for ${unsupported[type]}, and only password authentication is supported`,
      'cannot be used',
    )
  if (!Object.values<number>(authentications).includes(type))
    throw new Violation(`it asks for authentication of the unknown type ${type}`)
  if (exactLengths[type] !== undefined && end - at !== exactLengths[type])
    throw new Violation(`its Authentication of type ${type} has a length of ${end - at + 4} bytes`)
  if (type === authentications.sasl) checkMechanisms(bytes, at + 4, end)
  if (type === authentications.saslContinue) checkRounds(bytes.toString('latin1', at + 4, end))
}

/** Strings, with an empty one at the end. */
function checkMechanisms(bytes: Buffer, from: number, end: number): void {
  let at = from
  while (at < end && bytes[at] !== 0) at = skipText(bytes, at, end, 'Authentication')
  expectEnd(at + 1, end, 'Authentication')
}

/** The driver uses the last of several counts, so all of them are checked. */
function checkRounds(message: string): void {
  const counts = [...message.matchAll(/(?:^|,)i=([^,]*)/g)].map(([, count]) => count!)
  if (counts.length === 0) throw new Violation('its SCRAM message has no iteration count')
  for (const count of counts)
    if (!/^\d{1,9}$/.test(count) || Number(count) > MAX_SCRAM_ROUNDS)
      throw new Violation(
        `it asks for ${count.slice(0, 20)} SCRAM iterations, and at most ${MAX_SCRAM_ROUNDS} are supported`,
        'cannot be used',
      )
}
