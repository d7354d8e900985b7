/** Domains: groups of pipelines, and the places where a domain role counts. */

import {
  FOREIGN_KEY_VIOLATION,
  isDatabaseError,
  type Queryable,
  raw,
  sql,
  type Transactions,
  UNIQUE_VIOLATION,
} from '../database/database.ts'
import { type Listed, type Paging, readList } from '../database/lists.ts'
import { AppError, notFound } from '../errors.ts'
import { type Actor, requirePermission } from './actor.ts'
import { audit } from './audit.ts'
import { inVisibleDomain } from './visibility.ts'

export interface DomainRow {
  id: string
  name: string
  description: string | null
  color: string | null
  created_at: string
  updated_at: string | null
}

export type DomainItem = Omit<DomainRow, 'updated_at'> & { pipeline_count?: number }

export interface DomainInput {
  name: string
  description?: string | null
  color?: string | null
}

/** PostgreSQL 18 reports this where earlier versions report FOREIGN_KEY_VIOLATION. */
const RESTRICT_VIOLATION = '23001'

const ID = raw('d.id')
const pipelineCount = sql`,
  (SELECT count(*) FROM pipelines p WHERE p.organization_id = d.organization_id AND p.domain_id = d.id) AS pipeline_count`

export function listDomains(
  db: Queryable,
  actor: Actor,
  paging: Paging,
  includeCounts: boolean,
): Promise<Listed<DomainItem>> {
  const matching = sql`d.organization_id = ${actor.organization_id}${inVisibleDomain(actor, ID)}`
  return readList(
    db,
    paging,
    sql`
      SELECT d.id, d.name, d.description, d.color, d.created_at${includeCounts ? pipelineCount : sql``} FROM domains d
       WHERE ${matching} ORDER BY d.created_at DESC, d.id`,
    sql`SELECT 1 FROM domains d WHERE ${matching}`,
  )
}

export async function readDomain(db: Queryable, actor: Actor, id: string): Promise<DomainRow> {
  const row = await db.first<DomainRow>(sql`
    SELECT id, name, description, color, created_at, updated_at FROM domains d
     WHERE id = ${id} AND organization_id = ${actor.organization_id}${inVisibleDomain(actor, ID)}`)
  if (!row) throw notFound('Domain')
  return row
}

export async function createDomain(db: Transactions, actor: Actor, input: DomainInput): Promise<DomainRow> {
  requirePermission(actor, 'domains:write')
  const { description = null, color = null } = input
  return db.transaction(async (tx) => {
    const row = await refuseTakenName(input.name, () =>
      tx.first<DomainRow>(sql`
        INSERT INTO domains (organization_id, name, description, color) VALUES (${actor.organization_id}, ${input.name.trim()}, ${description}, ${color})
        RETURNING id, name, description, color, created_at, updated_at`),
    )
    await audit(tx, actor, 'domain.created', { type: 'domain', id: row!.id, details: { name: row!.name } })
    return row!
  })
}

/** Only the given fields change; null clears the description or the color. */
export async function updateDomain(
  db: Transactions,
  actor: Actor,
  id: string,
  input: Partial<DomainInput>,
): Promise<DomainRow> {
  requirePermission(actor, 'domains:write', id)
  const { name, description, color } = input
  const given = Object.entries({ name, description, color }).flatMap(([field, value]) =>
    value === undefined ? [] : [field],
  )
  if (given.length === 0) return readDomain(db, actor, id)
  return db.transaction(async (tx) => {
    const row = await refuseTakenName(name ?? '', () =>
      tx.first<DomainRow>(sql`
        UPDATE domains
           SET name = coalesce(${name?.trim() ?? null}, name),
               description = CASE WHEN ${description !== undefined} THEN ${description ?? null} ELSE description END,
               color = CASE WHEN ${color !== undefined} THEN ${color ?? null} ELSE color END,
               updated_at = now()
         WHERE id = ${id} AND organization_id = ${actor.organization_id}
        RETURNING id, name, description, color, created_at, updated_at`),
    )
    if (!row) throw notFound('Domain')
    await audit(tx, actor, 'domain.updated', { type: 'domain', id, details: { name: row.name, fields: given } })
    return row
  })
}

async function refuseTakenName<T>(name: string, write: () => Promise<T>): Promise<T> {
  try {
    return await write()
  } catch (error) {
    if (isDatabaseError(error, UNIQUE_VIOLATION, 'domains_name_key'))
      throw new AppError('conflict', `name: a domain named ${JSON.stringify(name.trim())} already exists`)
    throw error
  }
}

/** The foreign key of pipelines decides whether the domain is empty, so a pipeline that is added concurrently counts. */
export async function deleteDomain(db: Transactions, actor: Actor, id: string): Promise<void> {
  try {
    await db.transaction(async (tx) => {
      const row = await tx.first<{ name: string }>(
        sql`DELETE FROM domains WHERE id = ${id} AND organization_id = ${actor.organization_id} RETURNING name`,
      )
      if (!row) throw notFound('Domain')
      await audit(tx, actor, 'domain.deleted', { type: 'domain', id, details: { name: row.name } })
    })
  } catch (error) {
    if (isDatabaseError(error, RESTRICT_VIOLATION) || isDatabaseError(error, FOREIGN_KEY_VIOLATION))
      throw new AppError('forbidden', 'Move or delete the pipelines of this domain first')
    throw error
  }
}
