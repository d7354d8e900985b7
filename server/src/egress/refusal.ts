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

/** What failed. `unknown_host` is a name that does not exist, `dns` a name server that did not answer. */
export type FailureReason =
  | 'unknown_host'
  | 'dns'
  | 'connection'
  | 'timeout'
  | 'too_large'
  | 'redirects'
  | 'encoding'
  | 'request'

const PERMANENT: ReadonlySet<FailureReason> = new Set(['unknown_host', 'too_large', 'request'])

/** The policy allowed it, but it failed. */
export class EgressFailed extends Error {
  readonly reason: FailureReason
  constructor(reason: FailureReason, message: string, cause?: unknown) {
    super(message, cause === undefined ? {} : { cause })
    this.name = 'EgressFailed'
    this.reason = reason
  }

  /** Whether a retry may help. */
  get transient(): boolean {
    return !PERMANENT.has(this.reason)
  }
}
