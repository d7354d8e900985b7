/** Bodies as JSON values, by the decoder that the plan names. Sizes are bounded by the answer's own limit. */
import { gunzipSync } from 'node:zlib'
import type { Json } from '../../json/json.ts'
import { MalformedJson } from '../../json/malformed.ts'
import { MAX_JSON_DEPTH, validateJson } from '../../json/validator.ts'
import { ConnectorError } from '../contract.ts'
import { parseCsv } from './decoders/csv.ts'
import { parseXml } from './decoders/xml.ts'
import { unzipFirst } from './decoders/zip.ts'
import { lookUp } from './paths.ts'
import type { DecoderPlan } from './records-plan.ts'

/** What a compressed body may become. */
const MAX_BYTES = 128 * 1024 * 1024
const CHUNK_BYTES = 1024 * 1024

/** The body as one value: what templates see as the response. */
export function decodeBody(bytes: Buffer, decoder: DecoderPlan): Json {
  const { bytes: plain, decoder: inner } = unpack(bytes, decoder)
  switch (inner.kind) {
    case 'json':
      return plain.length === 0 ? null : parseJson(plain)
    case 'json_items':
      return (lookUp(parseJson(plain), inner.path) ?? null) as Json
    case 'jsonl':
      return jsonLines(plain)
    case 'lines':
      return textLines(plain).map((line) => ({ record: line }))
    case 'csv':
      return parseCsv(decodeText(plain, inner.encoding), inner.delimiter, inner.nullValues)
    case 'xml':
      return parseXml(plain.toString('utf8'))
    default:
      throw new Error(`no decoder ${inner satisfies never}`)
  }
}

type PlainDecoder = Exclude<DecoderPlan, { of: DecoderPlan }>

/** The bytes without their packing, and the decoder of what was packed. */
export function unpack(bytes: Buffer, decoder: DecoderPlan): { bytes: Buffer; decoder: PlainDecoder } {
  if (decoder.kind === 'gzip') return unpack(gunzip(bytes), decoder.of)
  if (decoder.kind === 'zip') return unpack(unzipFirst(bytes, MAX_BYTES), decoder.of)
  return { bytes, decoder }
}

/** Servers often send what is packed already unpacked. */
function gunzip(bytes: Buffer): Buffer {
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes
  try {
    return gunzipSync(bytes, { maxOutputLength: MAX_BYTES, chunkSize: CHUNK_BYTES })
  } catch (error) {
    const large = (error as { code?: string }).code === 'ERR_BUFFER_TOO_LARGE'
    throw new ConnectorError(
      'source',
      large
        ? `An answer is larger than ${MAX_BYTES / 1024 / 1024} MiB after unpacking.`
        : 'An answer is not valid gzip.',
      { cause: error },
    )
  }
}

function parseJson(bytes: Buffer): Json {
  validateJson(bytes, MAX_JSON_DEPTH)
  return JSON.parse(bytes.toString('utf8')) as Json
}

function jsonLines(bytes: Buffer): Json[] {
  return textLines(bytes).map((line) => {
    const value = Buffer.from(line)
    validateJson(value, MAX_JSON_DEPTH)
    return JSON.parse(line) as Json
  })
}

const textLines = (bytes: Buffer): string[] =>
  bytes
    .toString('utf8')
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')

function decodeText(bytes: Buffer, encoding: string): string {
  try {
    return new TextDecoder(encoding).decode(bytes)
  } catch (error) {
    throw new MalformedJson(`the text is not ${encoding}: ${(error as Error).message}`)
  }
}
