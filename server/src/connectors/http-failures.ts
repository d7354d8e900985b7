/** Failures of HTTP requests as errors of the contract. */
import { EgressFailed, EgressRefused } from '../egress/policy.ts'
import { ConnectorError } from './contract.ts'

export type Side = 'source' | 'destination'

/** An answer with an error status. `missing` is the advice for a 404. */
export function explainStatus(status: number, host: string, side: Side, missing = 'check the url'): ConnectorError {
  if (status === 401 || status === 403)
    return new ConnectorError('auth', `${host} answered ${status}: check the authentication of the ${side}.`)
  if (status === 429)
    return new ConnectorError('rate_limited', `${host} answered 429 (too many requests); try again later.`)
  const advice = status === 404 ? missing : 'try again later, or open the url in a browser to see why'
  return new ConnectorError(side, `${host} answered ${status}: ${advice}.`, { transient: status >= 500 })
}

/**
 * A request that got no answer. `what` starts the sentence: "The file cannot be fetched". Other errors are returned
 * unchanged.
 */
export function explainRequest(error: unknown, side: Side, what: string): unknown {
  if (error instanceof EgressRefused) return new ConnectorError('config', `${what}: ${error.message}`, { cause: error })
  if (!(error instanceof EgressFailed)) return error
  const kind = error.reason === 'unknown_host' ? 'config' : side
  return new ConnectorError(kind, `${what}: ${error.message}`, { cause: error, transient: error.transient })
}
