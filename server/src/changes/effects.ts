/**
 * What a change means for the state and the tables of pipelines, in words: those that are changed, and those that use a
 * connection or a source that is. Found by comparing what a run would use before and after.
 */
import { loadManyReferences, wantedBy } from '../connections/references.ts'
import { ConnectorError, type Sync } from '../connectors/contract.ts'
import { type Queryable, sql } from '../database/database.ts'
import type { SecretBox } from '../database/secret-box.ts'
import { type Fingerprint, findChanges } from '../engine/fingerprint.ts'
import { makeFingerprint } from '../pipelines/fingerprint.ts'
import { foreseeChange } from '../pipelines/notice.ts'
import { openPipelineConfig, type ResolvedConfig, resolveWith } from '../pipelines/resolve.ts'
import type { Current, CurrentPipeline } from './current.ts'
import type { Step } from './plan.ts'

interface Outlook {
  fingerprint: Fingerprint | null
  resolved: ResolvedConfig | null
  /** Why a run would fail at once. */
  broken: string | null
}

export type Outlooks = ReadonlyMap<string, Outlook>

export interface Place {
  box: SecretBox
  organization_id: string
}

/** The pipelines whose next run may be another one. */
export function findAffected(current: Current, steps: readonly Step[]): CurrentPipeline[] {
  const changed = steps.filter(({ action }) => action === 'change' || action === 'replace')
  const idsOf = (kind: Step['kind']) => new Set(changed.filter((step) => step.kind === kind).map(({ id }) => id))
  const [pipelines, connections] = [idsOf('pipelines'), idsOf('connections')]
  const sources = new Set(changed.filter(({ kind }) => kind === 'sources').map(({ name }) => name))
  return current.pipelines.filter(
    ({ id, saved_source_id, saved_destination_id, source_name }) =>
      pipelines.has(id) ||
      connections.has(saved_source_id) ||
      connections.has(saved_destination_id) ||
      (source_name !== null && sources.has(source_name)),
  )
}

/** With what is stored now, also inside of a transaction. */
export async function lookAhead(
  db: Queryable,
  { box, organization_id }: Place,
  ids: readonly string[],
): Promise<Outlooks> {
  const rows = await db.query<{ id: string; config_box: Buffer }>(
    sql`SELECT id, config_box FROM pipelines WHERE organization_id = ${organization_id} AND id = ANY(${ids}::uuid[])`,
  )
  const opened = rows.map(({ id, config_box }) => {
    try {
      return { id, config: openPipelineConfig(box, { id, organization_id, config_box }) }
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
      return { id, config: null }
    }
  })
  const readable = opened.filter(({ config }) => config !== null)
  const references = await loadManyReferences(
    db,
    readable.map(({ config }) => ({ organization_id, ...wantedBy(config) })),
  )
  const outlooks = new Map<string, Outlook>(
    opened.map(({ id }) => [id, { fingerprint: null, resolved: null, broken: null }]),
  )
  readable.forEach(({ id, config }, index) => {
    try {
      const resolved = resolveWith(config!, references[index]!, box)
      outlooks.set(id, { resolved, fingerprint: makeFingerprint(box, organization_id, resolved), broken: null })
    } catch (error) {
      if (!(error instanceof ConnectorError)) throw error
      outlooks.set(id, { fingerprint: null, resolved: null, broken: error.message })
    }
  })
  return outlooks
}

/** By pipeline id. */
export async function describeEffects(
  tx: Queryable,
  before: Outlooks,
  after: Outlooks,
): Promise<Map<string, string[]>> {
  const effects = new Map<string, string[]>()
  for (const [id, next] of after) {
    const last = before.get(id)
    const sentences: string[] = []
    if (next.broken !== null && last?.broken == null) sentences.push(`The next run fails: ${next.broken}`)
    if (next.resolved && next.fingerprint) {
      const now = { now: next.fingerprint, next: next.resolved }
      const notice = await foreseeChange(tx, id, last?.fingerprint ?? null, now)
      if (notice) sentences.push(notice)
      if (findChanges(last?.fingerprint ?? null, next.fingerprint).includes('destination'))
        sentences.push('The next run loads into another target; what was loaded into the old one stays there.')
      if (last?.resolved) sentences.push(...compareResolved(last.resolved, next.resolved))
    }
    if (sentences.length > 0) effects.set(id, sentences)
  }
  return effects
}

function compareResolved(before: ResolvedConfig, after: ResolvedConfig): string[] {
  const sentences = [compareMode(before.sync, after.sync), compareWrite(before.sync, after.sync)]
  if (JSON.stringify(before.columns) !== JSON.stringify(after.columns))
    sentences.push('Rows that are already in the target keep their columns until they are read again.')
  return sentences.filter((sentence) => sentence !== null)
}

function compareMode(before: Sync, after: Sync): string | null {
  if (before.mode === after.mode) return null
  return after.mode === 'incremental'
    ? 'Runs read only what is new from now on; without a state, the next one reads everything once.'
    : 'Every run reads everything from now on.'
}

function compareWrite(before: Sync, after: Sync): string | null {
  const keys = after.primary_key.join(', ')
  if (before.write === after.write)
    return after.write === 'upsert' && before.primary_key.join('\n') !== after.primary_key.join('\n')
      ? `Rows are matched by ${keys} from now on; those loaded before stay.`
      : null
  if (after.write === 'replace') return 'The next run replaces all rows of the target.'
  if (after.write === 'upsert') return `Rows with the same ${keys} are overwritten from now on; the others stay.`
  return 'Runs add rows to those in the target from now on.'
}

const SHOWN = 20

/** Pipelines that are no step of their own are told of with the connection or source that they use. */
export function attachEffects(
  steps: readonly Step[],
  affected: readonly CurrentPipeline[],
  effects: ReadonlyMap<string, string[]>,
): string[][] {
  const own = new Set(steps.filter(({ kind }) => kind === 'pipelines').map(({ id }) => id))
  return steps.map((step) => {
    if (step.kind === 'pipelines') return effects.get(step.id ?? '') ?? []
    const told = affected
      .filter((pipeline) => !own.has(pipeline.id) && uses(pipeline, step))
      .flatMap(({ id, name }) => (effects.get(id) ?? []).map((sentence) => `'${name}': ${sentence}`))
    const rest = told.length > SHOWN ? [`and ${told.length - SHOWN} more of this kind`] : []
    return [...told.slice(0, SHOWN), ...rest]
  })
}

export const uses = (pipeline: CurrentPipeline, { kind, id, name }: Step): boolean =>
  kind === 'connections'
    ? pipeline.saved_source_id === id || pipeline.saved_destination_id === id
    : kind === 'sources' && pipeline.source_name === name
