/**
 * Hashes of refresh tokens that were rotated. A client that saves a config read before the rotation (a form that was
 * open, a file that is applied repeatedly) sends a token that no longer works, and would overwrite the one that does.
 * So a superseded token is treated as the stored one.
 */
import { createHash } from 'node:crypto'
import type { Authentication } from '../connectors/contract.ts'
import { type Queryable, sql } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { authenticationIn, type ConfigRow, isSameCredential, openConfig } from './stored-credentials.ts'

const KEPT_DAYS = 400
/**
 * Per credential. The first ones are kept along with the latest: a file that is applied repeatedly holds the very first
 * token.
 */
const FIRST_KEPT = 100
const LATEST_KEPT = 900

/** Salted with the credential, so that equal tokens have different hashes. */
const hash = (credentialId: string, token: string): Buffer =>
  createHash('sha256').update(`${credentialId}\n${token}`).digest()

export async function noteSuperseded(
  tx: Queryable,
  { organization_id, origin }: { organization_id: string; origin: { id: string } },
  token: string,
): Promise<void> {
  await tx.execute(sql`
    INSERT INTO superseded_tokens (credential_id, token_hash, organization_id)
    VALUES (${origin.id}, ${hash(origin.id, token)}, ${organization_id}) ON CONFLICT DO NOTHING`)
  await tx.execute(sql`
    DELETE FROM superseded_tokens s USING (
      SELECT token_hash, row_number() OVER (ORDER BY superseded_at) AS age, count(*) OVER () AS total
        FROM superseded_tokens WHERE credential_id = ${origin.id}) old
     WHERE s.credential_id = ${origin.id} AND s.token_hash = old.token_hash
       AND old.age > ${FIRST_KEPT} AND old.age <= old.total - ${LATEST_KEPT}`)
}

/** The config that is about to replace an encrypted one, with the stored newer token in place of a superseded one. */
export async function keepNewerToken<Config>(
  tx: Queryable,
  box: SecretBox,
  row: ConfigRow & { config_box: Buffer },
  config: Config,
): Promise<Config> {
  const incoming = authenticationIn(row.table, config)
  if ((incoming as Authentication | undefined)?.type !== 'oauth2_refresh_token') return config
  const stored = authenticationIn(row.table, openConfig(box, row, row.config_box))
  if (!isSameCredential(stored, incoming)) return config
  const token = (incoming as Authentication).params.refresh_token as string
  const superseded = await tx.first(sql`
    SELECT 1 FROM superseded_tokens WHERE credential_id = ${row.id} AND token_hash = ${hash(row.id, token)}`)
  if (!superseded) return config
  const copy = structuredClone(config)
  const { params } = authenticationIn(row.table, copy) as Authentication
  params.refresh_token = stored.params.refresh_token!
  return copy
}

export const forgetOldTokens = (db: Queryable): Promise<number> =>
  db.execute(sql`DELETE FROM superseded_tokens WHERE superseded_at < now() - make_interval(days => ${KEPT_DAYS})`)
