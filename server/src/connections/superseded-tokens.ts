/**
 * Refresh tokens that were replaced, by their hashes. Whoever saves a config that was read before the replacement (a form
 * that was open, a file that is applied again and again) sends a token that no longer works, and would lose the one that
 * does: such a token is taken for the stored one.
 */
import { createHash } from 'node:crypto'
import type { Authentication } from '../connectors/contract.ts'
import { type Queryable, sql } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { authenticationIn, isSameCredential, openConfig, type Seat } from './stored-credentials.ts'

const KEPT_DAYS = 400
/** Of one credential. The first ones stay with the latest: a file that is applied again holds the very first. */
const FIRST_KEPT = 100
const LATEST_KEPT = 900

/** Of a credential: hashes of equal tokens differ from one to the next. */
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

/** The config that is about to be saved over a sealed one, with its newer token where it brings one that was replaced. */
export async function keepNewerToken<Config>(
  tx: Queryable,
  box: SecretBox,
  seat: Seat & { config_box: Buffer },
  config: Config,
): Promise<Config> {
  const incoming = authenticationIn(seat.table, config)
  if ((incoming as Authentication | undefined)?.type !== 'oauth2_refresh_token') return config
  const stored = authenticationIn(seat.table, openConfig(box, seat, seat.config_box))
  if (!isSameCredential(stored, incoming)) return config
  const token = (incoming as Authentication).params.refresh_token as string
  const superseded = await tx.first(sql`
    SELECT 1 FROM superseded_tokens WHERE credential_id = ${seat.id} AND token_hash = ${hash(seat.id, token)}`)
  if (!superseded) return config
  const copy = structuredClone(config)
  const { params } = authenticationIn(seat.table, copy) as Authentication
  params.refresh_token = stored.params.refresh_token!
  return copy
}

export const forgetOldTokens = (db: Queryable): Promise<number> =>
  db.execute(sql`DELETE FROM superseded_tokens WHERE superseded_at < now() - make_interval(days => ${KEPT_DAYS})`)
