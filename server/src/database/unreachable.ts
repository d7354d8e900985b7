/** Errors that say nothing about the statement: the connection, a server that starts, stops or is full, a missing answer. */
const PASSING = /^(08|57P0|53300)/
const PASSING_CODES = new Set([
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

export function isUnreachable(error: unknown): boolean {
  const { code = '', message = '' } = error as { code?: string; message?: string }
  if (PASSING.test(code) || PASSING_CODES.has(code)) return true
  return code === '' && /terminat|timeout|connection/i.test(message)
}
