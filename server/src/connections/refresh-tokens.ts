/**
 * Refresh tokens that providers rotate. The new token is stored where the old one came from: the saved
 * connector, or the pipeline itself for an inline source; and in the pinned config of the run, for its later attempts.
 * There it is part of the `authentication`, or a setting of the source (`path`), as in a manifest.
 *
 *   begin: take the lease ──► give the stored token ──► the executor asks the provider ──► end: store, release the lease
 *
 * A stored token is only replaced if it is still the one that was exchanged. If it is a different one, another process was
 * faster or the user saved a new one: that one is kept, and used from now on.
 */
import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { KeptToken, RefreshTokens, SettingPath } from '../connectors/authentication/refresh-tokens.ts'
import { ConnectorError } from '../connectors/contract.ts'
import { type Database, type Queryable, raw, sql } from '../database/database.ts'
import { retryWhileUnavailable } from '../database/retry-while-unavailable.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { type ConfigRow, type CredentialHolder, findToken, openConfig, placeOf } from './stored-credentials.ts'
import { isSuperseded, noteSuperseded } from './superseded-tokens.ts'

/** Where a credential is stored, and what its holder knows of it. */
export interface TokenPlace extends CredentialHolder {
  organization_id: string
  /** The saved connector or the pipeline that it came from. */
  origin: { table: 'saved_connectors' | 'pipelines'; id: string }
  /** The attempt that uses it, if a run does. */
  run?: { id: string; attempt: number }
}

export interface StoredRefreshTokens extends RefreshTokens {
  /** Resolves when no exchange is in progress, at the latest after the given time. */
  settle(atMostMs: number): Promise<void>
  /** Stops waiting and releases the lease. */
  close(): Promise<void>
}

/** Longer than the two requests that an exchange makes at most, 30 seconds each. */
const LEASE_SECONDS = 75
const LOOK_MS = 100

export function createRefreshTokens(db: Database, box: SecretBox, place: TokenPlace): StoredRefreshTokens {
  const holder = randomUUID()
  const closing = new AbortController()
  let began = false
  let exchange: PromiseWithResolvers<void> | null = null
  return {
    async begin(held, path) {
      began = true
      await retryWhileUnavailable(() => takeLease(db, place, holder, closing.signal))
      const stored = await retryWhileUnavailable(() =>
        db.transaction((tx) => lockConfig(tx, box, place, { ...place.origin, path })),
      )
      if (stored?.same === false && held !== stored.token) await requireUnused(db, place, { holder, held, path })
      exchange ??= Promise.withResolvers()
      return stored?.same ? stored.token : held
    },
    async end(used, rotated, kept) {
      try {
        if (rotated !== null && rotated !== used)
          return await retryWhileUnavailable(() => store(db, box, place, { used, rotated, kept, holder }))
        // A lease that cannot be released now expires.
        await releaseLease(db, place, holder).catch(() => 0)
        return used
      } finally {
        exchange?.resolve()
        exchange = null
      }
    },
    async settle(atMostMs) {
      if (exchange) await Promise.race([exchange.promise, delay(atMostMs, undefined, { ref: false })])
    },
    async close() {
      exchange?.resolve()
      closing.abort(new Error('the call that waited for a refresh token has ended'))
      if (began) await releaseLease(db, place, holder).catch(() => 0)
    },
  }
}

/** A provider that sees a superseded token revokes the whole grant, so it is not even tried. */
async function requireUnused(
  db: Database,
  place: TokenPlace,
  { holder, held, path }: { holder: string; held: string; path: SettingPath | undefined },
): Promise<void> {
  if (!(await isSuperseded(db, { id: place.origin.id, token: held, path }))) return
  await releaseLease(db, place, holder)
  throw new ConnectorError('config', CHANGED_SINCE)
}

const CHANGED_SINCE =
  'The provider has replaced the refresh token since this run was triggered, and the settings of the source have changed ' +
  'too, so the new token is not used with the old settings; trigger the pipeline again.'

const store = (
  db: Database,
  box: SecretBox,
  place: TokenPlace,
  { holder, ...tokens }: Rotation & { holder: string },
): Promise<string> =>
  db.transaction(async (tx) => {
    const current = await storeRotatedToken(tx, box, place, tokens)
    await releaseLease(tx, place, holder)
    return current
  })

