/** What a source's authentication puts on a request. */
export interface Header {
  /** In lower case. */
  name: string
  value: string
}

export interface Credentials {
  /** The header to add, or null; a promise only where a server must be asked for it. Throws AuthenticationFailed. */
  header(): Promise<Header> | Header | null
  /** Called after a 401 with what was sent: true where a new token may help, so that the request is worth sending again. */
  renew(refused: Header): boolean
  /** False where `renew` is never true. */
  readonly renewable: boolean
  /** Resolves when no token is being asked for. */
  settled(): Promise<void>
  /** Tokens that were obtained on the way, the latest of them: secrets like those of the settings. */
  readonly obtained: readonly string[]
}

export const authorization = (value: string): Header => ({ name: 'authorization', value })

export function basic(user: string, password: string): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}
