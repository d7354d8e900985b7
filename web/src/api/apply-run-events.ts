/**
 * What a run event changes in answers that are cached, so that nothing has to be requested again. Everything here is plain
 * data in and out: an answer that the events do not concern is returned as it was.
 */
import type { paths } from '../../../clients/typescript/src/schema.d.ts'
import { isOver, type LiveRun, type RunEvent } from './run-events.ts'

type RunFilters = NonNullable<paths['/api/runs']['get']['parameters']['query']>

interface List<Item> {
  items: Item[]
  total: number
}
type ListedRun = Omit<LiveRun, 'attempt' | 'records_read' | 'bytes_written'>

export function applyEvents(key: readonly unknown[], data: unknown, events: readonly RunEvent[]): unknown {
  if (data === undefined || data === null) return data
  const [kind, detail] = key
  if (kind === 'run') return events.reduce((run, event) => applyToRun(run, event), data as LiveRun)
  if (kind === 'runs' && typeof detail === 'object' && isList<ListedRun>(data))
    return events.reduce((list, event) => applyToRuns(list, detail as RunFilters, event), data)
  if (kind === 'pipelines' && isList<ListedPipeline>(data))
    return events.reduce((list, event) => applyToPipelines(list, event), data)
  return data
}

function isList<Item>(data: unknown): data is List<Item> {
  return typeof data === 'object' && data !== null && 'items' in data && Array.isArray(data.items)
}

/** An event may be older than an answer that has arrived meanwhile. A final state stays, and attempts only grow. */
function isOlder(event: LiveRun, known: Pick<LiveRun, 'status'> & { attempt?: number }): boolean {
  if (isOver(known)) return !isOver(event)
  return known.attempt !== undefined && event.attempt < known.attempt
}

function applyToRun(known: LiveRun, event: RunEvent): LiveRun {
  if (event.type !== 'run' || event.run.id !== known.id || isOlder(event.run, known)) return known
  const { pipeline_name: _, domain_id: __, ...run } = event.run
  return { ...known, ...run }
}

function applyToRuns(list: List<ListedRun>, filters: RunFilters, event: RunEvent): List<ListedRun> {
  const id = event.type === 'run' ? event.run.id : event.id
  const at = list.items.findIndex((item) => item.id === id)
  const known = list.items[at]
  if (event.type === 'deleted' || (known !== undefined && !fits(event.run, filters)))
    return known === undefined ? list : { items: list.items.toSpliced(at, 1), total: list.total - 1 }
  const { run } = event
  if (known !== undefined)
    return isOlder(run, known) ? list : { ...list, items: list.items.with(at, { ...known, ...toListed(run) }) }
  return fits(run, filters) ? insert(list, filters, run) : list
}

/** Only on the first page: where a run would stand on a later one cannot be known. */
function insert(list: List<ListedRun>, { before, offset, limit = 100 }: RunFilters, run: LiveRun): List<ListedRun> {
  const { items } = list
  if (before || offset) return list
  const place = items.findIndex((item) => item.created_at < run.created_at)
  if (place < 0 && items.length >= limit) return list
  const more = items.toSpliced(place < 0 ? items.length : place, 0, toListed(run))
  return { items: more.slice(0, limit), total: list.total + 1 }
}

function fits(run: LiveRun, filters: RunFilters): boolean {
  const { status, pipeline_id, domain_id, triggered_by, since, until } = filters
  if (status && run.status !== status) return false
  if (pipeline_id && run.pipeline_id !== pipeline_id) return false
  if (domain_id && run.domain_id !== domain_id) return false
  if (triggered_by && run.triggered_by !== triggered_by) return false
  const created = Date.parse(run.created_at)
  return (!since || created >= Date.parse(since)) && (!until || created < Date.parse(until))
}

function toListed(run: LiveRun): ListedRun {
  const { attempt: _, records_read: __, bytes_written: ___, ...listed } = run
  return listed
}

interface ListedPipeline {
  id: string
  last_run_status: LiveRun['status'] | null
  last_run_at: string | null
}

/** A row stays where it is, also if it no longer fits the filter: it must not vanish under the pointer. */
function applyToPipelines(list: List<ListedPipeline>, event: RunEvent): List<ListedPipeline> {
  if (event.type === 'deleted') return list
  const { run } = event
  const at = list.items.findIndex(({ id }) => id === run.pipeline_id)
  const known = list.items[at]
  const last_run_at = run.started_at ?? run.created_at
  if (known === undefined || (known.last_run_at !== null && known.last_run_at > last_run_at)) return list
  if (known.last_run_status === run.status && known.last_run_at === last_run_at) return list
  return { ...list, items: list.items.with(at, { ...known, last_run_status: run.status, last_run_at }) }
}
