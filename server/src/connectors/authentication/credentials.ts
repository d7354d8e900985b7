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
}

export const authorization = (value: string): Header => ({ name: 'authorization', value })

export function basic(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}
