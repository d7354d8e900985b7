/**
 * An identity provider returns people with their tokens in the fragment of the address, which no server sees. They are taken
 * out of the address at once, so that they stay neither in the history nor in a copied link.
 */
import { signInErrors } from '../../../server/src/identity/provider-errors.ts'
import { signIn } from './session.ts'

export interface ProviderReturn {
  invitation: string | null
  /** Why the sign-in failed. */
  problem: string | null
}

/** Null if this page load is no return from a provider. Taken once, before the first page is drawn. */
export const providerReturn: ProviderReturn | null = takeProviderReturn()

function takeProviderReturn(): ProviderReturn | null {
  const fragment = new URLSearchParams(location.hash.slice(1))
  const access_token = fragment.get('access_token')
  const refresh_token = fragment.get('refresh_token')
  const error = fragment.get('error')
  if (error === null && (access_token === null || refresh_token === null)) return null
  history.replaceState(null, '', location.pathname + location.search)
  if (access_token === null || refresh_token === null)
    return { invitation: null, problem: isKnown(error!) ? signInErrors[error] : 'The sign-in failed. Start again.' }
  signIn({ access_token, refresh_token })
  return { invitation: fragment.get('invitation'), problem: null }
}

function isKnown(code: string): code is keyof typeof signInErrors {
  return Object.hasOwn(signInErrors, code)
}
