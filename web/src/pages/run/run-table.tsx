import { Link } from '@tanstack/react-router'
import type { Schemas } from '../../api/client.ts'
import { Count, Duration, Time } from '../../components/quantities.tsx'
import { Status } from '../../components/status.tsx'
import table from '../../components/table.module.css'
import { reasonOf } from './failure.ts'
import styles from './run-table.module.css'
import { sayTrigger } from './triggers.ts'

type Row = Schemas['OrganizationRun']

/** Runs, newest first; with the pipeline's name where they are of several. */
export function RunTable({ runs, named = false }: { runs: Row[]; named?: boolean }) {
  return (
    <table className={table.table}>
      <thead>
        <tr>
          <th className={table.fit}>State</th>
          {named && <th>Pipeline</th>}
          <th className={named ? `${table.wide} ${styles.result}` : styles.result}>Result</th>
          <th className={`${table.fit} ${styles.trigger}`}>Started by</th>
          <th className={`${table.fit} ${table.wide} ${styles.figure}`}>Duration</th>
          <th className={`${table.fit} ${table.end}`}>Started</th>
        </tr>
      </thead>
      <tbody>
        {runs.map((run) => (
          <tr key={run.id}>
            <td className={table.fit}>
              <Link to="/runs/$id" params={{ id: run.id }}>
                <Status status={run.status} word />
              </Link>
            </td>
            {named && (
              <td>
                <Link to="/runs/$id" params={{ id: run.id }} className={styles.name} title={run.pipeline_name}>
                  {run.pipeline_name}
                </Link>
                {run.error !== null && (
                  <span className={styles.below}>
                    <Result run={run} />
                  </span>
                )}
              </td>
            )}
            <td className={named ? table.wide : undefined} title={run.error ?? undefined}>
              <Result run={run} />
            </td>
            <td className={`${table.fit} ${styles.trigger} soft`}>
              {sayTrigger(run.triggered_by).replace(/^started by (its )?/, '')}
            </td>
            <td className={`${table.fit} ${table.wide} ${styles.figure}`}>
              <Duration from={run.started_at} to={run.finished_at} />
            </td>
            <td className={`${table.fit} ${table.end} soft`}>
              <Time at={run.created_at} />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  )
}

/** How much it moved, or why it did not. */
function Result({ run: { error, records_written } }: { run: Row }) {
  if (error === null)
    return (
      <span className="soft">
        <Count value={records_written} /> {records_written === 1 ? 'record' : 'records'}
      </span>
    )
  const { label, sentence } = reasonOf(error)
  return (
    <>
      {label !== null && `${label}: `}
      <span className="soft">{sentence}</span>
    </>
  )
}
