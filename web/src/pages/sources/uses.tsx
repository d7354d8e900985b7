import type { UseQueryResult } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { Schemas } from '../../api/client.ts'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import { Status } from '../../components/status.tsx'
import table from '../../components/table.module.css'
import type { AuthoredSource } from './authored.ts'

interface Props {
  source: AuthoredSource
  uses: UseQueryResult<Schemas['PipelineListItem'][]>
}

/** The pipelines that read from a source. */
export function Uses({ source, uses }: Props) {
  if (uses.error) return <ErrorNotice error={uses.error} onRetry={uses.refetch} />
  if (!uses.data) return <Skeleton rows={4} />
  if (uses.data.length === 0)
    return (
      <Empty title="No pipeline uses it yet">
        A pipeline runs {source.name} by hand or on a schedule, and writes what it reads to a destination.
      </Empty>
    )
  return (
    <table className={table.table}>
      <thead>
        <tr>
          <th className={table.fit}>
            <span className="visually-hidden">State</span>
          </th>
          <th>Pipeline</th>
          <th>Stream</th>
          <th className={table.wide}>To</th>
          <th className={`${table.fit} ${table.end}`}>Last run</th>
        </tr>
      </thead>
      <tbody>
        {uses.data.map((pipeline) => (
          <tr key={pipeline.id}>
            <td className={table.fit}>
              <Status status={pipeline.last_run_status} />
            </td>
            <td>
              <Link to="/pipelines/$id" params={{ id: pipeline.id }}>
                {pipeline.name}
              </Link>
            </td>
            <td>
              <code>{pipeline.stream}</code>
            </td>
            <td className={`${table.wide} soft`}>{pipeline.destination_name ?? '–'}</td>
            <td className={`${table.fit} ${table.end}`}>
              <Time at={pipeline.last_run_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}
