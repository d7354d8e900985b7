/**
 * Why a sign-in at the identity provider did not work. The code travels to the frontend as `#error=…`; the reason stays
 * in the log. docs/identity-provider.md lists the same codes, and a test holds the two together.
 */
export const signInErrors = {
  access_denied: 'The person, or the provider for them, said no.',
  invalid_state: 'The sign-in was not begun in this browser, or its answer was used before. Begin again.',
  state_expired: 'More than ten minutes passed between leaving and coming back. Begin again.',
  provider_unavailable: 'The provider does not answer, or its address may not be reached. The log has the cause.',
  provider_error:
    'The provider answered something that cannot be accepted, such as another issuer. The log has the cause.',
  email_missing:
    'The provider gave no email address. Ask for it with IDP_SCOPE, or let the person set a public address there.',
  email_not_verified:
    'An account with this address exists, and the provider does not vouch for the address. Sign in with the password and link the provider.',
  already_linked: 'The account is linked to another account of the provider. Unlink that one first.',
  identity_taken: 'This account of the provider is linked to somebody else here.',
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

/** The messages of an error and its causes on one line, without the objects they carry: those may hold tokens. */
export function explainCauses(error: unknown): string {
  const messages: string[] = []
  for (let cause = error; cause instanceof Error && messages.length < 5; cause = cause.cause)
    messages.push(cause.message)
  return messages.join(': ')
}
