/** One pipeline: how it is doing above, its parts as tabs, each with an address. */
import { useQuery, useQueryClient } from '@tanstack/react-query'
import { Link, useNavigate, useParams } from '@tanstack/react-router'
import { type ReactNode, useRef } from 'react'
import type { Schemas } from '../../api/client.ts'
import { useRunEvents } from '../../api/live-runs.ts'
import { useMay } from '../../api/person.ts'
import { type ConnectorKind, pipelineQuery } from '../../api/queries.ts'
import { Button } from '../../components/button.tsx'
import { EditPipeline } from '../../components/editor-links.tsx'
import { NotFound } from '../../components/failure.tsx'
import { ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import { Time } from '../../components/quantities.tsx'
import { Status } from '../../components/status.tsx'
import { Switch } from '../../components/switch.tsx'
import { Tabs } from '../../components/tabs.tsx'
import { domainsQuery } from '../editor/queries.ts'
import { saySchedule } from '../editor/schedule-words.ts'
import { AuditTab } from './audit-tab.tsx'
import { useEnable, useRunNow } from './change-pipelines.ts'
import { ChartsTab } from './charts-tab.tsx'
import { DomainDot } from './domain-dot.tsx'
import styles from './pipeline-page.module.css'
import { type Activity, activityQuery } from './queries.ts'
import { PIPELINE_TABS, type PipelineTab } from './routes.ts'
import { RunsTab } from './runs-tab.tsx'
import { SchemaTab } from './schema-tab.tsx'
import { SettingsTab } from './settings-tab.tsx'
import { StateTab } from './state-tab.tsx'
import { useEndNames } from './use-end-names.ts'

export type Pipeline = Schemas['Pipeline']

const TABS: Record<PipelineTab, { words: string; Page: (props: { pipeline: Pipeline }) => ReactNode }> = {
  runs: { words: 'Runs', Page: RunsTab },
  charts: { words: 'Charts', Page: ChartsTab },
  schema: { words: 'Schema', Page: SchemaTab },
  state: { words: 'State', Page: StateTab },
  settings: { words: 'Settings', Page: SettingsTab },
  audit: { words: 'Audit', Page: AuditTab },
}

export function PipelinePage() {
  const { id = '', tab = 'runs' } = useParams({ strict: false })
  const pipeline = useQuery(pipelineQuery(id))
  const mayAudit = useMay('audit:read')
  if (!isTab(tab)) return <NotFound />
  if (pipeline.error) return <ErrorNotice error={pipeline.error} onRetry={pipeline.refetch} />
  if (!pipeline.data) return <Skeleton rows={12} />
  const shown = Object.entries(TABS).filter(([name]) => name !== 'audit' || mayAudit) as [
    PipelineTab,
    { words: string },
  ][]
  const { Page } = TABS[tab]
  return (
    <>
      <Head pipeline={pipeline.data} />
      <Tabs
        label="Parts of this pipeline"
        value={tab}
        options={shown.map(([name, { words }]) => [name, words])}
        link={(name) =>
          name === 'runs'
            ? { to: '/pipelines/$id', params: { id } }
            : { to: '/pipelines/$id/$tab', params: { id, tab: name } }
        }
      />
      <Page pipeline={pipeline.data} />
    </>
  )
}

const isTab = (tab: string): tab is PipelineTab => tab === 'runs' || (PIPELINE_TABS as readonly string[]).includes(tab)

function Head({ pipeline }: { pipeline: Pipeline }) {
  const { id, name, domain_id } = pipeline
  const activity = useQuery(activityQuery([id]))
  useFollowRuns(id)
  const navigate = useNavigate()
  const run = useRunNow()
  const mayRun = useMay('pipelines:run', domain_id)
  const mayWrite = useMay('pipelines:write', domain_id)
  return (
    <>
      <PageHead title={name} trail={[['Pipelines', { to: '/pipelines' }]]} lead={<Way pipeline={pipeline} />}>
        <EditPipeline id={id} domainId={domain_id} />
        <Button
          look="primary"
          busy={run.isPending}
          disabled={!mayRun}
          title={mayRun ? undefined : 'Your role may not run this pipeline'}
          onClick={() => run.mutate(id, { onSuccess: ({ id }) => void navigate({ to: '/runs/$id', params: { id } }) })}
        >
          Run now
        </Button>
      </PageHead>
      <ErrorNotice error={run.error} />
      <Facts pipeline={pipeline} activity={activity.data?.[0]} mayWrite={mayWrite} />
    </>
  )
}

/** Whatever of this pipeline's runs is shown is read again when one of them begins, ends or is deleted. */
function useFollowRuns(id: string): void {
  const queries = useQueryClient()
  const states = useRef(new Map<string, string>())
  useRunEvents((events) => {
    const own = events.filter((event) => (event.type === 'run' ? event.run.pipeline_id : event.pipeline_id) === id)
    const changed = own.filter(
      (event) => event.type === 'deleted' || states.current.get(event.run.id) !== event.run.status,
    )
    for (const event of own) if (event.type === 'run') states.current.set(event.run.id, event.run.status)
    if (changed.length === 0) return
    void queries.invalidateQueries({ queryKey: ['activity'] })
    for (const part of ['runs', 'schema', 'state']) void queries.invalidateQueries({ queryKey: ['pipeline', id, part] })
  })
}

interface FactsProps {
  pipeline: Pipeline
  activity: Activity | undefined
  mayWrite: boolean
}

function Facts({ pipeline, activity, mayWrite }: FactsProps) {
  const { id, schedule, timezone, enabled, domain_id } = pipeline
  const enable = useEnable()
  const domains = useQuery(domainsQuery)
  const domain = domains.data?.find((candidate) => candidate.id === domain_id)
  const last = activity?.runs[0]
  return (
    <>
      <dl className={styles.facts}>
        <div>
          <dt>Last run</dt>
          <dd>
            {last ? (
              <Link to="/runs/$id" params={{ id: last.id }}>
                <Status status={last.status} word />
              </Link>
            ) : (
              <span className="faint">{activity ? 'never' : '…'}</span>
            )}
          </dd>
        </div>
        <div>
          <dt>Last success</dt>
          <dd>
            <Time at={activity?.last_success_at ?? null} />
          </dd>
        </div>
        <div>
          <dt>Schedule</dt>
          <dd title={schedule ? `${schedule} ${timezone ?? 'UTC'}` : undefined}>
            {saySchedule(schedule)}
            {schedule && timezone && <span className="faint"> {timezone}</span>}
          </dd>
        </div>
        <div>
          <dt>Next run</dt>
          <dd>
            {enabled ? (
              schedule ? (
                <Time at={activity?.next_run_at ?? null} />
              ) : (
                <span className="faint">by hand</span>
              )
            ) : (
              <span className="faint">none while disabled</span>
            )}
          </dd>
        </div>
        {domain && (
          <div>
            <dt>Domain</dt>
            <dd>
              <DomainDot name={domain.name} color={domain.color} />
            </dd>
          </div>
        )}
        <div>
          <dt>Enabled</dt>
          <dd>
            <Switch
              label="Enabled"
              checked={enabled}
              disabled={!mayWrite}
              title={mayWrite ? undefined : 'Your role may not change this pipeline'}
              onChange={(next) => enable.mutate({ id, enabled: next })}
            />
          </dd>
        </div>
      </dl>
      <ErrorNotice error={enable.error} />
    </>
  )
}

/** From where to where, each by the name that people know it by. */
function Way({ pipeline }: { pipeline: Pipeline }) {
  const nameOf = useEndNames()
  const { source, destination } = pipeline.config as Schemas['PipelineConfig']
  const endOf = (kind: ConnectorKind, end: typeof source | typeof destination) =>
    nameOf({
      kind,
      savedId: 'saved_connector_id' in end ? end.saved_connector_id : null,
      connector: 'name' in end && end.name ? String(end.name) : null,
    })
  return (
    <>
      {endOf('source', source)} <code>{source.stream}</code> → {endOf('destination', destination)}
    </>
  )
}
