/** The header that a source's authentication adds to a request. */
export interface Header {
  /** In lower case. */
  name: string
  value: string
}

export interface Credentials {
  /** The header to add, or null; a promise only if a server has to be asked for it. Throws AuthenticationFailed. */
  header(): Promise<Header> | Header | null
  /**
   * Called after a 401 with the header that was sent. True if a new token may help, so that the request is worth
   * retrying.
   */
  renew(refused: Header): boolean
  /** False if `renew` never returns true. */
  readonly renewable: boolean
  /** Resolves when no token request is in flight. */
  settled(): Promise<void>
  /** The latest tokens obtained while sending requests: secrets like those in the settings. */
  readonly obtained: readonly string[]
  /** Adds one to them. */
  remember(token: string): void
}

export const authorization = (value: string): Header => ({ name: 'authorization', value })

export function basic(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}

/** A server that issues a new token for every request must not fill our memory. */
const REMEMBERED = 20

export function rememberToken(obtained: string[], token: string): void {
  if (obtained.includes(token)) return
  obtained.push(token)
  if (obtained.length > REMEMBERED) obtained.shift()
}
