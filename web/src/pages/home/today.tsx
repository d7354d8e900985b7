import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { runsQuery } from '../../api/queries.ts'
import { Count } from '../../components/quantities.tsx'
import { type RunStatus, StatusMark } from '../../components/status.tsx'
import styles from './home-page.module.css'
import { daysQuery } from './queries.ts'

/** How today went so far. */
export function Today() {
  const days = useQuery(daysQuery)
  const running = useQuery(runsQuery({ status: 'running', limit: 10 }))
  const pending = useQuery(runsQuery({ status: 'pending', limit: 10 }))
  const today = days.data?.at(-1)
  const counts: [RunStatus, number | undefined, string][] = [
    ['success', today?.succeeded, 'succeeded'],
    ['failed', today?.failed, 'failed'],
    ['running', running.data?.total, 'running'],
    ['pending', pending.data?.total, 'waiting'],
  ]
  return (
    <p className={styles.today}>
      Today
      {counts.map(([status, count, words]) => (
        <Link key={status} to="/runs" search={{ status }}>
          <StatusMark status={count === 0 ? null : status} />
          {count === undefined ? '…' : <Count value={count} />} {words}
        </Link>
      ))}
    </p>
  )
}
