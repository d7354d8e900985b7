import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Schemas } from '../../api/client.ts'
import { useLiveRun } from '../../api/live-runs.ts'
import { runsQuery } from '../../api/queries.ts'
import { Skeleton } from '../../components/notice.tsx'
import { Count, Duration } from '../../components/quantities.tsx'
import { StatusMark } from '../../components/status.tsx'
import styles from './home-page.module.css'

const SHOWN = 10

export function Running() {
  const running = useQuery(runsQuery({ status: 'running', limit: SHOWN }))
  const runs = running.data?.items
  return (
    <section>
      <h2>Running now</h2>
      {runs === undefined ? (
        <Skeleton rows={3} />
      ) : runs.length === 0 ? (
        <p className="faint">Nothing is running.</p>
      ) : (
        <ul className={styles.list}>
          {runs.map((run) => (
            <RunningRun key={run.id} run={run} />
          ))}
        </ul>
      )}
      {running.data && running.data.total > SHOWN && (
        <p className={styles.more}>
          <Link to="/runs" search={{ status: 'running' }}>
            All <Count value={running.data.total} /> running
          </Link>
        </p>
      )}
    </section>
  )
}

function RunningRun({ run }: { run: Schemas['OrganizationRun'] }) {
  const live = useLiveRun(run.id)
  return (
    <li>
      <StatusMark status="running" />
      <Link to="/runs/$id" params={{ id: run.id }} className={styles.name} title={run.pipeline_name}>
        {run.pipeline_name}
      </Link>
      {live && (
        <span className={styles.figure}>
          <Count value={live.records_read} /> <span className="faint">records</span>
        </span>
      )}
      {live !== undefined && live.rate !== null && (
        <span className={`${styles.figure} ${styles.rate}`}>
          <Count value={Math.round(live.rate)} />
          <span className="faint">/s</span>
        </span>
      )}
      <span className={styles.figure}>
        <Duration from={run.started_at} to={null} />
      </span>
    </li>
  )
}
