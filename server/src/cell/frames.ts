/**
 * Frames from a cell. They are hostile input: the length is checked against the limit of its kind before anything is
 * allocated, text must be strict UTF-8, JSON is checked for syntax and depth before it is parsed, and a page is passed on
 * only if it holds exactly the number of records it claims. python/cell/protocol.py is the other side.
 */

import { isUtf8 } from 'node:buffer'
import type { Json } from '../json/json.ts'
import { MalformedJson, TooDeep } from '../json/malformed.ts'
import { countRecords, MAX_JSON_DEPTH, validateJson } from '../json/validator.ts'

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
  // One record of at most 16 MiB, with its id.
  [FRAME_KINDS.preview]: 20 * MIB,
  [FRAME_KINDS.done]: 4 * MIB,
  [FRAME_KINDS.error]: MIB,
}
const MAX_STATE_BYTES = MIB

/**
 * What a call accepts from its cell besides log lines, requests and an end. Checked by length alone, before anything is
 * buffered.
 */
export interface Accepted {
  pages: boolean
  /** Bytes of all preview frames together; 0 if no preview was requested. */
  preview_bytes: number
}
const LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LEVELS)[number]

export interface HttpRequest {
  method: string
  url: string
  headers: [string, string][]
  /** In seconds; 0 if the author set none. */
  timeout: number
  retries: number
  /** Whether the source's authentication is applied to it. */
  auth: boolean
  body: Buffer | null
}

export interface HttpAnswer {
  status: number
  /** Names and values, alternating, one per line. */
  headers: string
  url: string
  body: Uint8Array
}
export interface HttpFailure {
  error: { kind: string; message: string }
}

export type Frame =
  /** `size` includes the state. */
  | { kind: 'page'; records: number; bytes: Buffer; state: Json | undefined; size: number }
  | { kind: 'log'; level: LogLevel; text: string }
  | { kind: 'http'; requests: HttpRequest[] }
  | { kind: 'secrets' }
  /** The records as JSON text, commas between them. */
  | { kind: 'preview'; records: number; bytes: Buffer }
  | { kind: 'done'; result: Json }
  | { kind: 'error'; error: CellErrorReport }

export interface CellErrorReport {
  kind: string
  type: string
  text: string
  traceback: string
  transient: boolean
}

/** The cell violated the protocol. The call ends, and what it sent last is dropped. */
export class ProtocolError extends Error {}
/** Correct code can get here: the encoder in the cell leaves this check to the host. */
/** A preview record is nested in an array and an object with its id. */
const MAX_PREVIEW_DEPTH = MAX_JSON_DEPTH + 2

export class RecordTooDeep extends ProtocolError {}
/** Correct code can get here too, with large records. */
export class PreviewTooLarge extends ProtocolError {}

/** Splits a byte stream into frames. Only one frame is in memory, besides the bytes that were pushed last. */
export class FrameDecoder {
  #header = Buffer.allocUnsafe(HEADER_BYTES)
  #headerBytes = 0
  #payload: Buffer | null = null
  #payloadBytes = 0
  #ended = false
  readonly #accepted: Accepted
  #previewBytes = 0

  constructor(accepted: Accepted) {
    this.#accepted = accepted
  }

  /** Bytes of a frame that has begun and is not complete. */
  get pending(): boolean {
    return this.#headerBytes > 0
  }

