/** Calls a running service with an API key. Every failure is reported as one sentence, with the request id. */
import { readClientConfig } from '../config/config.ts'
import { explain as explainConnection } from '../egress/connect.ts'
import { OperatorError } from '../errors.ts'
import { UsageError } from './usage.ts'

export interface ServiceClient {
  /** The body of the response; throws unless the status is a success. */
  call<Body>(method: string, path: string, body?: unknown): Promise<Body>
}

/** A preview may take 30 s and wait for its turn before that. */
const TIMEOUT_MS = 120_000

export function connectService(): ServiceClient {
  const { SLUICE_URL: base, SLUICE_API_KEY: key } = readClientConfig()
  if (key === undefined)
    throw new UsageError(
      'SLUICE_API_KEY is not set; create a key with POST /api/api-keys and put it in the environment',
    )
  return {
    async call<Body>(method: string, path: string, body?: unknown): Promise<Body> {
      const response = await fetch(`${base}${path}`, {
        method,
        headers: { 'x-api-key': key, ...(body !== undefined && { 'content-type': 'application/json' }) },
        ...(body !== undefined && { body: JSON.stringify(body) }),
        // The key must not be sent to another address.
        redirect: 'manual',
        signal: AbortSignal.timeout(TIMEOUT_MS),
      }).catch((error: Error) => {
        throw new OperatorError(`${base} cannot be reached: ${explain(error)}. Set SLUICE_URL to a running service.`)
      })
      const answer = readJson(await response.text())
      if (response.ok && answer !== undefined) return answer as Body
      const id = response.headers.get('x-request-id')
      const detail = (answer as { detail?: unknown } | undefined)?.detail
      const sentence = typeof detail === 'string' ? detail : `${base} sent an unexpected answer`
      throw new OperatorError(
        `${sentence} (status ${response.status}, ${id ? `request ${id}` : 'without a request id'})`,
      )
    },
  }
}

function readJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function explain(error: Error): string {
  if (error.name === 'TimeoutError') return `no answer within ${TIMEOUT_MS / 1000} s`
  return explainConnection(error.cause ?? error)
}
