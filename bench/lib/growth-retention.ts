/** Whether claims become slower while a month of runs is deleted from the large installation. */
import { sql } from '../../server/src/database/database.ts'
import { NIL_UUID } from '../../server/src/database/lists.ts'
import { claim } from '../../server/src/runs/claim.ts'
import { forgetOldAudit, forgetOldRuns } from '../../server/src/scheduler/history.ts'
import { percentile, report } from './figures.ts'
import type { Installation } from './installation.ts'

const CLAIMS = 200

export const measureRetention = (_small: Installation, large: Installation): Promise<void> =>
  large.withDatabase(async (db) => {
    const request = { worker: 'bench', free: 8, perOrganization: 4, leaseSeconds: 600, after: NIL_UUID }
    const time = async () => {
      const began = performance.now()
      await claim(db.control, request)
      return performance.now() - began
    }
    const oldest = await db.first<{ days: number }>(
      sql`SELECT ceil(extract(epoch FROM now() - min(finished_at)) / 86400)::int AS days FROM runs WHERE finished_at IS NOT NULL`,
    )
    const days = oldest!.days - 30
    const quiet: number[] = []
    for (let index = 0; index < CLAIMS; index++) quiet.push(await time())
    const began = performance.now()
    let over = false
    const deleting = Promise.all([forgetOldRuns(db, days), forgetOldAudit(db, days)]).finally(() => {
      over = true
    })
    const busy: number[] = []
    while (!over) busy.push(await time())
    const [runs, lines] = await deleting
    const seconds = (performance.now() - began) / 1000
    report(
      'claim while a month is deleted',
      {
        p50_ms: percentile(busy, 50),
        p95_ms: percentile(busy, 95),
        quiet_p50_ms: percentile(quiet, 50),
        quiet_p95_ms: percentile(quiet, 95),
        runs_deleted: runs,
        lines_deleted: lines,
        deleted_per_second: (runs + lines) / seconds,
      },
      'as before',
    )
  })
