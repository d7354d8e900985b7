/** What moves runs: tick, claim, renewal and end, on both installations in turns. */
import { type Database, sql } from '../../server/src/database/database.ts'
import { NIL_UUID } from '../../server/src/database/lists.ts'
import type { SecretBox } from '../../server/src/database/secret-box.ts'
import { type ClaimedRun, claim, loadClaimed, nextAvailableMs } from '../../server/src/runs/claim.ts'
import { renewLeases } from '../../server/src/runs/leases.ts'
import { recoverLostRuns } from '../../server/src/runs/recover.ts'
import { finishSuccess } from '../../server/src/runs/success.ts'
import { scheduleDuePipelines } from '../../server/src/scheduler/due-pipelines.ts'
import { nextDueMs } from '../../server/src/scheduler/next-due.ts'
import { percentile, report } from './figures.ts'
import type { Installation } from './installation.ts'

const ROUNDS = 20
const DUE = 50
const outcome = { records_read: 1, records_written: 1, bytes_written: 10, output: null, cursor: null }
const silent = { info() {}, warn: console.error, error: console.error } as never

type Times = Map<string, number[]>

export const measureControl = (small: Installation, large: Installation): Promise<void> =>
  small.withDatabase((smallDb, smallBox) =>
    large.withDatabase(async (largeDb, largeBox) => {
      const [before, after]: [Times, Times] = [new Map(), new Map()]
      for (let round = -2; round < ROUNDS; round++) {
        const times = [round < 0 ? new Map() : before, round < 0 ? new Map() : after] as const
        await measureRound(smallDb, smallBox, times[0])
        await measureRound(largeDb, largeBox, times[1])
      }
      for (const [what, small] of before) {
        const [smallMs, largeMs] = [percentile(small, 50), percentile(after.get(what)!, 50)]
        report(what, { large_p50_ms: largeMs, small_p50_ms: smallMs, ratio: largeMs / smallMs }, 'ratio <= 2')
      }
    }),
  )

/** Fifty pipelines become due, and their runs are claimed, renewed and ended. */
async function measureRound(db: Database, box: SecretBox, times: Times): Promise<void> {
  const timed = async <T>(what: string, act: () => Promise<T>): Promise<T> => {
    const began = performance.now()
    const result = await act()
    times.set(what, [...(times.get(what) ?? []), performance.now() - began])
    return result
  }
  await db.execute(sql`
    UPDATE pipelines SET next_run_at = now() WHERE id IN (
      SELECT p.id FROM pipelines p WHERE p.enabled AND p.next_run_at > now() ORDER BY md5(p.id::text || clock_timestamp()) LIMIT ${DUE})`)
  await timed('the next due time', () => nextDueMs(db.control))
  await timed(`tick, ${DUE} pipelines due`, () => scheduleDuePipelines(db.control, box, silent))
  await timed('the next back-off', () => nextAvailableMs(db.control))
  await timed('lost runs', () => recoverLostRuns(db.control, 0))
  const runs: ClaimedRun[] = []
  for (let after = NIL_UUID; ; ) {
    const request = { worker: 'bench', free: 8, perOrganization: 100, leaseSeconds: 600, after }
    const claimed = await timed('claim of up to eight', () => claim(db.control, request))
    if (claimed.run_ids.length === 0) break
    after = claimed.next_after
    runs.push(...(await timed('reading what was claimed', () => loadClaimed(db.control, claimed))))
  }
  await timed(`renewal of ${DUE} leases`, () => renewLeases(db.control, runs, 600))
  for (const run of runs)
    await timed('end of one run', () => finishSuccess(db.control, run, { outcome, incremental: false, log: null }))
}
