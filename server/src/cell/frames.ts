/**
 * Frames from a cell, read as what they are: bytes of an attacker. A length is compared with the limit of its kind before
 * anything is allocated, text is strict UTF-8, JSON is scanned for form and depth before it is parsed, and a page is
 * handed on only when it holds exactly the records it claims. python/cell/protocol.py is the other side.
 */
import { isUtf8 } from 'node:buffer'
import { countRecords, JsonScanError, MAX_PREVIEW_DEPTH, scanJson, TooDeep } from './json-scan.ts'

export const FRAME_KINDS = { page: 1, log: 2, http: 3, secrets: 4, preview: 5, done: 6, error: 7 } as const
export const HOST_KINDS = { job: 1, answer: 2 } as const

const HEADER_BYTES = 5
const MIB = 1024 * 1024

const MAX_BYTES: Readonly<Record<number, number>> = {
  // A record has at most 16 MiB (svc/source/records.py), and a page is closed once it is full.
  [FRAME_KINDS.page]: 24 * MIB,
  [FRAME_KINDS.log]: 64 * 1024 + 1,
  [FRAME_KINDS.http]: 24 * MIB,
  [FRAME_KINDS.secrets]: 0,
  // Sent once it is larger than 4 MiB (python/cell/operations.py), at the latest with the next record.
  [FRAME_KINDS.preview]: 20 * MIB + 64 * 1024,
  [FRAME_KINDS.done]: 4 * MIB,
  [FRAME_KINDS.error]: MIB,
}
const MAX_STATE_BYTES = MIB
const LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LEVELS)[number]

export type JsonValue = null | boolean | number | string | JsonValue[] | { [key: string]: JsonValue }

export interface HttpRequestHead {
  method: string
  url: string
  headers: [string, string][]
  timeout: number | null
  retries: number | null
  auth: boolean
}
export interface HttpRequest extends HttpRequestHead {
  body: Buffer | null
}

export type Frame =
  | { kind: 'page'; records: number; bytes: Buffer; state: JsonValue | undefined }
  | { kind: 'log'; level: LogLevel; text: string }
  | { kind: 'http'; requests: HttpRequest[] }
  | { kind: 'secrets' }
  | { kind: 'preview'; records: JsonValue[]; size: number }
  | { kind: 'done'; result: JsonValue }
  | { kind: 'error'; error: CellErrorReport }

export interface CellErrorReport {
  kind: string
  type: string
  text: string
  traceback: string
  transient: boolean
}

/** The cell broke the protocol. The call ends and whatever it sent last counts for nothing. */
export class ProtocolError extends Error {}
/** An honest author can get here: the encoder in the cell leaves this one check to the host. */
export class RecordTooDeep extends ProtocolError {}

/** Cuts a stream of bytes into frames. One frame is in memory at a time, beside the bytes that were pushed last. */
export class FrameDecoder {
  #header = Buffer.allocUnsafe(HEADER_BYTES)
  #headerBytes = 0
  #payload: Buffer | null = null
  #payloadBytes = 0
  #ended = false

  /** Bytes of a frame that has begun and is not complete. */
  get pending(): boolean {
    return this.#headerBytes > 0
  }

