/** The last runs of many pipelines at once, for strips and charts: a few fields of each, read through one index. */
import { isoText, type Queryable, raw, sql } from '../database/database.ts'
import { AppError } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { inVisibleDomain } from '../tenancy/visibility.ts'
import type { RunStatus } from './states.ts'

export interface PipelineActivity {
  pipeline_id: string
  next_run_at: string | null
  last_success_at: string | null
  /** Newest first. */
  runs: {
    id: string
    status: RunStatus
    created_at: string
    started_at: string | null
    finished_at: string | null
    records_written: number
  }[]
}

/** Of all pipelines of a request together. */
const MOST_RUNS = 2000
const DOMAIN_ID = raw('p.domain_id')

export async function readActivity(
  db: Queryable,
  actor: Actor,
  { ids, runs }: { ids: readonly string[]; runs: number },
): Promise<PipelineActivity[]> {
  if (ids.length * runs > MOST_RUNS)
    throw new AppError(
      'invalid_input',
      `runs: must be at most ${Math.floor(MOST_RUNS / ids.length)} for ${ids.length} pipelines, because one request returns up to ${MOST_RUNS} runs`,
    )
  return db.query<PipelineActivity>(sql`
    SELECT p.id AS pipeline_id, p.next_run_at, s.finished_at AS last_success_at, coalesce(l.runs, '[]') AS runs
      FROM unnest(${ids}::uuid[]) WITH ORDINALITY AS wanted (id, place)
      JOIN pipelines p ON p.id = wanted.id AND p.organization_id = ${actor.organization_id}${inVisibleDomain(actor, DOMAIN_ID)}
      LEFT JOIN LATERAL (
        SELECT r.finished_at FROM runs r WHERE r.pipeline_id = p.id AND r.status = 'success' ORDER BY r.seq DESC LIMIT 1) s ON true
      CROSS JOIN LATERAL (
        SELECT json_agg(json_build_object('id', n.id, 'status', n.status, 'created_at', ${isoText('n.created_at')},
                                          'started_at', ${isoText('n.started_at')}, 'finished_at', ${isoText('n.finished_at')},
                                          'records_written', n.records_written) ORDER BY n.seq DESC) AS runs
          FROM (SELECT r.id, r.seq, r.status, r.created_at, r.started_at, r.finished_at, r.records_written
                  FROM runs r WHERE r.pipeline_id = p.id ORDER BY r.seq DESC LIMIT ${runs}) n) l
     ORDER BY wanted.place`)
}
