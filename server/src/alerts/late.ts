/**
 * Finds pipelines that are late: no run has succeeded for longer than a rule allows, counted from the last success, or from
 * when the pipeline was created, enabled, scheduled or moved to another domain if that was later. A rule of an organization or a domain expects this only of
 * pipelines with a schedule.
 *
 * A rule is looked at when one of its pipelines may be late, and not before: a success only moves that time on, and a
 * pipeline that is new to it has all of its minutes. So a healthy organization is looked at about once per period, however
 * many pipelines it has. Each look locks the rule, so any number of schedulers may do this.
 */
import { type Connections, isoText, type Queryable, type Statement, sql } from '../database/database.ts'
import { notifyRun } from '../database/notifications.ts'

const RULES_AT_ONCE = 100
const PIPELINES_AT_ONCE = 500
/** A rule is not looked at more often than this. */
const SHORTEST_PAUSE = sql`interval '10 seconds'`

interface LateRule {
  id: string
  organization_id: string
  name: string
  domain_id: string | null
  pipeline_id: string | null
  late_after_minutes: number
}

/** Looks at rules that are due, the longest waiting first; returns how many pipelines became late. */
export async function findLatePipelines(db: Connections): Promise<number> {
  let found = 0
  for (let rules = 0; rules < RULES_AT_ONCE; rules++) {
    const late = await db.transaction(lookAtNextRule)
    if (late === null) break
    found += late
  }
  return found
}

/** Null if no rule is due. */
async function lookAtNextRule(tx: Queryable): Promise<number | null> {
  const rule = await tx.first<LateRule>(sql`
    SELECT id, organization_id, name, domain_id, pipeline_id, late_after_minutes FROM alerts
     WHERE enabled AND late_after_minutes IS NOT NULL AND late_check_at <= now() ORDER BY late_check_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED`)
  if (rule === null) return null
  const late = await openIncidents(tx, rule, await lockLate(tx, rule))
  await tx.execute(sql`
    UPDATE alerts SET late_check_at = greatest(now() + ${SHORTEST_PAUSE}, least(
             now() + make_interval(mins => late_after_minutes),
             (SELECT min(w.deadline) FROM (${deadlines(rule)}) w)))
     WHERE id = ${rule.id}`)
  if (late > 0) await tx.execute(notifyRun('delivery'))
  return late
}

/** The pipelines of a rule that it has not called late yet, and when they are. */
const deadlines = (rule: LateRule): Statement => sql`
  SELECT p.id, p.name, s.since, s.since + make_interval(mins => ${rule.late_after_minutes}) AS deadline
    FROM pipelines p CROSS JOIN LATERAL (
      SELECT greatest(p.created_at, p.expected_since, (
               SELECT r.finished_at FROM runs r WHERE r.pipeline_id = p.id AND r.status = 'success' ORDER BY r.seq DESC LIMIT 1)) AS since) s
   WHERE p.organization_id = ${rule.organization_id} AND p.enabled AND ${scopeOf(rule)}
     AND NOT EXISTS (SELECT 1 FROM alert_incidents i WHERE i.pipeline_id = p.id AND i.alert_id = ${rule.id} AND i.kind = 'late' AND i.closed_at IS NULL)`

function scopeOf({ domain_id, pipeline_id }: LateRule): Statement {
  if (pipeline_id !== null) return sql`p.id = ${pipeline_id}`
  return domain_id === null ? sql`p.schedule IS NOT NULL` : sql`p.domain_id = ${domain_id} AND p.schedule IS NOT NULL`
}

/** A pipeline that somebody holds is passed over; its deadline has the rule looked at again soon. */
async function lockLate(tx: Queryable, rule: LateRule): Promise<string[]> {
  const rows = await tx.query<{ id: string }>(sql`
    SELECT id FROM pipelines
     WHERE id IN (SELECT w.id FROM (${deadlines(rule)}) w WHERE w.deadline <= now() ORDER BY w.deadline LIMIT ${PIPELINES_AT_ONCE})
     ORDER BY id FOR NO KEY UPDATE SKIP LOCKED`)
  return rows.map(({ id }) => id)
}

/**
 * A separate statement, whose snapshot is newer than the locks: a run may have succeeded just before its pipeline was
 * locked.
 */
async function openIncidents(tx: Queryable, rule: LateRule, pipelineIds: string[]): Promise<number> {
  if (pipelineIds.length === 0) return 0
  return tx.execute(sql`
    WITH late AS (SELECT w.* FROM (${deadlines(rule)}) w WHERE w.id = ANY (${pipelineIds}::uuid[]) AND w.deadline <= now()),
    opened AS (
      INSERT INTO alert_incidents (organization_id, alert_id, pipeline_id, kind)
      SELECT ${rule.organization_id}, ${rule.id}, l.id, 'late' FROM late l ON CONFLICT DO NOTHING
      RETURNING id, pipeline_id, opened_at)
    INSERT INTO webhook_deliveries (alert_id, organization_id, event, incident_id, payload)
    SELECT ${rule.id}, ${rule.organization_id}, 'late', o.id, jsonb_build_object(
             'event', 'late', 'kind', 'late', 'alert', jsonb_build_object('id', ${rule.id}::uuid, 'name', ${rule.name}::text),
             'pipeline', jsonb_build_object('id', l.id, 'name', l.name), 'run', r.shown, 'opened_at', ${isoText('o.opened_at')}, 'closed_at', NULL,
             'late_after_minutes', ${rule.late_after_minutes}::int, 'late_since', ${isoText('l.since')})
      FROM opened o JOIN late l ON l.id = o.pipeline_id
      LEFT JOIN LATERAL (
        SELECT jsonb_build_object('id', r.id, 'status', r.status, 'error', r.error, 'records_written', r.records_written, 'finished_at', ${isoText('r.finished_at')}) AS shown
          FROM runs r WHERE r.pipeline_id = l.id ORDER BY r.seq DESC LIMIT 1) r ON true`)
}
