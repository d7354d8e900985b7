import { useQuery } from '@tanstack/react-query'
import { pipelinesQuery } from '../../api/queries.ts'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import { Attention } from './attention.tsx'
import { DayCharts } from './day-charts.tsx'
import { FirstSteps } from './first-steps.tsx'
import styles from './home-page.module.css'
import { Next } from './next.tsx'
import { useFreshOverview } from './queries.ts'
import { Running } from './running.tsx'
import { Timeline } from './timeline.tsx'
import { Today } from './today.tsx'

/** What runs now, what failed and why, what comes next, and how the last days went. */
export function HomePage() {
  const pipelines = useQuery(pipelinesQuery({ limit: 1 }))
  if (pipelines.error && !pipelines.data) return <ErrorNotice error={pipelines.error} onRetry={pipelines.refetch} />
  if (pipelines.data?.total === 0)
    return (
      <>
        <PageHead title="Home" />
        <FirstSteps />
      </>
    )
  return (
    <>
      <PageHead title="Home" lead={pipelines.data ? <Today /> : undefined} />
      {pipelines.data ? <Overview /> : <Skeleton rows={12} />}
    </>
  )
}

function Overview() {
  useFreshOverview()
  return (
    <div className={styles.sections}>
      <Attention />
      <div className={styles.columns}>
        <Running />
        <Next />
      </div>
      <Timeline />
      <DayCharts />
    </div>
  )
}
