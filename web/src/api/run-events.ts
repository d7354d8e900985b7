/** What the event stream of runs tells; docs/runs.md describes it. */
import type { components } from '../../../clients/typescript/src/schema.d.ts'

type Schemas = components['schemas']

/** A run as it is now, with its progress. */
export type LiveRun = Schemas['OrganizationRun'] &
  Pick<Schemas['Run'], 'attempt' | 'records_read' | 'records_written' | 'bytes_written'>

export type RunEvent = { type: 'run'; run: LiveRun } | { type: 'deleted'; id: string; pipeline_id: string }

/** Nothing about it will change. */
export function isOver({ status }: Pick<LiveRun, 'status'>): boolean {
  return status !== 'pending' && status !== 'running'
}
