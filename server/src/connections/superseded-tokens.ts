/**
 * Hashes of refresh tokens that were rotated. A client that saves a config read before the rotation (a form that was
 * open, a file that is applied repeatedly) sends a token that no longer works, and would overwrite the one that does.
 * So a superseded token is treated as the stored one; but only if the rest of the source is the stored one too. Otherwise
 * whoever knows an old token could have the new one sent to a server of theirs.
 */
import { createHash } from 'node:crypto'
import { isDeepStrictEqual } from 'node:util'
import type { SettingPath } from '../connectors/authentication/refresh-tokens.ts'
import { MASK } from '../connectors/settings/secrets.ts'
import { type Queryable, sql } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { AppError } from '../errors.ts'
import { overridesOf } from './kept-secrets.ts'
import {
  type ConfigRow,
  type CredentialHolder,
  findChangedTexts,
  isRotating,
  isSameBut,
  isSameConnector,
  isSameCredential,
  isSamePath,
  openConfig,
  sourceIn,
  valueAt,
} from './stored-credentials.ts'

const KEPT_DAYS = 400
/**
 * Per credential. The first ones are kept along with the latest: a file that is applied repeatedly holds the very first
 * token.
 */
const FIRST_KEPT = 100
const LATEST_KEPT = 900

/**
 * Salted with the credential, so that equal tokens have different hashes, and with the setting that held the token: at
 * any other place it is only a text.
 */
const hash = (credentialId: string, token: string, path?: SettingPath): Buffer =>
  createHash('sha256')
    .update(path ? `${credentialId}\n${JSON.stringify(path)}\n${token}` : `${credentialId}\n${token}`)
    .digest()

export async function noteSuperseded(
  tx: Queryable,
  { organization_id, origin }: { organization_id: string; origin: { id: string } },
  { token, path }: { token: string; path?: SettingPath | undefined },
): Promise<void> {
  await tx.execute(sql`
    INSERT INTO superseded_tokens (credential_id, token_hash, organization_id)
    VALUES (${origin.id}, ${hash(origin.id, token, path)}, ${organization_id}) ON CONFLICT DO NOTHING`)
  await tx.execute(sql`
    DELETE FROM superseded_tokens s USING (
      SELECT token_hash, row_number() OVER (ORDER BY superseded_at) AS age, count(*) OVER () AS total
        FROM superseded_tokens WHERE credential_id = ${origin.id}) old
     WHERE s.credential_id = ${origin.id} AND s.token_hash = old.token_hash
       AND old.age > ${FIRST_KEPT} AND old.age <= old.total - ${LATEST_KEPT}`)
}

export async function isSuperseded(
  db: Queryable,
  { id, token, path }: { id: string; token: string; path?: SettingPath | undefined },
): Promise<boolean> {
  const [found] = await findSuperseded(db, id, [{ incoming: token, path: path ?? null }])
  return found !== undefined
}

type Row = ConfigRow & { config_box: Buffer; connector_name?: string }

/**
 * The config that is about to replace an encrypted one, with the stored newer token in place of a superseded one. Throws
 * if anything changes along with a superseded token: it works no longer, and the newer one must not follow the change.
 */
export async function keepNewerToken<Config>(tx: Queryable, box: SecretBox, row: Row, config: Config): Promise<Config> {
  const stored = sourceIn(row.table, openConfig(box, row, row.config_box))
  const incoming = sourceIn(row.table, config)
  const changes = changedTokens(stored, incoming)
  if (changes.length === 0) return config
  const superseded = await findSuperseded(tx, row.id, changes)
  if (superseded.length === 0) return config
  const copy = structuredClone(config)
  for (const { path, newer } of superseded) {
    if (!isInPlace(row, { stored, incoming }, path)) throw new AppError('conflict', CHANGED)
    const source = sourceIn(row.table, copy)
    if (path === null) source.authentication!.params.refresh_token = newer
    else (valueAt(source.config, path.slice(0, -1)) as Record<string, unknown>)[path.at(-1)!] = newer
  }
  return copy
}

const CHANGED =
  'config: its refresh token was replaced by the provider since you read it, and the new one is only kept if nothing else of ' +
  `the source changes; read the config again, or send ${MASK} in place of its secrets, or authorize again and send the new token`

type Source = Partial<CredentialHolder>

interface ChangedToken {
  /** Of a setting; null: it is the one of the `authentication`. */
  path: SettingPath | null
  incoming: string
  newer: string
}

const LONGEST_TOKEN = 16 * 1024

/** What may be a token and is not the stored one. */
function changedTokens(stored: Source, incoming: Source): ChangedToken[] {
  const changes: ChangedToken[] = []
  const add = (path: SettingPath | null, given: unknown, newer: unknown): void => {
    if (typeof given !== 'string' || typeof newer !== 'string') return
    if (given !== newer && given !== '' && given.length <= LONGEST_TOKEN) changes.push({ path, incoming: given, newer })
  }
  if (isSameCredential(stored.authentication, incoming.authentication))
    add(null, incoming.authentication?.params.refresh_token, stored.authentication.params.refresh_token)
  for (const path of findChangedTexts(stored.config, incoming.config))
    add(path, valueAt(incoming.config, path), valueAt(stored.config, path))
  return changes
}

/**
 * Whether nothing but tokens changes that could send the one at `path` elsewhere. Settings that each pipeline may override
 * are never an address; and the token of an `authentication` is only sent to its provider, which is still the same.
 */
function isInPlace(row: Row, { stored, incoming }: { stored: Source; incoming: Source }, path: SettingPath | null) {
  if (!isSameConnector(stored, incoming)) return false
  const overrides = overridesOf({ kind: 'source', connector_name: row.connector_name ?? stored.name })
  const isFree = (place: SettingPath) =>
    isRotating(place) || (path !== null && isSamePath(place, path)) || overrides.includes(place[0]!)
  return (
    isSameBut(stored.config, incoming.config, isFree) &&
    (path === null || isDeepStrictEqual(stored.authentication, incoming.authentication))
  )
}

async function findSuperseded<Token extends Pick<ChangedToken, 'incoming' | 'path'>>(
  tx: Queryable,
  id: string,
  tokens: readonly Token[],
): Promise<Token[]> {
  const hashed = tokens.map((token) => ({ token, hash: hash(id, token.incoming, token.path ?? undefined) }))
  const rows = await tx.query<{ token_hash: Buffer }>(sql`
    SELECT token_hash FROM superseded_tokens
     WHERE credential_id = ${id} AND token_hash = ANY(${hashed.map((each) => each.hash)}::bytea[])`)
  const known = new Set(rows.map(({ token_hash }) => token_hash.toString('hex')))
  return hashed.filter((each) => known.has(each.hash.toString('hex'))).map(({ token }) => token)
}

export const forgetOldTokens = (db: Queryable): Promise<number> =>
  db.execute(sql`DELETE FROM superseded_tokens WHERE superseded_at < now() - make_interval(days => ${KEPT_DAYS})`)
