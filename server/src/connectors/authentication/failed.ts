import { ConnectorError } from '../contract.ts'

/** The credentials themselves are the trouble: a parameter is missing, or no token could be had for them. */
export class AuthenticationFailed extends ConnectorError {
  /** What the token endpoint calls the error, where it uses one of the words of the standard. */
  readonly code: string | null
  constructor(message: string, options: { transient?: boolean; cause?: unknown; code?: string | null } = {}) {
    super('auth', message, options)
    this.name = 'AuthenticationFailed'
    this.code = options.code ?? null
  }
}
