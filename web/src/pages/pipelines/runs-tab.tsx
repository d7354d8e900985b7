import { useQuery } from '@tanstack/react-query'
import { useSearch } from '@tanstack/react-router'
import { Choices } from '../../components/choices.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { RunTable } from '../run/run-table.tsx'
import { Pager } from './pager.tsx'
import type { Pipeline } from './pipeline-page.tsx'
import { pipelineRunsQuery } from './queries.ts'

const PAGE = 50
const STATES = [
  [undefined, 'All'],
  ['failed', 'Failed'],
  ['success', 'Success'],
  ['running', 'Running'],
  ['pending', 'Pending'],
  ['cancelled', 'Cancelled'],
] as const

export function RunsTab({ pipeline: { id } }: { pipeline: Pipeline }) {
  const { status, page = 1 } = useSearch({ strict: false })
  const window = { limit: PAGE, offset: (page - 1) * PAGE, ...(status && { status }) }
  const runs = useQuery(pipelineRunsQuery(id, window))
  return (
    <>
      <Choices
        label="State"
        value={status as (typeof STATES)[number][0]}
        options={STATES}
        link={(value) => ({ to: '/pipelines/$id', params: { id }, search: value ? { status: value } : {} })}
      />
      {runs.isPending && <Skeleton rows={10} />}
      <ErrorNotice error={runs.error} onRetry={runs.refetch} />
      {runs.data?.items.length === 0 &&
        (status || page > 1 ? (
          <Empty title={page > 1 ? 'There are no older runs' : 'No run is in this state'} />
        ) : (
          <Empty title="It has not run yet">Run it now to see records move.</Empty>
        ))}
      {runs.data && runs.data.items.length > 0 && <RunTable runs={runs.data.items} />}
      {runs.data && (
        <Pager
          page={page}
          size={PAGE}
          total={runs.data.total}
          link={(next) => ({
            to: '/pipelines/$id',
            params: { id },
            search: { ...(status && { status }), ...(next > 1 && { page: next }) },
          })}
        />
      )}
    </>
  )
}
