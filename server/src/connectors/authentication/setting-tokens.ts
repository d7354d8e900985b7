/**
 * Refresh tokens that are settings of a source, such as those of a manifest, exchanged one after another: the lease that
 * keeps other processes away belongs to the source as a whole.
 */
import type { Exchanged } from '../contract.ts'
import { AuthenticationFailed } from './failed.ts'
import type { RefreshTokens, SettingPath } from './refresh-tokens.ts'

export class SettingTokens {
  readonly #refreshTokens: RefreshTokens
  #last: Promise<unknown> = Promise.resolve()

  constructor(refreshTokens: RefreshTokens) {
    this.#refreshTokens = refreshTokens
  }

  /** Resolves with the token to use the next time, once it is stored. Not tied to any signal, as its answer must not be lost. */
  exchange(held: string, path: SettingPath, use: (token: string) => Promise<Exchanged>): Promise<string> {
    const exchanging = this.#last.then(() => this.#exchange(held, path, use))
    this.#last = exchanging.catch(() => {})
    return exchanging
  }

  async settled(): Promise<void> {
    await this.#last
  }

  async #exchange(held: string, path: SettingPath, use: (token: string) => Promise<Exchanged>): Promise<string> {
    const used = await this.#refreshTokens.begin(held, path)
    try {
      return await this.#use(used, path, use)
    } catch (error) {
      if (!(error instanceof AuthenticationFailed) || error.code !== 'invalid_grant') throw error
      // Another process may have rotated it since it was read.
      const newer = await this.#refreshTokens.begin(used, path)
      if (newer !== used) return this.#use(newer, path, use)
      await this.#refreshTokens.end(used, null)
      throw error
    }
  }

  async #use(used: string, path: SettingPath, use: (token: string) => Promise<Exchanged>): Promise<string> {
    try {
      const { rotated, also } = await use(used)
      return await this.#refreshTokens.end(used, rotated, { path, also })
    } catch (error) {
      // The first error is the one to report.
      await this.#refreshTokens.end(used, null).catch(() => {})
      throw error
    }
  }
}
