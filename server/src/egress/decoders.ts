/**
 * The content encodings that answers may have, each with two ways to undo it: as a stage of a stream and in one piece.
 * Both ways have the same limits, so that it never matters for an answer which of them reads it.
 */
import { type Duplex, pipeline, Readable } from 'node:stream'
import { promisify } from 'node:util'
import * as zlib from 'node:zlib'
import { EgressFailed } from './refusal.ts'

export interface Decoder {
  /** `first` are the first bytes that will be written to it. */
  open(first: Buffer): Duplex
  /** Throws ERR_BUFFER_TOO_LARGE past `maxOutputLength`. */
  decode(bytes: Buffer, maxOutputLength: number): Promise<Buffer>
}

/** A longer chain than any server uses is there to multiply work. */
const MAX_ENCODINGS = 3

// 8 MiB is the largest window that RFC 9659 lets a server use; without a limit it could ask for 128 MiB.
const zstdOptions = { params: { [zlib.constants.ZSTD_d_windowLogMax]: 23 } }
const gunzip = promisify(zlib.gunzip)
const inflate = promisify(zlib.inflate)
const inflateRaw = promisify(zlib.inflateRaw)
const brotliDecompress = promisify(zlib.brotliDecompress)
const zstdDecompress = promisify(zlib.zstdDecompress)

const gzip: Decoder = {
  open: () => zlib.createGunzip(),
  decode: (bytes, maxOutputLength) => gunzip(bytes, { maxOutputLength }),
}

const decoders: ReadonlyMap<string, Decoder> = new Map([
  ['gzip', gzip],
  ['x-gzip', gzip],
  [
    'deflate',
    {
      open: (first) => (hasZlibHeader(first) ? zlib.createInflate() : zlib.createInflateRaw()),
      decode: (bytes, maxOutputLength) => (hasZlibHeader(bytes) ? inflate : inflateRaw)(bytes, { maxOutputLength }),
    },
  ],
  [
    'br',
    {
      open: () => zlib.createBrotliDecompress(),
      decode: (bytes, maxOutputLength) => brotliDecompress(bytes, { maxOutputLength }),
    },
  ],
  [
    'zstd',
    {
      open: () => zlib.createZstdDecompress(zstdOptions),
      decode: (bytes, maxOutputLength) => zstdDecompress(bytes, { ...zstdOptions, maxOutputLength }),
    },
  ],
])

export const acceptedEncodings = 'gzip, deflate, br, zstd'

/** The decoders for a Content-Encoding, in the order in which they are applied. */
export function decodersFor(encoding: string, host: string): Decoder[] {
  const names = encoding
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity')
  if (names.length > MAX_ENCODINGS)
    throw new EgressFailed('encoding', `${host} sent an answer compressed ${names.length} times`)
  return names.reverse().map((name) => {
    const decoder = decoders.get(name)
    if (decoder) return decoder
    throw new EgressFailed('encoding', `${host} sent an answer in the unknown encoding "${name.slice(0, 40)}"`)
  })
}

/** `deflate` means zlib's format, but some servers send it without its header. */
function hasZlibHeader(bytes: Buffer): boolean {
  return (bytes[0]! & 0x0f) === 8
}

/** A decoder as a stage of a pipeline. It begins with the first bytes: what is empty has no encoding. */
export async function* decodeStream(decoder: Decoder, source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const chunks = source[Symbol.asyncIterator]()
  const first = await chunks.next()
  if (first.done) return
  const whole = async function* () {
    yield first.value
    yield* { [Symbol.asyncIterator]: () => chunks }
  }
  yield* pipeline(Readable.from(whole(), { objectMode: false }), decoder.open(first.value), () => {})
}