  /** The caller may reuse the bytes once this returns. */
  push(chunk: Uint8Array, take: (frame: Frame) => void): void {
    let at = 0
    while (at < chunk.length) {
      if (this.#ended) throw new ProtocolError('a frame after the last one')
      if (this.#payload === null) {
        while (this.#headerBytes < HEADER_BYTES && at < chunk.length) this.#header[this.#headerBytes++] = chunk[at++]!
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
    if (length > limit) throw new ProtocolError(`a frame of ${length} bytes, more than the limit of ${limit}`)
    if (this.#header[4] === FRAME_KINDS.page && !this.#accepted.pages) throw new ProtocolError('a page outside a run')
    if (this.#header[4] === FRAME_KINDS.preview) this.#countPreview(length)
    return length
  }

  #countPreview(length: number): void {
    const { preview_bytes } = this.#accepted
    if (preview_bytes === 0) throw new ProtocolError('a preview that was not requested')
    this.#previewBytes += length
    if (this.#previewBytes > preview_bytes)
      throw new PreviewTooLarge(`the records take more than ${preview_bytes >> 20} MB; request fewer with max_records`)
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
        return decodePreview(payload)
      case FRAME_KINDS.done:
        return { kind: 'done', result: parseJson(payload) }
      default:
        return { kind: 'error', error: decodeError(payload) }
    }
  } catch (error) {
    if (error instanceof TooDeep && kind === FRAME_KINDS.page) throw new RecordTooDeep(`a record is ${error.message}`)
    if (error instanceof MalformedJson) throw new ProtocolError(error.message)
    throw error
  }
}

function requireUtf8(bytes: Uint8Array): void {
  if (!isUtf8(bytes)) throw new ProtocolError('text that is not UTF-8')
}

function parseJson(bytes: Buffer, maxDepth?: number): Json {
  requireUtf8(bytes)
  validateJson(bytes, maxDepth)
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
  return { kind: 'page', records, bytes, state, size: payload.length }
}

function decodeLog(payload: Buffer): Frame {
  const level = LEVELS[payload[0] ?? 255]
  if (level === undefined) throw new ProtocolError('a log line without a level')
  const text = payload.subarray(1)
  requireUtf8(text)
  return { kind: 'log', level, text: text.toString('utf8') }
}

const MAX_BATCH = 1000
const MAX_HEADERS = 200
const REQUEST_HEAD_BYTES = 24

/** Each is a header of fixed length with the lengths of the method, URL, headers and body that follow it. */
function decodeRequests(payload: Buffer): HttpRequest[] {
  const requests: HttpRequest[] = []
  for (let at = 0; at < payload.length || at === 0; ) {
    if (requests.length === MAX_BATCH) throw new ProtocolError(`a batch of more than ${MAX_BATCH} requests`)
    if (payload.length - at < REQUEST_HEAD_BYTES) throw new ProtocolError('a request without its head')
    const auth = payload[at]!
    const retries = payload[at + 1]!
    const timeout = payload.readDoubleLE(at + 2)
    const method = at + REQUEST_HEAD_BYTES
    const url = method + payload.readUInt16LE(at + 10)
    const headers = url + payload.readUInt32LE(at + 12)
    const body = headers + payload.readUInt32LE(at + 16)
    const bodyBytes = payload.readInt32LE(at + 20)
    const end = body + Math.max(bodyBytes, 0)
    if (auth > 1 || !(timeout >= 0) || bodyBytes < -1) throw new ProtocolError('a request with a wrong head')
    if (end > payload.length) throw new ProtocolError('a request longer than its frame')
    requireUtf8(payload.subarray(method, body))
    requests.push({
      method: payload.toString('utf8', method, url),
      url: payload.toString('utf8', url, headers),
      headers: headers === body ? [] : splitHeaders(payload.toString('utf8', headers, body)),
      timeout,
      retries,
      auth: auth === 1,
      body: bodyBytes < 0 ? null : payload.subarray(body, end),
    })
    at = end
  }
  return requests
}

/** Names and values, alternating, one per line. */
function splitHeaders(text: string): [string, string][] {
  const lines = text.split('\n', 2 * MAX_HEADERS + 1)
  if (lines.length % 2 === 1)
    throw new ProtocolError(`a header list with an odd number of lines, or more than ${MAX_HEADERS} headers`)
  return Array.from({ length: lines.length / 2 }, (_, index) => [lines[2 * index]!, lines[2 * index + 1]!])
}

function isObject(value: Json): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Validated and then passed on unchanged: parsing and serialising would lose digits of numbers. */
function decodePreview(payload: Buffer): Frame {
  const records = parseJson(payload, MAX_PREVIEW_DEPTH)
  if (!Array.isArray(records) || payload[0] !== 0x5b || payload.at(-1) !== 0x5d)
    throw new ProtocolError('a preview that is not an array')
  for (const record of records) {
    const whole = isObject(record) && typeof record.id === 'string' && isObject(record.data ?? null)
    if (!whole || Object.keys(record).length !== 2) throw new ProtocolError('a preview record without id and data')
  }
  return { kind: 'preview', records: records.length, bytes: payload.subarray(1, -1) }
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

const ANSWER_HEAD_BYTES = 14
const NO_BODY = new Uint8Array(0)

/**
 * The answers to a batch of requests, in the same order, as one frame. An error has the status 0, its kind in the URL
 * field and its message in the headers field.
 */
export function encodeAnswers(answers: readonly (HttpAnswer | HttpFailure)[]): Buffer {
  const parts = answers.map((answer) =>
    'error' in answer ? { status: 0, url: answer.error.kind, headers: answer.error.message, body: NO_BODY } : answer,
  )
  const most = parts.reduce(
    (sum, { url, headers, body }) => sum + ANSWER_HEAD_BYTES + 3 * (url.length + headers.length) + body.length,
    HEADER_BYTES,
  )
  const frame = Buffer.allocUnsafe(most)
  let at = HEADER_BYTES
  for (const { status, url, headers, body } of parts) {
    const head = at
    at += ANSWER_HEAD_BYTES
    const urlBytes = frame.write(url, at)
    at += urlBytes
    const headerBytes = frame.write(headers, at)
    at += headerBytes
    frame.set(body, at)
    at += body.length
    frame.writeUInt16LE(status, head)
    frame.writeUInt32LE(urlBytes, head + 2)
    frame.writeUInt32LE(headerBytes, head + 6)
    frame.writeUInt32LE(body.length, head + 10)
  }
  frame.writeUInt32LE(at - HEADER_BYTES, 0)
  frame[4] = HOST_KINDS.answer
  return frame.subarray(0, at)
}
