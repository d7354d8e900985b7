import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { pipelinesQuery } from '../../api/queries.ts'
import { Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import styles from './home-page.module.css'

export function Next() {
  const next = useQuery(pipelinesQuery({ scheduled: true, enabled: true, sort: 'next_run_at', limit: 6 }))
  const pipelines = next.data?.items.filter(({ next_run_at }) => next_run_at !== null)
  return (
    <section>
      <h2>Next</h2>
      {pipelines === undefined ? (
        <Skeleton rows={3} />
      ) : pipelines.length === 0 ? (
        <p className="faint">No enabled pipeline has a schedule.</p>
      ) : (
        <ul className={styles.list}>
          {pipelines.map(({ id, name, next_run_at }) => (
            <li key={id}>
              <span className={styles.clock}>{clock.format(new Date(next_run_at!))}</span>
              <Link to="/pipelines/$id" params={{ id }} className={styles.name} title={name}>
                {name}
              </Link>
              <span className={`${styles.figure} faint`}>
                <Time at={next_run_at} />
              </span>
            </li>
          ))}
        </ul>
      )}
    </section>
  )
}

const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' })
