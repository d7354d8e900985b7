import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { useMemo } from 'react'
import { type RunFilters, runsQuery } from '../../api/queries.ts'
import { Choices } from '../../components/choices.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import { Count } from '../../components/quantities.tsx'
import type { Period, RunsSearch } from './routes.ts'
import { RunFilterRow } from './run-filters.tsx'
import { RunTable } from './run-table.tsx'
import styles from './runs-page.module.css'

const PAGE = 100
const STATES = [
  [undefined, 'All'],
  ['running', 'Running'],
  ['pending', 'Pending'],
  ['failed', 'Failed'],
  ['success', 'Success'],
  ['cancelled', 'Cancelled'],
] as const

export function RunsPage() {
  const search = useSearch({ from: '/frame/runs' })
  const filters = useFilters(search)
  const runs = useQuery(runsQuery(filters))
  const items = runs.data?.items ?? []
  const filtered = Object.keys(search).length > 0
  const { before: _, status: __, ...others } = search
  return (
    <>
      <PageHead
        title="Runs"
        lead={
          runs.data && (
            <>
              <Count value={runs.data.total} />
              {runs.data.total >= 10_000 && '+'} {Object.keys(others).length > 0 || search.status ? 'found' : 'in all'}
            </>
          )
        }
      />
      <div className={styles.filters}>
        <Choices
          label="State"
          value={search.status}
          options={STATES}
          link={(status) => ({ to: '/runs', search: { ...others, ...(status && { status }) } })}
        />
        <RunFilterRow />
      </div>
      {runs.isPending && <Skeleton rows={12} />}
      <ErrorNotice error={runs.error} onRetry={runs.refetch} />
      {runs.data && items.length === 0 && (
        <Empty
          title={filtered ? 'No run matches' : 'Nothing has run yet'}
          action={
            filtered ? <Link to="/runs">Remove all filters</Link> : <Link to="/pipelines">Go to the pipelines</Link>
          }
        >
          A run moves the records of a pipeline once. It appears here as soon as it is triggered.
        </Empty>
      )}
      {items.length > 0 && (
        <div className={runs.isPlaceholderData ? styles.old : undefined}>
          <RunTable runs={items} named />
        </div>
      )}
      <nav className={styles.pages} aria-label="Pages">
        {search.before && (
          <Link to="/runs" search={{ ...others, ...(search.status && { status: search.status }) }}>
            Newest runs
          </Link>
        )}
        {items.length === PAGE && (
          <Link to="/runs" search={{ ...search, before: items.at(-1)!.id }}>
            Older runs
          </Link>
        )}
      </nav>
    </>
  )
}

const HOURS: Record<Period, number> = { hour: 1, day: 24, week: 24 * 7, month: 24 * 30 }

/** A period begins when it is chosen; a moving one would be another list with every event. */
function useFilters({ period, ...search }: RunsSearch): RunFilters {
  const since = useMemo(
    () => (period ? new Date(Date.now() - HOURS[period] * 3_600_000).toISOString() : undefined),
    [period],
  )
  return { ...search, limit: PAGE, ...(since && { since }) } as RunFilters
}
