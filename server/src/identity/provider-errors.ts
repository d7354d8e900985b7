/**
 * Why a sign-in at the identity provider failed. The frontend gets the code as `#error=…`; the cause stays in the log.
 * docs/identity-provider.md lists the same codes, and a test compares the two.
 */
export const signInErrors = {
  access_denied: 'The person or the provider refused.',
  invalid_state: 'The sign-in was not started in this browser, or its answer was used before. Start again.',
  state_expired: 'The sign-in took more than ten minutes. Start again.',
  provider_unavailable: 'The provider does not answer, or its address is not allowed. The log has the cause.',
  provider_error: 'The answer of the provider is not valid: another issuer, for example. The log has the cause.',
  email_missing:
    'The provider gave no email address. Request it with IDP_SCOPE, or let the person make their address public there.',
  email_not_verified:
    'An account with this address exists, and the provider has not verified the address. Sign in with the password and link the provider.',
  already_linked: 'The account is already linked to another account of the provider. Unlink that one first.',
  identity_taken: 'This account of the provider is linked to another person.',
  signup_closed:
    'New accounts are by invitation only. Open the link of your invitation and sign in from there, or ask for one.',
  invitation_invalid:
    'New accounts are by invitation only, and this invitation is unknown, expired, cancelled or used. Ask for a new one.',
} as const

export type SignInErrorCode = keyof typeof signInErrors

export class SignInError extends Error {
  readonly code: SignInErrorCode
  constructor(code: SignInErrorCode, cause?: unknown) {
    super(signInErrors[code], cause === undefined ? {} : { cause })
    this.name = 'SignInError'
    this.code = code
  }
}

/** The messages of an error and its causes on one line, without the attached objects, which may contain tokens. */
export function explainCauses(error: unknown): string {
  const messages: string[] = []
  for (let cause = error; cause instanceof Error && messages.length < 5; cause = cause.cause)
    messages.push(cause.message)
  return messages.join(': ')
}
