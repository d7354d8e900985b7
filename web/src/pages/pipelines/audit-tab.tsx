import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useMay } from '../../api/person.ts'
import { Button } from '../../components/button.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { Time } from '../../components/quantities.tsx'
import table from '../../components/table.module.css'
import styles from './pipeline-page.module.css'
import type { Pipeline } from './pipeline-page.tsx'
import { AUDIT_PAGE, auditQuery } from './queries.ts'

/** Who changed this pipeline, and when. */
export function AuditTab({ pipeline: { id } }: { pipeline: Pipeline }) {
  const may = useMay('audit:read')
  return may ? <Lines id={id} /> : <Empty title="The audit log is for admins">Ask an admin of your organization.</Empty>
}

function Lines({ id }: { id: string }) {
  const [before, setBefore] = useState<number>()
  const lines = useQuery(auditQuery(id, before))
  if (lines.error) return <ErrorNotice error={lines.error} onRetry={lines.refetch} />
  if (!lines.data) return <Skeleton rows={8} />
  if (lines.data.length === 0) return <Empty title="Nothing is recorded" />
  return (
    <>
      <table className={table.table}>
        <thead>
          <tr>
            <th className={table.fit}>What</th>
            <th>Who</th>
            <th className={table.wide}>Details</th>
            <th className={`${table.fit} ${table.end}`}>When</th>
          </tr>
        </thead>
        <tbody>
          {lines.data.map((line) => {
            const details = sayDetails(line.details)
            return (
              <tr key={line.id}>
                <td className={table.fit}>{line.action.replaceAll(/[._]/g, ' ')}</td>
                <td title={line.actor_email ?? undefined}>
                  {line.actor_email ?? <span className="faint">the platform</span>}
                  {line.api_key_id && <span className="faint"> by an API key</span>}
                </td>
                <td className={`${table.wide} soft`} title={details}>
                  {details}
                </td>
                <td className={`${table.fit} ${table.end}`}>
                  <Time at={line.at} />
                </td>
              </tr>
            )
          })}
        </tbody>
      </table>
      <div className={styles.line}>
        {before !== undefined && <Button onClick={() => setBefore(undefined)}>Newest</Button>}
        {lines.data.length === AUDIT_PAGE && <Button onClick={() => setBefore(lines.data.at(-1)!.id)}>Older</Button>}
      </div>
    </>
  )
}

const sayDetails = (details: Record<string, unknown>): string =>
  Object.entries(details)
    .map(([name, value]) => `${name} ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ')