  /** The bytes may be used again by the caller once this returns. */
  push(chunk: Uint8Array, take: (frame: Frame) => void): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#ended) throw new ProtocolError('a frame after the last one')
      if (this.#payload === null) {
        const wanted = Math.min(HEADER_BYTES - this.#headerBytes, chunk.length - at)
        this.#header.set(chunk.subarray(at, at + wanted), this.#headerBytes)
        this.#headerBytes += wanted
        at += wanted
        if (this.#headerBytes < HEADER_BYTES) return
        this.#payload = Buffer.allocUnsafe(this.#checkLength())
        this.#payloadBytes = 0
      }
      const payload = this.#payload
      const wanted = Math.min(payload.length - this.#payloadBytes, chunk.length - at)
      payload.set(chunk.subarray(at, at + wanted), this.#payloadBytes)
      this.#payloadBytes += wanted
      at += wanted
      if (this.#payloadBytes < payload.length) return
      const frame = decodeFrame(this.#header[4]!, payload)
      this.#payload = null
      this.#headerBytes = 0
      if (frame.kind === 'done' || frame.kind === 'error') this.#ended = true
      take(frame)
    }
  }

  #checkLength(): number {
    const length = this.#header.readUInt32LE(0)
    const limit = MAX_BYTES[this.#header[4]!]
    if (limit === undefined) throw new ProtocolError(`unknown frame kind ${this.#header[4]}`)
    if (length > limit) throw new ProtocolError(`a frame of ${length} bytes where ${limit} are allowed`)
    return length
  }
}

function decodeFrame(kind: number, payload: Buffer): Frame {
  try {
    switch (kind) {
      case FRAME_KINDS.page:
        return decodePage(payload)
      case FRAME_KINDS.log:
        return decodeLog(payload)
      case FRAME_KINDS.http:
        return { kind: 'http', requests: decodeRequests(payload) }
      case FRAME_KINDS.secrets:
        return { kind: 'secrets' }
      case FRAME_KINDS.preview:
        return { kind: 'preview', records: decodePreview(payload), size: payload.length }
      case FRAME_KINDS.done:
        return { kind: 'done', result: parseJson(payload) }
      default:
        return { kind: 'error', error: decodeError(payload) }
    }
  } catch (error) {
    if (error instanceof TooDeep && kind === FRAME_KINDS.page) throw new RecordTooDeep(`a record is ${error.message}`)
    if (error instanceof JsonScanError) throw new ProtocolError(error.message)
    throw error
  }
}

function requireUtf8(bytes: Uint8Array): void {
  if (!isUtf8(bytes)) throw new ProtocolError('text that is not UTF-8')
}

function parseJson(bytes: Buffer, maxDepth?: number): JsonValue {
  requireUtf8(bytes)
  scanJson(bytes, maxDepth)
  return JSON.parse(bytes.toString('utf8'))
}

function decodePage(payload: Buffer): Frame {
  if (payload.length < 8) throw new ProtocolError('a page without its head')
  const records = payload.readUInt32LE(0)
  const stateBytes = payload.readUInt32LE(4)
  if (stateBytes > MAX_STATE_BYTES || stateBytes > payload.length - 8) {
    throw new ProtocolError(`a state of ${stateBytes} bytes`)
  }
  const bytes = payload.subarray(8 + stateBytes)
  requireUtf8(bytes)
  const found = countRecords(bytes)
  if (found !== records) throw new ProtocolError(`a page of ${found} records that claims ${records}`)
  const state = stateBytes > 0 ? parseJson(payload.subarray(8, 8 + stateBytes)) : undefined
  return { kind: 'page', records, bytes, state }
}

function decodeLog(payload: Buffer): Frame {
  const level = LEVELS[payload[0] ?? 255]
  if (level === undefined) throw new ProtocolError('a log line without a level')
  const text = payload.subarray(1)
  requireUtf8(text)
  return { kind: 'log', level, text: text.toString('utf8') }
}

/** A JSON head with its length before it, and the bytes that follow it. */
function splitHead(payload: Buffer): { head: JsonValue; rest: Buffer } {
  if (payload.length < 4) throw new ProtocolError('a frame without its head')
  const length = payload.readUInt32LE(0)
  if (length > payload.length - 4) throw new ProtocolError('a head longer than its frame')
  return { head: parseJson(payload.subarray(4, 4 + length)), rest: payload.subarray(4 + length) }
}

const MAX_BATCH = 1000

function decodeRequests(payload: Buffer): HttpRequest[] {
  const { head, rest } = splitHead(payload)
  if (!Array.isArray(head) || head.length === 0 || head.length > MAX_BATCH) {
    throw new ProtocolError(`a batch of requests must have 1 to ${MAX_BATCH}`)
  }
  let at = 0
  const requests = head.map((item): HttpRequest => {
    if (!isObject(item)) throw new ProtocolError('a request that is not an object')
    const { method, url, headers, timeout = null, retries = null, auth = true, size = null } = item
    if (typeof method !== 'string' || typeof url !== 'string' || !isHeaderList(headers)) {
      throw new ProtocolError('a request without method, url or headers')
    }
    if (!isCountOrNull(timeout) || !isCountOrNull(retries) || !isCountOrNull(size) || typeof auth !== 'boolean') {
      throw new ProtocolError('a request with a wrong timeout, retries, auth or size')
    }
    if (size !== null && (!Number.isInteger(size) || at + size > rest.length)) {
      throw new ProtocolError('a request body longer than its frame')
    }
    const body = size === null ? null : rest.subarray(at, at + size)
    at += size ?? 0
    return { method, url, headers, timeout, retries, auth, body }
  })
  if (at !== rest.length) throw new ProtocolError('bytes after the last request body')
  return requests
}

function isObject(value: JsonValue): value is { [key: string]: JsonValue } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isCountOrNull(value: JsonValue): value is number | null {
  return value === null || (typeof value === 'number' && value >= 0 && Number.isFinite(value))
}

function isHeaderList(value: JsonValue | undefined): value is [string, string][] {
  return (
    Array.isArray(value) &&
    value.length <= 200 &&
    value.every((pair) => Array.isArray(pair) && pair.length === 2 && pair.every((part) => typeof part === 'string'))
  )
}

function decodePreview(payload: Buffer): JsonValue[] {
  const records = parseJson(payload, MAX_PREVIEW_DEPTH)
  if (!Array.isArray(records)) throw new ProtocolError('a preview that is not an array')
  for (const record of records) {
    if (!isObject(record) || typeof record.id !== 'string' || !isObject(record.data ?? null)) {
      throw new ProtocolError('a preview record without id and data')
    }
  }
  return records
}

function decodeError(payload: Buffer): CellErrorReport {
  const value = parseJson(payload)
  if (!isObject(value)) throw new ProtocolError('an error that is not an object')
  const text = (key: string): string => {
    const part = value[key]
    if (typeof part !== 'string') throw new ProtocolError(`an error without ${key}`)
    return part
  }
  return {
    kind: text('kind'),
    type: text('type'),
    text: text('text'),
    traceback: text('traceback'),
    transient: value.transient === true,
  }
}

/** A frame to the cell. */
export function encodeFrame(kind: number, ...parts: Uint8Array[]): Buffer {
  const header = Buffer.allocUnsafe(HEADER_BYTES)
  header.writeUInt32LE(
    parts.reduce((sum, part) => sum + part.length, 0),
    0,
  )
  header[4] = kind
  return Buffer.concat([header, ...parts])
}

/** A head as JSON with its length before it, then the bodies. */
export function encodeWithBodies(kind: number, head: JsonValue, bodies: readonly Uint8Array[]): Buffer {
  const encoded = Buffer.from(JSON.stringify(head))
  const length = Buffer.allocUnsafe(4)
  length.writeUInt32LE(encoded.length, 0)
  return encodeFrame(kind, length, encoded, ...bodies)
}
