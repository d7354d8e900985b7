/** What a service refused, as a person reads it: one sentence, the request id, what to do. */
import type { IncomingMessage } from 'node:http'
import { OperatorError } from '../errors.ts'

/** It does not answer; what is being followed may try again. */
export class Unreachable extends OperatorError {
  constructor(origin: string, cause: string) {
    super(
      `${origin} cannot be reached: ${cause}. Check the address (sluice login URL, or SLUICE_URL) and that the service runs.`,
    )
  }
}

export class ServiceError extends OperatorError {
  readonly status: number
  /** The service's own sentence. */
  readonly detail: string
  constructor(status: number, detail: string, message: string) {
    super(message)
    this.status = status
    this.detail = detail
  }
}

/** Whether what is being followed should be asked again: the service restarts, or the connection broke. */
export const mayPass = (error: unknown): boolean =>
  error instanceof ServiceError
    ? error.status === 429 || error.status >= 500
    : error instanceof Unreachable ||
      ['ECONNRESET', 'EPIPE', 'ETIMEDOUT'].includes((error as { code?: string }).code ?? '')

export function refuse(url: string, profile: string | null, response: IncomingMessage, body: string): ServiceError {
  const status = response.statusCode ?? 0
  const id = response.headers['x-request-id']
  const detail = readDetail(body)
  const sentence =
    status >= 300 && status < 400
      ? `${url} redirects to ${String(response.headers.location)}, and the key is not sent there`
      : (detail ?? `${url} sent an unexpected answer`)
  const where = `(status ${status}, ${typeof id === 'string' ? `request ${id}` : 'without a request id'})`
  const hint = adviceFor(status, profile, response, detail)
  return new ServiceError(
    status,
    sentence,
    // Of several lines the last may be a mark below a place in a query.
    [`${sentence.replace(/\.$/, '')}${sentence.includes('\n') ? '\n' : ' '}${where}`, hint].filter(Boolean).join('. '),
  )
}

function readDetail(body: string): string | null {
  try {
    const { detail } = JSON.parse(body) as { detail?: unknown }
    return typeof detail === 'string' && detail !== '' ? detail : null
  } catch {
    return null
  }
}

/** Where the sentence of the service does not say what to do. */
function adviceFor(
  status: number,
  profile: string | null,
  response: IncomingMessage,
  detail: string | null,
): string | null {
  if (status >= 300 && status < 400) return 'If that is the service, sign in with that address: sluice login URL.'
  if (detail === null && status !== 429 && status < 500) return 'Check that the address is that of a Sluice service.'
  if (status === 401)
    return profile === null
      ? 'Set SLUICE_API_KEY to a valid key.'
      : `Sign in again with sluice login (profile ${profile}).`
  if (status === 403) return 'Use a key that may do this, or ask an admin of the organization for the permission.'
  if (status === 404 && / not found\.?$/.test(detail ?? ''))
    return 'Check the name or the id, and that your key may see it.'
  if (status === 429) {
    const seconds = response.headers['retry-after']
    return /^\d+$/.test(seconds ?? '') ? `Try again in ${seconds} s.` : 'Try again later.'
  }
  if (status >= 500)
    return "Try again; if it persists, the operator finds the cause in the service's log by that request id."
  return null
}
