/** Translates errors of undici, zlib and Node into EgressFailed. */
import { explain } from './connect.ts'
import { EgressFailed, EgressRefused } from './refusal.ts'

export function tooLarge(host: string, maxBytes: number): EgressFailed {
  return new EgressFailed('too_large', `the answer of ${host} is larger than the ${maxBytes} bytes allowed`)
}

export function tooLate(timeoutMs: number): EgressFailed {
  return new EgressFailed('timeout', `no complete answer within ${timeoutMs} ms`)
}

const SILENCE = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT'])
const DECODER_CODES = ['Z_', 'ERR_BROTLI', 'ERR__ERROR', 'ZSTD']

export function translateFailure(error: unknown, host: string): Error {
  if (error instanceof EgressFailed || error instanceof EgressRefused) return error
  const code = String((error as { code?: unknown } | null)?.code ?? '')
  if (SILENCE.has(code)) return new EgressFailed('timeout', `${host} stopped answering`, error)
  if (code === 'UND_ERR_INVALID_ARG')
    return new EgressFailed('request', `the request is not valid: ${explain(error)}`, error)
  if (DECODER_CODES.some((prefix) => code.startsWith(prefix)))
    return new EgressFailed('encoding', `${host} sent an answer that cannot be decompressed`, error)
  return new EgressFailed('connection', `the request to ${host} failed: ${explain(error)}`, error)
}
