import { useMutation, useQuery } from '@tanstack/react-query'
import { lazy, Suspense } from 'react'
import type { Schemas } from '../../api/client.ts'
import { isOver } from '../../api/run-events.ts'
import { saveFile } from '../../api/save-file.ts'
import { Button } from '../../components/button.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import styles from './output-tab.module.css'
import { outputQuery, QUERY_ROWS, type Result, readCsv, SAMPLE_ROWS, sampleQuery } from './queries.ts'
import { ResultTable } from './result-table.tsx'

const SqlBox = lazy(() => import('./sql-box.tsx'))

interface Props {
  run: Schemas['Run']
  sql: string | undefined
  onSql(sql: string | undefined): void
}

export function OutputTab({ run, sql, onSql }: Props) {
  if (run.output_file === null)
    return (
      <Empty title="There is no output">
        {!isOver(run)
          ? 'It exists once the run has succeeded.'
          : run.status === 'success'
            ? 'This pipeline keeps no output, or it has expired.'
            : 'Only runs that succeed have one.'}
      </Empty>
    )
  return <Output id={run.id} sql={sql} onSql={onSql} />
}

function Output({ id, sql, onSql }: { id: string; sql: string | undefined; onSql(sql: string | undefined): void }) {
  const sample = useQuery({ ...sampleQuery(id), enabled: sql === undefined })
  const query = useQuery({ ...outputQuery(id, sql ?? ''), enabled: sql !== undefined })
  const shown = sql === undefined ? sample : query
  const run = (wanted: string) => (wanted === sql ? void query.refetch() : onSql(wanted))
  return (
    <div className={styles.tab}>
      <Suspense fallback={<div className={styles.loading} />}>
        <SqlBox key={sql ?? ''} sql={sql} busy={query.isFetching} onRun={run} onReset={() => onSql(undefined)} />
      </Suspense>
      {shown.error && <p className={styles.problem}>{shown.error.message}</p>}
      {shown.isPending && <Skeleton rows={10} height={28} />}
      {shown.data && (
        <>
          <Summary id={id} sql={sql} result={shown.data} />
          <ResultTable result={shown.data} label={sql === undefined ? 'First rows of the output' : 'Result'} />
        </>
      )}
    </div>
  )
}

const plain = new Intl.NumberFormat()

function Summary({ id, sql, result }: { id: string; sql: string | undefined; result: Result }) {
  const csv = useMutation({
    mutationFn: () => readCsv(id, sql!),
    onSuccess: (file) => saveFile(file, `run-${id}.csv`),
  })
  const rows = `${plain.format(result.rows.length)} ${result.rows.length === 1 ? 'row' : 'rows'}`
  const limit = sql === undefined ? SAMPLE_ROWS : QUERY_ROWS
  return (
    <div className={styles.row}>
      <p className="soft">
        {result.truncated ? `The first ${Math.min(limit, result.rows.length)} rows` : rows}
        {result.columns.length > 0 &&
          `, ${result.columns.length} ${result.columns.length === 1 ? 'column' : 'columns'}`}
        {sql !== undefined && `, ${plain.format(result.execution_time_ms)} ms`}
      </p>
      {sql !== undefined && (
        <Button busy={csv.isPending} onClick={() => csv.mutate()} title="Up to 10,000 rows">
          Download result as CSV
        </Button>
      )}
      <ErrorNotice error={csv.error} />
    </div>
  )
}
