/** What creating a pipeline for each of many streams would make. */
import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { answer, api, type Schemas } from '../../api/client.ts'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { ScrollRegion } from '../../components/scroll-region.tsx'
import table from '../../components/table.module.css'
import { toBody } from './draft.ts'
import type { Editor } from './editor.ts'
import styles from './review-section.module.css'
import { useSettled } from './use-settled.ts'

export function BulkPlan({ editor }: { editor: Editor }) {
  const text = useSettled(JSON.stringify({ ...toBody(editor.draft), dry_run: true }), 500)
  const plan = useQuery({
    queryKey: ['bulk-plan', text],
    queryFn: async ({ signal }) =>
      (await answer(api.POST('/api/pipelines/bulk', { body: JSON.parse(text), signal }))) as Schemas['BulkPlan'],
    placeholderData: keepPreviousData,
    retry: false,
    gcTime: 0,
  })
  if (plan.error) return <ErrorNotice error={plan.error} onRetry={plan.refetch} />
  if (!plan.data) return <Skeleton rows={6} height={28} />
  const tables = plan.data.plan.some((line) => line.table !== null)
  return (
    <div className={styles.part} aria-busy={plan.isFetching}>
      {plan.data.problems.length > 0 && (
        <div>
          <h3>Problems</h3>
          <ul className={styles.problems}>
            {plan.data.problems.map((problem) => (
              <li key={problem}>✕ {problem}</li>
            ))}
          </ul>
        </div>
      )}
      {plan.data.plan.length > 0 && (
        <div>
          <h3>What is created</h3>
          <ScrollRegion className={styles.scroll} aria-label="What is created">
            <table className={`${table.table} ${styles.sample}`}>
              <thead>
                <tr>
                  <th>Pipeline</th>
                  <th>Stream</th>
                  {tables && <th>Table</th>}
                  <th>Reads</th>
                  <th>Writes</th>
                </tr>
              </thead>
              <tbody>
                {plan.data.plan.map((line) => (
                  <tr key={line.stream}>
                    <td title={line.name}>{line.name}</td>
                    <td title={line.stream}>
                      <code>{line.stream}</code>
                    </td>
                    {tables && (
                      <td>
                        <code>{line.table}</code>
                      </td>
                    )}
                    <td>
                      {line.mode === 'incremental' ? 'what is new' : 'everything'}
                      {line.cursor_field && (
                        <>
                          {' '}
                          by <code>{line.cursor_field}</code>
                        </>
                      )}
                    </td>
                    <td>
                      {line.write}
                      {line.write === 'upsert' && (
                        <>
                          {' '}
                          by <code>{line.primary_key.join(', ')}</code>
                        </>
                      )}
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </ScrollRegion>
        </div>
      )}
    </div>
  )
}
