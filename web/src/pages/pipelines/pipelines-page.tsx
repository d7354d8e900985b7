import { useQuery } from '@tanstack/react-query'
import { Link, useSearch } from '@tanstack/react-router'
import { useMemo, useState } from 'react'
import { answerList, api } from '../../api/client.ts'
import { useMay } from '../../api/person.ts'
import { NewPipeline } from '../../components/editor-links.tsx'
import { Empty, ErrorNotice, Skeleton } from '../../components/notice.tsx'
import { PageHead } from '../../components/page-head.tsx'
import { Count } from '../../components/quantities.tsx'
import { domainsQuery } from '../editor/queries.ts'
import { ActionBar } from './action-bar.tsx'
import { type ActionName, type BulkAction, useActions } from './change-pipelines.ts'
import { Filters } from './filters.tsx'
import { Outcome, type OutcomeProps } from './outcome.tsx'
import { PipelineList } from './pipeline-list.tsx'
import { filtersOf, type PipelineItem } from './queries.ts'
import { useSelection } from './selection.ts'
import { useRows } from './use-rows.ts'

/** As many as one request can act on. */
const MOST_SELECTED = 1000
/** The server counts no further. */
const MOST_COUNTED = 10_000

export function PipelinesPage() {
  const search = useSearch({ from: '/frame/pipelines' })
  const rows = useRows(search)
  const selection = useSelection(rows)
  const domains = useQuery(domainsQuery)
  const colors = useMemo(() => new Map((domains.data ?? []).map(({ id, color }) => [id, color])), [domains.data])
  const actions = useActions()
  const [outcome, setOutcome] = useState<Omit<OutcomeProps, 'onClose'> | null>(null)
  const { sort: _, ...filters } = search
  const filtered = Object.keys(filters).length > 0

  function act(action: ActionName, items: readonly PipelineItem[], domainId?: string | null) {
    const body: BulkAction = { action, ids: items.map(({ id }) => id) }
    if (action === 'move') body.domain_id = domainId ?? null
    actions.mutate([body], {
      onSuccess(results) {
        const done = new Set(results.filter(({ ok }) => ok).map(({ id }) => id))
        const back = reverse(
          action,
          items.filter(({ id }) => done.has(id)),
        )
        setOutcome({
          action,
          items,
          results,
          undo: back && (() => actions.mutate(back, { onSuccess: () => setOutcome(null) })),
        })
        if (action === 'delete') selection.drop([...done])
      },
    })
  }

  async function chooseAll() {
    const query = { ...filtersOf(search, 0), limit: MOST_SELECTED }
    selection.add((await answerList(api.GET('/api/pipelines', { params: { query } }))).items)
  }

  return (
    <>
      <PageHead title="Pipelines" lead={!rows.isPending && <Total rows={rows.total} filtered={filtered} />}>
        <NewPipeline />
      </PageHead>
      <Filters />
      <ErrorNotice error={rows.error} onRetry={rows.retry} />
      <ErrorNotice error={actions.error} />
      {outcome && <Outcome {...outcome} onClose={() => setOutcome(null)} />}
      {rows.isPending && <Skeleton rows={16} />}
      {!rows.isPending && !rows.error && rows.total === 0 && <Nothing filtered={filtered} />}
      {rows.total > 0 && (
        <PipelineList
          rows={rows}
          selection={selection}
          colors={colors}
          onChooseAll={() => void chooseAll()}
          onEnable={(item, enabled) => act(enabled ? 'enable' : 'disable', [item])}
          onRun={(item) => act('run', [item])}
        />
      )}
      {selection.items.size > 0 && (
        <ActionBar
          selection={selection}
          domains={domains.data ?? []}
          busy={actions.isPending}
          copied={actions.copied}
          onAct={act}
        />
      )}
    </>
  )
}

/** What brings the pipelines back to where they were; null for what cannot be taken back. */
function reverse(action: ActionName, items: readonly PipelineItem[]): BulkAction[] | undefined {
  if (action === 'enable' || action === 'disable') {
    const changed = items.filter(({ enabled }) => enabled !== (action === 'enable'))
    if (changed.length === 0) return undefined
    return [{ action: action === 'enable' ? 'disable' : 'enable', ids: changed.map(({ id }) => id) }]
  }
  if (action !== 'move') return undefined
  return [...Map.groupBy(items, ({ domain_id }) => domain_id)].map(([domain_id, group]) => ({
    action,
    ids: group.map(({ id }) => id),
    domain_id,
  }))
}

function Total({ rows, filtered }: { rows: number; filtered: boolean }) {
  return (
    <>
      {rows >= MOST_COUNTED && 'More than '}
      <Count value={rows} /> {filtered ? 'found' : 'in all'}
    </>
  )
}

function Nothing({ filtered }: { filtered: boolean }) {
  const may = useMay('pipelines:write')
  if (filtered) return <Empty title="No pipeline matches" action={<Link to="/pipelines">Remove all filters</Link>} />
  return (
    <Empty title="No pipelines yet" action={<NewPipeline />}>
      A pipeline moves one stream of a source to a destination, by hand or on a schedule.
      {!may && ' Your role may look at pipelines but not create them; ask an admin of your organization.'}
    </Empty>
  )
}
