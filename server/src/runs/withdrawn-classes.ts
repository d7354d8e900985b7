/**
 * Runs that wait for a pod of a class that is no longer in POD_CLASSES: nothing starts such pods any more, so these runs fail
 * with a reason instead of waiting for ever.
 */
import { type Connections, sql } from '../database/database.ts'
import { endRun } from './finish.ts'
import { oneLine } from './log.ts'
import { explainMissingClass } from './pinned-config.ts'

interface WaitingRun {
  id: string
  organization_id: string
  pipeline_id: string
  attempt: number
  pod_class: string
}

/** While processes are replaced, one with older settings must not fail what the others already offer. */
const WAITED_MINUTES = 10
const AT_ONCE = 100

export async function failRunsOfWithdrawnClasses(
  db: Connections,
  classes: readonly string[],
  onFailed: (run: WaitingRun, error: string) => void = () => {},
): Promise<number> {
  // A loose index scan: the classes, not the runs that wait in them.
  const waiting = await db.query<WaitingRun>(sql`
    WITH RECURSIVE known AS (
      (SELECT pod_class FROM runs WHERE status = 'pending' AND ready AND pod_class > '' ORDER BY pod_class LIMIT 1)
      UNION ALL
      SELECT n.pod_class FROM known k CROSS JOIN LATERAL (
        SELECT r.pod_class FROM runs r WHERE r.status = 'pending' AND r.ready AND r.pod_class > k.pod_class ORDER BY r.pod_class LIMIT 1) n
    )
    SELECT r.id, r.organization_id, r.pipeline_id, r.attempt, r.pod_class FROM known k JOIN runs r ON r.pod_class = k.pod_class
     WHERE k.pod_class <> ALL (${classes}::text[]) AND r.status = 'pending' AND r.ready
       AND r.available_at < now() - make_interval(mins => ${WAITED_MINUTES}) LIMIT ${AT_ONCE}`)
  for (const run of waiting) {
    const problem = explainMissingClass(run.pod_class, classes)
    const error = `config: ${problem}`
    const update = sql`
      UPDATE runs SET status = 'failed', finished_at = now(), error = ${error}, config_box = NULL, cursor = NULL, parts = '[]', stage_left = true
       WHERE id = ${run.id} AND status = 'pending' AND attempt = ${run.attempt}`
    if (await endRun(db, update, { log: oneLine('error', problem) })) onFailed(run, error)
  }
  return waiting.length
}
