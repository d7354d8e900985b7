import { useQuery } from '@tanstack/react-query'
import { useNavigate, useParams, useSearch } from '@tanstack/react-router'
import type { Schemas } from '../../api/client.ts'
import { pipelineQuery, runQuery } from '../../api/queries.ts'
import { isOver } from '../../api/run-events.ts'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import { Count, Time } from '../../components/quantities.tsx'
import { Status } from '../../components/status.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { ConfigTab } from './config-tab.tsx'
import { LogView } from './log/log-view.tsx'
import { OutputTab } from './output-tab.tsx'
import { QuarantineTab } from './quarantine-tab.tsx'
import type { RunSearch, RunTab } from './routes.ts'
import { RunActions } from './run-actions.tsx'
import { RunProgress } from './run-progress.tsx'
import { RunReason } from './run-reason.tsx'
import { SchemaTab } from './schema-tab.tsx'
import { Trigger } from './trigger.tsx'

export function RunPage() {
  const { id } = useParams({ from: '/frame/runs/$id' })
  const run = useQuery(runQuery(id))
  const pipeline = useQuery({ ...pipelineQuery(run.data?.pipeline_id ?? ''), enabled: run.data !== undefined })
  if (run.error && !run.data) return <ErrorNotice error={run.error} onRetry={run.refetch} />
  if (!run.data)
    return (
      <>
        <PageHead title="Run" />
        <Skeleton rows={10} />
      </>
    )
  const name = pipeline.data?.name ?? 'Run'
  const domainId = pipeline.data?.domain_id ?? null
  return (
    <>
      <PageHead
        title={name}
        trail={[
          ['Pipelines', { to: '/pipelines' }],
          [name, { to: '/pipelines/$id', params: { id: run.data.pipeline_id } }],
        ]}
        here="Run"
        lead={
          <>
            <Status status={run.data.status} word /> · <Trigger run={run.data} />, <Time at={run.data.created_at} />
          </>
        }
      >
        <RunActions run={run.data} domainId={domainId} />
      </PageHead>
      <RunReason run={run.data} config={pipeline.data?.config} domainId={domainId} />
      <RunProgress run={run.data} />
      <RunTabs run={run.data} domainId={domainId} />
    </>
  )
}

function RunTabs({ run, domainId }: { run: Schemas['Run']; domainId: string | null }) {
  const search = useSearch({ from: '/frame/runs/$id' })
  const navigate = useNavigate({ from: '/runs/$id' })
  const { id } = run
  const tab = search.tab ?? 'log'
  const change = (changed: object) =>
    void navigate({ search: (before) => withoutEmpty({ ...before, ...changed }), replace: true, resetScroll: false })
  const options: (readonly [RunTab, React.ReactNode])[] = [
    ['log', 'Log'],
    ['output', 'Output'],
    ['schema', 'Schema changes'],
    ['config', 'Configuration'],
  ]
  if (run.records_quarantined > 0 || tab === 'quarantine')
    options.splice(2, 0, [
      'quarantine',
      <>
        Quarantine <Count value={run.records_quarantined} />
      </>,
    ])
  return (
    <>
      <Tabs
        label="Parts of the run"
        value={tab}
        options={options}
        link={(value) => ({
          to: '/runs/$id',
          params: { id },
          search: (value === 'log' ? {} : { tab: value }) satisfies RunSearch,
        })}
      />
      {tab === 'log' && <LogView key={id} id={id} over={isOver(run)} search={search} onSearch={change} />}
      {tab === 'output' && <OutputTab run={run} sql={search.sql} onSql={(sql) => change({ sql })} />}
      {tab === 'quarantine' && <QuarantineTab run={run} domainId={domainId} />}
      {tab === 'schema' && <SchemaTab runId={id} pipelineId={run.pipeline_id} />}
      {tab === 'config' && <ConfigTab run={run} />}
    </>
  )
}

function withoutEmpty(search: RunSearch): RunSearch {
  return Object.fromEntries(Object.entries(search).filter(([, value]) => value !== undefined))
}