interface Rotation {
  used: string
  rotated: string
  kept?: KeptToken | undefined
}

/** Stores a rotated token. Returns the token to use from now on. */
export async function storeRotatedToken(
  tx: Queryable,
  box: SecretBox,
  place: TokenPlace,
  { used, rotated, kept }: Rotation,
): Promise<string> {
  // Runs are always locked before their pipeline.
  const path = kept?.path
  const run = place.run ? await lockConfig(tx, box, place, { table: 'runs', id: place.run.id, path }) : null
  const origin = await lockConfig(tx, box, place, { ...place.origin, path })
  const current = origin === null || origin.token === used || !origin.same ? rotated : origin.token
  if (origin?.token === used) {
    await origin.save(rotated, kept?.also)
    await noteSuperseded(tx, place, { token: used, path })
  }
  // A newer attempt of the run maintains its own copy, unless that is the very token that was just used up.
  if (run !== null && (run.attempt === place.run?.attempt || run.token === used)) await run.save(current, kept?.also)
  return current
}

interface LockedConfig {
  token: string
  same: boolean
  attempt: number | null
  save(token: string, also?: KeptToken['also']): Promise<unknown>
}

/** Null if the row is gone, cannot be decrypted, or holds no such credential any more. */
async function lockConfig(
  tx: Queryable,
  box: SecretBox,
  ours: TokenPlace,
  { table, id, path }: Pick<ConfigRow, 'table' | 'id'> & { path?: SettingPath | undefined },
): Promise<LockedConfig | null> {
  const { organization_id } = ours
  const attempt = raw(table === 'runs' ? 'attempt' : 'NULL::int AS attempt')
  const row = await tx.first<{ config_box: Buffer | null; attempt: number | null }>(sql`
    SELECT config_box, ${attempt} FROM ${raw(table)} WHERE id = ${id} AND organization_id = ${organization_id} FOR NO KEY UPDATE`)
  if (!row?.config_box) return null
  const place = placeOf({ organization_id, table, id })
  const config = openConfig(box, { organization_id, table, id }, row.config_box)
  const stored = findToken(table, config, ours, path)
  if (stored === null) return null
  const { token, same } = stored
  return {
    token,
    same,
    attempt: row.attempt,
    save(replacement, also) {
      stored.replace(replacement, also)
      return tx.execute(sql`
        UPDATE ${raw(table)} SET config_box = ${box.seal(place, config)} WHERE id = ${id} AND organization_id = ${organization_id}`)
    },
  }
}

async function takeLease(db: Database, place: TokenPlace, holder: string, signal: AbortSignal): Promise<void> {
  const { organization_id, origin } = place
  for (;;) {
    signal.throwIfAborted()
    const taken = await db.execute(sql`
      INSERT INTO refresh_leases AS l (credential_id, organization_id, holder, lease_until)
      SELECT ${origin.id}, ${organization_id}, ${holder}, now() + make_interval(secs => ${LEASE_SECONDS})
       WHERE NOT EXISTS (SELECT 1 FROM refresh_leases WHERE credential_id = ${origin.id} AND holder <> ${holder} AND lease_until > now())
      ON CONFLICT (credential_id) DO UPDATE SET holder = excluded.holder, lease_until = excluded.lease_until
       WHERE l.holder = excluded.holder OR l.lease_until <= now()`)
    if (taken === 0) {
      await delay(LOOK_MS, undefined, { signal })
      continue
    }
    if (!signal.aborted) return
    await releaseLease(db, place, holder)
  }
}

const releaseLease = (db: Queryable, { organization_id, origin }: TokenPlace, holder: string): Promise<number> =>
  db.execute(sql`
    DELETE FROM refresh_leases WHERE credential_id = ${origin.id} AND organization_id = ${organization_id} AND holder = ${holder}`)

/** Removes leases of holders that died. */
export const forgetEndedLeases = (db: Queryable): Promise<number> =>
  db.execute(sql`DELETE FROM refresh_leases WHERE lease_until < now() - interval '1 hour'`)
