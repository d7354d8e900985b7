import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useMay } from '../../api/person.ts'
import { pipelinesQuery } from '../../api/queries.ts'
import button from '../../components/button.module.css'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Count, Time } from '../../components/quantities.tsx'
import { StatusMark } from '../../components/status.tsx'
import { reasonOf, stepsFor } from '../run/failure.ts'
import { RunAgain } from '../run/run-again.tsx'
import styles from './home-page.module.css'
import { type Lane, timelineQuery } from './queries.ts'

const SHOWN = 6

/** The pipelines whose last run failed: why, how often, and what to do. */
export function Attention() {
  const timeline = useQuery(timelineQuery)
  const failed = useQuery(pipelinesQuery({ status: 'failed', enabled: true, limit: 1 }))
  const lanes = timeline.data?.pipelines.filter(
    ({ last_run_status, enabled }) => last_run_status === 'failed' && enabled,
  )
  const total = Math.max(failed.data?.total ?? 0, lanes?.length ?? 0)
  if (timeline.error && !timeline.data) return <ErrorNotice error={timeline.error} onRetry={timeline.refetch} />
  return (
    <section>
      <h2>Needs attention</h2>
      {lanes === undefined ? (
        <Skeleton rows={3} height={44} />
      ) : lanes.length === 0 ? (
        <p className="faint">Nothing: the last run of every enabled pipeline went well.</p>
      ) : (
        <ul className={styles.attention}>
          {lanes.slice(0, SHOWN).map((lane) => (
            <Problem key={lane.id} lane={lane} />
          ))}
        </ul>
      )}
      {total > SHOWN && (
        <p className={styles.more}>
          <Link to="/pipelines" search={{ status: 'failed' }}>
            All <Count value={total} /> failed pipelines
          </Link>
        </p>
      )}
    </section>
  )
}

function Problem({ lane }: { lane: Lane }) {
  const { label, sentence } = reasonOf(lane.last_error ?? '')
  const mayFix = useMay('pipelines:write', lane.domain_id)
  const fix = mayFix ? stepsFor(lane.last_error ?? '', { ...lane, pipeline_id: lane.id }) : []
  const run = { to: '/runs/$id', params: { id: lane.last_run_id! } } as const
  return (
    <li>
      <StatusMark status="failed" />
      <div className={styles.what}>
        <Link {...run} className={styles.name}>
          {lane.name}
        </Link>
        <p className={styles.why} title={lane.last_error ?? undefined}>
          {label !== null && `${label}: `}
          {sentence}
        </p>
      </div>
      <p className={styles.when}>
        <Time at={lane.last_run_at} />
        {lane.failures > 1 && (
          <span className="faint">
            {lane.failures >= 100 ? '100 times or more' : `${lane.failures} times in a row`}
          </span>
        )}
      </p>
      <div className={styles.actions}>
        <Link {...run} className={`${button.button} ${button.plain}`}>
          Open<span className="visually-hidden"> the run of {lane.name}</span>
        </Link>
        {fix.length > 0 ? (
          fix.map(({ words, link }) => (
            <Link key={words} {...link} className={`${button.button} ${button.plain}`}>
              {words}
            </Link>
          ))
        ) : (
          <RunAgain pipelineId={lane.id} domainId={lane.domain_id} stay />
        )}
      </div>
    </li>
  )
}
