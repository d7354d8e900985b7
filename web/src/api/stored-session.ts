/** What local storage holds of a session, and what its access token says. */
export interface Tokens {
  access_token: string
  refresh_token: string
  /** In milliseconds since 1970, by the clock of this browser. */
  expires_at: number
}

export interface Place {
  person: string
  organization: string
  /** From the token's own claims, because the clocks of browser and server may differ. */
  lifetimeMs: number
}

export function placeOf(tokens: Pick<Tokens, 'access_token'> | null): Place | null {
  if (tokens === null) return null
  try {
    const payload = tokens.access_token.split('.')[1]!.replaceAll('-', '+').replaceAll('_', '/')
    const { sub, org, iat, exp } = JSON.parse(atob(payload))
    return { person: sub, organization: org, lifetimeMs: (exp - iat) * 1000 }
  } catch {
    return null
  }
}

/** Null if nobody is signed in, or if what is stored cannot be used. */
export function parseStored(text: string | null): Tokens | null {
  if (text === null) return null
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null) return null
    const { access_token, refresh_token, expires_at } = value as Record<string, unknown>
    if (typeof access_token !== 'string' || typeof refresh_token !== 'string' || typeof expires_at !== 'number')
      return null
    return { access_token, refresh_token, expires_at }
  } catch {
    return null
  }
}
