/** Runs that have ended, page by page, and which of them their pipeline still needs. */
import { type Statement, sql } from '../database/database.ts'
import { NIL_UUID } from '../database/lists.ts'

export const AT_ONCE = 500

export interface EndedRun {
  id: string
  organization_id: string
  finished_at: string
}

export type After = Pick<EndedRun, 'finished_at' | 'id'>

/** Starting with the one that ended first. */
export async function forEachPage<Run extends EndedRun>(
  readPage: (after: After) => Promise<Run[]>,
  act: (page: Run[]) => Promise<number>,
): Promise<number> {
  let after: After = { finished_at: '-infinity', id: NIL_UUID }
  let done = 0
  for (;;) {
    const page = await readPage(after)
    done += await act(page)
    if (page.length < AT_ONCE) return done
    after = page.at(-1)!
  }
}

/**
 * Whether `r` is the last success of its pipeline. A replay into another destination does not take its place: the next run
 * may go on from the file of the own one.
 */
export const isLastSuccess: Statement = sql`
  r.id IS NOT DISTINCT FROM (
    SELECT s.id FROM runs s
     WHERE s.pipeline_id = r.pipeline_id AND s.status = 'success' AND (s.triggered_by <> 'replay' OR s.output_target IS NOT DISTINCT FROM r.output_target)
     ORDER BY s.seq DESC LIMIT 1)`
