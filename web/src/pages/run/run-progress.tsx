import type { ReactNode } from 'react'
import type { Schemas } from '../../api/client.ts'
import { useIsPolling, useLiveRun } from '../../api/live-runs.ts'
import { isOver } from '../../api/run-events.ts'
import { Count, Duration, Size } from '../../components/quantities.tsx'
import styles from './run-page.module.css'

/** What the run has done so far; it ticks while it goes on. */
export function RunProgress({ run }: { run: Schemas['Run'] }) {
  const live = useLiveRun(run.id)
  const polling = useIsPolling()
  const running = run.status === 'running'
  return (
    <dl className={styles.counters}>
      {!isOver(run) && <Fact name="Phase">{phaseOf(run)}</Fact>}
      <Fact name="Read">
        <Count value={run.records_read} />
      </Fact>
      <Fact name="Written">
        <Count value={run.records_written} />
      </Fact>
      <Fact name="Volume">
        <Size bytes={run.bytes_written} />
      </Fact>
      {run.records_quarantined > 0 && (
        <Fact name="Refused">
          <Count value={run.records_quarantined} />
        </Fact>
      )}
      {running && (
        <Fact name="Rate">
          {live === undefined || live.rate === null ? (
            <span className="faint">–</span>
          ) : (
            <>
              <Count value={Math.round(live.rate)} />
              <span className="faint"> records/s</span>
            </>
          )}
        </Fact>
      )}
      <Fact name="Duration">
        <Duration from={run.started_at} to={run.finished_at} />
      </Fact>
      {run.attempt > 1 && (
        <Fact name="Attempt">
          <span className="number">{run.attempt}</span>
        </Fact>
      )}
      {polling && !isOver(run) && <Fact name="Connection">no live events, asking every few seconds</Fact>}
    </dl>
  )
}

function Fact({ name, children }: { name: string; children: ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </div>
  )
}

function phaseOf({ status, waiting, records_read, records_written }: Schemas['Run']): string {
  if (status === 'pending') return waiting ?? 'Waiting for a worker'
  if (records_read === 0) return 'Starting'
  return records_written === 0 ? 'Reading' : 'Reading and loading'
}
