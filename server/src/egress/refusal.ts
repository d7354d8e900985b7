/** Why the policy refused. The text is written for the person who configured the address. */
export type RefusalReason =
  | 'address'
  | 'self'
  | 'host'
  | 'port'
  | 'unix_socket'
  | 'protocol'
  | 'credentials'
  | 'method'
  | 'redirect'

/** The policy does not allow this. Retrying never helps. */
export class EgressRefused extends Error {
  readonly reason: RefusalReason
  constructor(reason: RefusalReason, message: string) {
    super(message)
    this.name = 'EgressRefused'
    this.reason = reason
  }
}

/** What failed. `request` and `too_large` fail the same way each time, the others may be transient. */
export type FailureReason = 'dns' | 'connection' | 'timeout' | 'too_large' | 'redirects' | 'encoding' | 'request'

/** The policy allowed it, but it failed. */
export class EgressFailed extends Error {
  readonly reason: FailureReason
  constructor(reason: FailureReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'EgressFailed'
    this.reason = reason
  }
}
