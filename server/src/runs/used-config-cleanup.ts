/** Cleanup of kept configurations: those that no pipeline uses, those of a pipeline with too many, and plain ones. */
import { type Database, type Queryable, sql } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { keepUsedConfigs, readPlain, sealKept } from './used-config.ts'

const AT_ONCE = 200
/** A pipeline can be changed before every run. If it has more different configurations, only recent runs keep theirs. */
export const KEPT_PER_PIPELINE = 100

/** Deletes what was kept for pipelines that are deleted, and too much of others. */
export async function forgetUsedConfigs(db: Database): Promise<number> {
  const many = await db.query<{ pipeline_id: string }>(
    sql`SELECT pipeline_id FROM pipeline_used_configs GROUP BY pipeline_id HAVING count(*) > ${KEPT_PER_PIPELINE}`,
  )
  for (const { pipeline_id } of many) await db.transaction((tx) => forgetOld(tx, pipeline_id))
  let deleted = 0
  for (;;) {
    const count = await db.execute(sql`
      DELETE FROM used_configs WHERE id IN (
        SELECT id FROM used_configs c WHERE NOT EXISTS (SELECT 1 FROM pipeline_used_configs u WHERE u.used_config_id = c.id)
         LIMIT ${AT_ONCE} FOR UPDATE SKIP LOCKED)`)
    deleted += count
    if (count < AT_ONCE) return deleted
  }
}

/** Locks the pipeline as a trigger does, so that no run comes to name what is deleted. */
async function forgetOld(tx: Queryable, pipelineId: string): Promise<void> {
  const locked = await tx.first(sql`SELECT 1 FROM pipelines WHERE id = ${pipelineId} FOR NO KEY UPDATE SKIP LOCKED`)
  if (!locked) return
  await tx.execute(sql`
    DELETE FROM pipeline_used_configs WHERE pipeline_id = ${pipelineId} AND used_config_id <> ALL (ARRAY(
      SELECT used_config_id FROM runs WHERE pipeline_id = ${pipelineId} AND used_config_id IS NOT NULL ORDER BY seq DESC LIMIT ${KEPT_PER_PIPELINE}))`)
}

interface PlainRow {
  pipeline_id: string
  organization_id: string
  hash: Buffer
  config: string
}

/** Encrypts what an earlier release kept in plain text. Can be interrupted at any point and repeated. */
export async function sealPlainConfigs(
  db: Database,
  box: SecretBox,
  onFailure: (error: Error) => void,
): Promise<number> {
  let sealed = 0
  let last: PlainRow | undefined
  for (;;) {
    const rows = await db.query<PlainRow>(sql`
      SELECT c.pipeline_id, p.organization_id, c.hash, c.config FROM run_configs c JOIN pipelines p ON p.id = c.pipeline_id
       ${last ? sql`WHERE (c.pipeline_id, c.hash) > (${last.pipeline_id}, ${last.hash})` : sql``} ORDER BY c.pipeline_id, c.hash LIMIT ${AT_ONCE}`)
    for (const row of rows)
      sealed += await sealPlain(db, box, row).then(
        () => 1,
        (error: Error) => {
          onFailure(error)
          return 0
        },
      )
    if (rows.length < AT_ONCE) return sealed
    last = rows.at(-1)
  }
}

/**
 * Each run always names one of both: the plain row is deleted last. Runs that have not ended are left for the next time,
 * because others lock several of them at once, in another order.
 */
async function sealPlain(db: Database, box: SecretBox, row: PlainRow): Promise<void> {
  const { pipeline_id, organization_id, hash } = row
  const used = sealKept(box, organization_id, readPlain(row.config))
  for (let moved = AT_ONCE; moved === AT_ONCE; )
    moved = await db.execute(sql`
      WITH ${keepUsedConfigs([{ pipeline_id, ...used }])}
      UPDATE runs SET used_config_id = ${used.id}, used_config_hash = NULL WHERE id IN (
        SELECT id FROM runs WHERE pipeline_id = ${pipeline_id} AND used_config_hash = ${hash} AND finished_at IS NOT NULL LIMIT ${AT_ONCE})`)
  await db.transaction(async (tx) => {
    await tx.execute(sql`SELECT 1 FROM pipelines WHERE id = ${pipeline_id} FOR NO KEY UPDATE`)
    await tx.execute(sql`
      DELETE FROM run_configs c WHERE pipeline_id = ${pipeline_id} AND hash = ${hash}
         AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.pipeline_id = c.pipeline_id AND r.used_config_hash = c.hash)`)
  })
}
