/** Why the policy said no. The text is written for the person who configured the address. */
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

/** The policy does not let this out. Trying again never helps. */
export class EgressRefused extends Error {
  readonly reason: RefusalReason
  constructor(reason: RefusalReason, message: string) {
    super(message)
    this.name = 'EgressRefused'
    this.reason = reason
  }
}

/** What went wrong on the way. `request` and `too_large` come back the same each time, the others may pass. */
export type FailureReason = 'dns' | 'connection' | 'timeout' | 'too_large' | 'redirects' | 'encoding' | 'request'

/** The policy allowed it and it failed all the same. */
export class EgressFailed extends Error {
  readonly reason: FailureReason
  constructor(reason: FailureReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'EgressFailed'
    this.reason = reason
  }
}
