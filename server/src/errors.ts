/**
 * The catalogue of errors. The product's functions throw an AppError with a code and a sentence for the caller;
 * http/error-handler.ts turns it into `{ "detail": … }` with the status given here. Anything else that is thrown is a
 * bare 500, with its cause in the log alone.
 */
export const catalogue = {
  invalid_input: {
    status: 400,
    about: 'A body, query or path value is invalid. `detail` says what is wrong and what is allowed.',
  },
  unauthenticated: {
    status: 401,
    about: 'Credentials are missing, malformed, expired or revoked, or a sign-in failed.',
  },
  forbidden: { status: 403, about: 'The caller is known but may not do this.' },
  not_found: { status: 404, about: 'It does not exist, or belongs to another organization.' },
  method_not_allowed: {
    status: 405,
    about: 'The path does not support this method; the header `Allow` lists those it supports.',
  },
  conflict: { status: 409, about: 'The request conflicts with the current state.' },
  too_large: { status: 413, about: 'The body is larger than 1 MB.' },
  range_not_satisfiable: { status: 416, about: 'The requested range is outside the file.' },
  too_many_requests: { status: 429, about: 'Too many requests; `Retry-After` says when to try again.' },
  internal: { status: 500, about: 'An internal error. The log has the cause under the request id.' },
  unavailable: { status: 503, about: 'The service is starting, shutting down, or its database does not answer.' },
} as const

export type ErrorCode = keyof typeof catalogue

export class AppError extends Error {
  readonly code: ErrorCode
  readonly headers: Record<string, string>
  /** Further fields of the response besides `detail`; the route's schema names them. */
  readonly more: Record<string, unknown>
  constructor(
    code: ErrorCode,
    detail: string,
    headers: Record<string, string> = {},
    more: Record<string, unknown> = {},
  ) {
    super(detail)
    this.name = 'AppError'
    this.code = code
    this.headers = headers
    this.more = more
  }
  get status(): number {
    return catalogue[this.code].status
  }
}

/** An error that the operator of the machine can fix: shown as its message alone, without a stack. */
export class OperatorError extends Error {}

/** A command line that cannot be run as written. */
export class UsageError extends OperatorError {}

/** A person has pressed Ctrl+C at a command. */
export class Interrupted extends Error {}

/** Whether its message is enough; anything else is a defect and is logged with its stack. */
export const isExpected = (error: unknown): error is OperatorError | AppError =>
  error instanceof OperatorError || error instanceof AppError

/** Used both for what does not exist and for what belongs to another organization, so that the two cannot be distinguished. */
export const notFound = (what: string) => new AppError('not_found', `${what} not found`)
