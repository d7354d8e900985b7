import { useQuery } from '@tanstack/react-query'
import { useNavigate, useSearch } from '@tanstack/react-router'
import { pipelineQuery } from '../../api/queries.ts'
import { PipelinePicker } from '../../components/pipeline-picker.tsx'
import type { Period, RunsSearch } from './routes.ts'
import styles from './runs-page.module.css'

/** Which pipeline, what started it, and when; all of it in the address. */
export function RunFilterRow() {
  const search = useSearch({ from: '/frame/runs' })
  const navigate = useNavigate({ from: '/runs' })
  const pipeline = useQuery({ ...pipelineQuery(search.pipeline_id ?? ''), enabled: search.pipeline_id !== undefined })
  function change(changed: { [Name in keyof RunsSearch]?: string | undefined }) {
    const { before: _, ...rest } = { ...search, ...changed }
    const kept = Object.entries(rest).filter(([, value]) => value)
    void navigate({ search: Object.fromEntries(kept) as RunsSearch })
  }
  return (
    <search className={styles.row}>
      <PipelinePicker
        label="Pipeline"
        placeholder="Any pipeline"
        chosen={search.pipeline_id ? (pipeline.data?.name ?? '…') : null}
        onChoose={(pipeline_id) => change({ pipeline_id: pipeline_id ?? undefined })}
      />
      <label>
        <span className="visually-hidden">Started by</span>
        <select value={search.triggered_by ?? ''} onChange={(event) => change({ triggered_by: event.target.value })}>
          <option value="">Started by anything</option>
          <option value="manual">By hand</option>
          <option value="schedule">By schedule</option>
          <option value="backfill">By a backfill</option>
          <option value="resend">By sending again</option>
          <option value="replay">By loading again</option>
        </select>
      </label>
      <label>
        <span className="visually-hidden">When</span>
        <select value={search.period ?? ''} onChange={(event) => change({ period: event.target.value as Period })}>
          <option value="">Any time</option>
          <option value="hour">Last hour</option>
          <option value="day">Last 24 hours</option>
          <option value="week">Last 7 days</option>
          <option value="month">Last 30 days</option>
        </select>
      </label>
    </search>
  )
}
