/**
 * Where a refresh token is stored while requests use it. Many providers rotate the token on each use and revoke the
 * whole grant if an old one is presented. So only one request uses a token at a time, and its replacement is stored
 * before anything that came with it is used.
 */
export interface RefreshTokens {
  /**
   * Waits until no other process is refreshing the same credential, and returns the token that is stored now. `path`: it is
   * a setting of the source, not a part of its `authentication`.
   */
  begin(held: string, path?: SettingPath): Promise<string>
  /**
   * Ends what `begin` started. `rotated` is the replacement for `used`, or null. Resolves once it is stored, with the
   * token to use from now on: a different one if a newer token was stored in the meantime.
   */
  end(used: string, rotated: string | null, kept?: KeptToken): Promise<string>
}

/** The names that lead to a setting inside of a source's `config`. */
export type SettingPath = readonly string[]

/** A refresh token that is a setting, and what came with its replacement and is stored along with it. */
export interface KeptToken {
  path: SettingPath
  also: ReadonlyArray<{ path: SettingPath; value: string }>
}

const MOST_NAMES = 10
const LONGEST_NAME = 200
const MOST_ALSO = 4

/** What an executor sends is not trusted. */
export function isSettingPath(value: unknown): value is SettingPath {
  const isName = (name: unknown): boolean =>
    typeof name === 'string' && name !== '' && name.length <= LONGEST_NAME && name !== '__proto__'
  return Array.isArray(value) && value.length > 0 && value.length <= MOST_NAMES && value.every(isName)
}

export function isKeptToken(value: unknown, isToken: (token: unknown) => boolean): value is KeptToken {
  const { path, also } = (value ?? {}) as Partial<KeptToken>
  if (!isSettingPath(path) || !Array.isArray(also) || also.length > MOST_ALSO) return false
  return also.every((each) => isSettingPath(each?.path) && isToken(each?.value))
}

/** For credentials that are not stored: a rotated token lives as long as its holder. */
export const unstored: RefreshTokens = {
  begin: async (held) => held,
  end: async (used, rotated) => rotated ?? used,
}
