import { ConnectorError } from '../contract.ts'

/** The credentials themselves are the problem: a parameter is missing, or no token could be obtained with them. */
export class AuthenticationFailed extends ConnectorError {
  /** The error code of the token endpoint, if it is one that the standard defines. */
  readonly code: string | null
  constructor(message: string, options: { transient?: boolean; cause?: unknown; code?: string | null } = {}) {
    super('auth', message, options)
    this.name = 'AuthenticationFailed'
    this.code = options.code ?? null
  }
}
