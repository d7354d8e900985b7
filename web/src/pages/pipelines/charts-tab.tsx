import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { lazy, Suspense } from 'react'
import { Choices } from '../../components/choices.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import styles from './pipeline-page.module.css'
import type { Pipeline } from './pipeline-page.tsx'
import { activityQuery, type StripRun } from './queries.ts'

const RunChart = lazy(() => import('./run-chart.tsx'))

const COUNTS = [
  ['50', 'Last 50 runs'],
  ['200', 'Last 200'],
  ['1000', 'Last 1,000'],
] as const

/** How long the runs took and how much they moved. */
export function ChartsTab({ pipeline: { id } }: { pipeline: Pipeline }) {
  const { runs: count = 50 } = useSearch({ strict: false })
  const activity = useQuery(activityQuery([id], { runs: Math.min(count, 1000) }))
  const navigate = useNavigate()
  const open = (run: StripRun) => void navigate({ to: '/runs/$id', params: { id: run.id } })
  const ended = (activity.data?.[0]?.runs ?? []).filter(({ finished_at }) => finished_at !== null).toReversed()
  return (
    <>
      <Choices
        label="How many runs"
        value={String(count) as (typeof COUNTS)[number][0]}
        options={COUNTS}
        link={(value) => ({
          to: '/pipelines/$id/$tab',
          params: { id, tab: 'charts' },
          search: value && value !== '50' ? { runs: Number(value) } : {},
        })}
      />
      <ErrorNotice error={activity.error} onRetry={activity.refetch} />
      {activity.isPending && <Skeleton rows={10} />}
      {activity.data && ended.length === 0 && (
        <Empty title="No run has ended yet">The charts show how long runs take and how many records they move.</Empty>
      )}
      {ended.length > 0 && (
        <Suspense fallback={<Skeleton rows={10} />}>
          <section className={styles.part} aria-labelledby="duration">
            <h2 id="duration">Duration</h2>
            <RunChart runs={ended} quantity="duration" onOpen={open} />
          </section>
          <section className={styles.part} aria-labelledby="records">
            <h2 id="records">Records written</h2>
            <RunChart runs={ended} quantity="records" onOpen={open} />
          </section>
        </Suspense>
      )}
    </>
  )
}
