import { useQuery } from '@tanstack/react-query'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import { schemaQuery } from './queries.ts'

interface Change {
  at: string
  run_id: string
  change: string
}

/** What this run changed about the columns of its destination. */
export function SchemaTab({ runId, pipelineId }: { runId: string; pipelineId: string }) {
  const schema = useQuery(schemaQuery(pipelineId))
  if (schema.error) return <ErrorNotice error={schema.error} onRetry={schema.refetch} />
  if (schema.isPending) return <Skeleton rows={4} />
  const changes = schema.data.changes.filter(isChange).filter((change) => change.run_id === runId)
  if (changes.length === 0)
    return <Empty title="No schema changes">This run found the columns as the run before left them.</Empty>
  return (
    <table className={table.table}>
      <thead>
        <tr>
          <th>Change</th>
          <th className={`${table.fit} ${table.end}`}>When</th>
        </tr>
      </thead>
      <tbody>
        {changes.map(({ at, change }) => (
          <tr key={change}>
            <td title={change}>{change}</td>
            <td className={`${table.fit} ${table.end}`}>
              <Time at={at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

function isChange(value: unknown): value is Change {
  return typeof value === 'object' && value !== null && 'run_id' in value && 'change' in value && 'at' in value
}
