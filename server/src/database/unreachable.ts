import { OperatorError } from '../errors.ts'

/**
 * Errors that say nothing about the statement: connection failures, a server that starts, stops or is full, one that
 * became a standby (25006) and is no longer the one to write to, a missing answer.
 */
const TRANSIENT_STATES = /^(08|57P0|53300|25006)/
const TRANSIENT_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ENOENT',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'EAI_AGAIN',
  'ENOTFOUND',
])

/** The database could not be reached, or went away before it answered. The cause is the driver's error. */
export class DatabaseUnavailable extends Error {
  readonly code: string
  constructor(cause: Error) {
    super(cause.message, { cause })
    this.code = (cause as { code?: string }).code ?? ''
  }
}

export function isUnreachable(error: unknown): boolean {
  if (error instanceof DatabaseUnavailable) return true
  if (error instanceof OperatorError) return false
  const { code = '', message = '' } = error as { code?: string; message?: string }
  if (TRANSIENT_STATES.test(code) || TRANSIENT_CODES.has(code)) return true
  return code === '' && /terminat|timeout|connection/i.test(message)
}

/** All connections of this process are in use, which says nothing about the server. */
export const isPoolFull = (error: unknown): boolean =>
  error instanceof Error && error.message.startsWith('timeout exceeded when trying to connect')
