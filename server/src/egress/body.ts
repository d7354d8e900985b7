/** The body of an answer: decompressed, counted after that, and never more in memory than a few chunks. */
import { pipeline, Readable, Transform, type TransformCallback } from 'node:stream'
import {
  constants,
  createBrotliDecompress,
  createGunzip,
  createInflate,
  createInflateRaw,
  createZstdDecompress,
} from 'node:zlib'
import { explain } from './connect.ts'
import { EgressFailed, EgressRefused } from './refusal.ts'

export const acceptedEncodings = 'gzip, deflate, br, zstd'

/** A longer chain than any server uses is there to multiply work. */
const maxEncodings = 3

type Stage = NodeJS.ReadWriteStream | ((source: AsyncIterable<Buffer>) => AsyncIterable<Buffer>)

export interface BodyOptions {
  host: string
  encoding: string | null
  maxBytes: number | null
  /** Where it was aborted, its reason is the error of the body. */
  signal: AbortSignal
  /** Called once, when the body has ended in whatever way. */
  release(): void
}

export function openBody(raw: Readable, options: BodyOptions): Readable {
  const meter = new Meter(options)
  const stages = [raw, ...createDecoders(options), meter] as unknown as [Readable, Meter]
  pipeline(...stages, () => options.release())
  return meter
}

function createDecoders({ host, encoding }: BodyOptions): Stage[] {
  const names = (encoding ?? '')
    .toLowerCase()
    .split(',')
    .map((name) => name.trim())
    .filter((name) => name !== '' && name !== 'identity')
  if (names.length > maxEncodings) {
    throw new EgressFailed('encoding', `${host} sent an answer compressed ${names.length} times`)
  }
  return names.reverse().map((name) => createDecoder(name, host))
}

function createDecoder(name: string, host: string): Stage {
  switch (name) {
    case 'gzip':
    case 'x-gzip':
      return createGunzip()
    case 'br':
      return createBrotliDecompress()
    case 'deflate':
      return inflateEither
    case 'zstd':
      // 8 MiB is the largest window that RFC 9659 lets a server use; more is memory for its asking.
      return createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: 23 } })
    default:
      throw new EgressFailed('encoding', `${host} sent an answer in the unknown encoding "${name.slice(0, 40)}"`)
  }
}

/** `deflate` means zlib's format, and some servers send it without its header. */
async function* inflateEither(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  const chunks = source[Symbol.asyncIterator]()
  const first = await chunks.next()
  if (first.done) return
  const inflate = (first.value[0]! & 0x0f) === 8 ? createInflate() : createInflateRaw()
  const whole = async function* () {
    yield first.value
    yield* { [Symbol.asyncIterator]: () => chunks }
  }
  yield* pipeline(Readable.from(whole()), inflate, () => {})
}

class Meter extends Transform {
  readonly #host: string
  readonly #maxBytes: number
  readonly #signal: AbortSignal
  #bytes = 0

  constructor({ host, maxBytes, signal }: BodyOptions) {
    super({ highWaterMark: 64 * 1024 })
    this.#host = host
    this.#maxBytes = maxBytes ?? Number.POSITIVE_INFINITY
    this.#signal = signal
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    this.#bytes += chunk.length
    if (this.#bytes > this.#maxBytes) done(tooLarge(this.#host, this.#maxBytes))
    else done(null, chunk)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (error && this.#signal.aborted) done(this.#signal.reason)
    else done(error && translateFailure(error, this.#host))
  }
}

export function tooLarge(host: string, maxBytes: number): EgressFailed {
  return new EgressFailed('too_large', `the answer of ${host} is larger than the ${maxBytes} bytes allowed`)
}

export function translateFailure(error: unknown, host: string): Error {
  if (error instanceof EgressFailed || error instanceof EgressRefused) return error
  const code = String((error as { code?: unknown } | null)?.code ?? '')
  if (code === 'UND_ERR_HEADERS_TIMEOUT' || code === 'UND_ERR_BODY_TIMEOUT') {
    return new EgressFailed('timeout', `${host} did not go on answering`, error)
  }
  if (code === 'UND_ERR_INVALID_ARG')
    return new EgressFailed('request', `the request is not valid: ${explain(error)}`, error)
  if (
    code.startsWith('Z_') ||
    code.startsWith('ERR_BROTLI') ||
    code.startsWith('ERR__ERROR') ||
    code.startsWith('ZSTD')
  ) {
    return new EgressFailed('encoding', `${host} sent an answer that cannot be decompressed`, error)
  }
  return new EgressFailed('connection', `the request to ${host} failed: ${explain(error)}`, error)
}
