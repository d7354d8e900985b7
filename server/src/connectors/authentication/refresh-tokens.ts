/**
 * Where a refresh token is kept while requests use it. Many providers replace the token at each use and revoke the whole
 * grant when an old one comes back. So a token is used by one at a time, and its replacement is stored before anything
 * that came with it is used.
 */
export interface RefreshTokens {
  /** Waits until nobody else refreshes with the same credential, and gives the token that is stored now. */
  begin(held: string): Promise<string>
  /**
   * Ends what `begin` began. `rotated` is the replacement of `used`, or null where there is none. Resolves once it is
   * stored, with the token that counts from now on: another one where somebody stored a newer one meanwhile.
   */
  end(used: string, rotated: string | null): Promise<string>
}

/** For credentials that are stored nowhere: a replacement lasts as long as its holder. */
export const unstored: RefreshTokens = {
  begin: async (held) => held,
  end: async (used, rotated) => rotated ?? used,
}
