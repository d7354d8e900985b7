/**
 * Where a refresh token is stored while requests use it. Many providers rotate the token on each use and revoke the
 * whole grant if an old one is presented. So only one request uses a token at a time, and its replacement is stored
 * before anything that came with it is used.
 */
export interface RefreshTokens {
  /** Waits until no other process is refreshing the same credential, and returns the token that is stored now. */
  begin(held: string): Promise<string>
  /**
   * Ends what `begin` started. `rotated` is the replacement for `used`, or null. Resolves once it is stored, with the
   * token to use from now on: a different one if a newer token was stored in the meantime.
   */
  end(used: string, rotated: string | null): Promise<string>
}

/** For credentials that are not stored: a rotated token lives as long as its holder. */
export const unstored: RefreshTokens = {
  begin: async (held) => held,
  end: async (used, rotated) => rotated ?? used,
}
