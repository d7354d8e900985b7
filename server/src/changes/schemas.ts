/**
 * What the sources of a plan answer about their columns, compared with those that the pipelines had last. The sources are
 * asked after the plan was made, outside of its transaction, and whatever they do, the plan stands: who does not answer is
 * named. A few at once, each for a limited time, in the processes of the API that all organizations share fairly.
 */
import { describeResolved, type ProbeServices } from '../connections/probes.ts'
import type { ResolvedSource } from '../connections/resolve.ts'
import type { Column } from '../connectors/contract.ts'
import { readKeptColumns, type StoredColumn } from '../connectors/kept-columns.ts'
import { type Queryable, sql } from '../database/database.ts'
import { chosenColumns } from '../engine/columns.ts'
import { findChanges } from '../engine/fingerprint.ts'
import { AppError } from '../errors.ts'
import type { ResolvedConfig } from '../pipelines/resolve.ts'
import type { Actor } from '../tenancy/actor.ts'
import { can } from '../tenancy/permissions.ts'
import { inVisibleDomain } from '../tenancy/visibility.ts'
import { type ColumnDifference, compareColumns, type KnownColumns } from './compare-columns.ts'
import type { CurrentPipeline } from './current.ts'
import { lookAhead, type Outlooks, type Place, uses } from './effects.ts'
import type { Step } from './plan.ts'

const MAX_ASKED = 50
const AT_ONCE = 4
/** One of them has the time that every call has. */
const ALL_MS = 60_000
/** Of one stream in the answer. */
const MAX_SHOWN = 200

export interface SchemaOutlook {
  pipeline: string
  /** Why the source did not answer; null if it did. */
  problem: string | null
  /** Of the stream after the choice of columns; null if only reading would tell, or there was no answer. */
  columns: Pick<Column, 'name' | 'type'>[] | null
  /** From what the last run read; null where there is nothing to compare. */
  differences: ColumnDifference[] | null
}

/** A pipeline whose columns may be others after the change. */
export interface Question {
  /** The step that it is told of with. */
  step: number
  name: string
  /** Null for a new pipeline, and for one that gets another target. */
  known_id: string | null
  config: ResolvedConfig
}

interface Planned {
  actor: Actor
  place: Place
  steps: readonly Step[]
  affected: readonly CurrentPipeline[]
  before: Outlooks
  after: Outlooks
}

/** Inside of the transaction, which holds what the plan would store. */
export async function findQuestions(tx: Queryable, planned: Planned): Promise<Question[]> {
  return [...findChanged(planned), ...(await findCreated(tx, planned))]
}

function findChanged({ actor, steps, affected, before, after }: Planned): Question[] {
  return affected.flatMap(({ id, name, domain_id, ...pipeline }) => {
    const [last, next] = [before.get(id), after.get(id)]
    if (!next?.resolved || !can(actor, 'pipelines:write', domain_id)) return []
    const asked = ({ source, columns }: ResolvedConfig) => JSON.stringify([source, columns])
    if (last?.resolved && asked(last.resolved) === asked(next.resolved)) return []
    const own = steps.findIndex((step) => step.kind === 'pipelines' && step.id === id)
    const step = own === -1 ? steps.findIndex((each) => uses({ id, name, domain_id, ...pipeline }, each)) : own
    const isElsewhere = findChanges(last?.fingerprint ?? null, next.fingerprint!).includes('destination')
    return [{ step, name, known_id: isElsewhere ? null : id, config: next.resolved }]
  })
}

async function findCreated(tx: Queryable, { actor, place, steps }: Planned): Promise<Question[]> {
  const created = new Map(
    steps.flatMap(({ kind, action, name }, step): [string, number][] =>
      kind === 'pipelines' && action === 'create' ? [[name, step]] : [],
    ),
  )
  const rows = await tx.query<{ id: string; name: string }>(sql`
    SELECT id, name FROM pipelines WHERE organization_id = ${place.organization_id} AND name = ANY(${[...created.keys()]}) AND created_at = now()${inVisibleDomain(actor)}`)
  const outlooks = await lookAhead(
    tx,
    place,
    rows.map(({ id }) => id),
  )
  return rows.flatMap(({ id, name }) => {
    const config = outlooks.get(id)?.resolved
    return config ? [{ step: created.get(name)!, name, known_id: null, config }] : []
  })
}

/** By the number of their step. */
export async function askSources(
  services: ProbeServices,
  actor: Actor,
  questions: readonly Question[],
  signal: AbortSignal,
): Promise<Map<number, SchemaOutlook[]>> {
  const known = await readKnown(services.db, actor, questions)
  const whole = AbortSignal.any([signal, AbortSignal.timeout(ALL_MS)])
  const outlooks: SchemaOutlook[] = []
  const waiting = questions.entries()
  const work = async () => {
    for (const [index, question] of waiting)
      outlooks[index] =
        index < MAX_ASKED
          ? await askSource(services, actor, { question, known: known.get(question.known_id ?? '') }, whole)
          : unanswered(question, `only the sources of ${MAX_ASKED} pipelines are asked for one plan`)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  signal.throwIfAborted()
  const pairs = questions.map(({ step }, index) => ({ step, outlook: outlooks[index]! }))
  return new Map(
    [...Map.groupBy(pairs, ({ step }) => step)].map(([step, own]) => [step, own.map(({ outlook }) => outlook)]),
  )
}

const unanswered = ({ name: pipeline }: Question, problem: string): SchemaOutlook => ({
  pipeline,
  problem,
  columns: null,
  differences: null,
})

async function askSource(
  services: ProbeServices,
  actor: Actor,
  { question, known }: { question: Question; known: KnownColumns | undefined },
  signal: AbortSignal,
): Promise<SchemaOutlook> {
  const { name, config } = question
  if (mayRotate(config.source))
    return unanswered(question, 'it was not asked, because the provider may replace its refresh token')
  try {
    const { problem, description } = await describeResolved(services, actor, config.source, signal)
    if (problem !== null) return unanswered(question, problem)
    const described = description?.columns?.map(({ name: column, type }) => ({ name: column, type }))
    const columns = chosenColumns(described ?? null, config.columns)
    return {
      pipeline: name,
      problem: null,
      columns: columns?.slice(0, MAX_SHOWN) ?? null,
      differences: columns && known ? compareColumns(columns, known, config.sync).slice(0, MAX_SHOWN) : null,
    }
  } catch (error) {
    if (signal.aborted) return unanswered(question, 'it did not answer in time')
    if (!(error instanceof AppError)) throw error
    return unanswered(question, error.message)
  }
}

/** A plan is made often, and applied later or never: it must not use up a token that is stored nowhere yet. */
function mayRotate({ authentication, config }: ResolvedSource): boolean {
  const hasToken = (value: unknown): boolean =>
    typeof value === 'object' &&
    value !== null &&
    Object.entries(value).some(([name, inner]) => /refresh/i.test(name) || hasToken(inner))
  return hasToken(authentication.params) || hasToken(config)
}

/** What the last run read, if its output tells, and what the target had after it. */
async function readKnown(
  db: Queryable,
  { organization_id }: Actor,
  questions: readonly Question[],
): Promise<Map<string, KnownColumns>> {
  const ids = questions.flatMap(({ known_id }) => (known_id === null ? [] : [known_id]))
  const rows = await db.query<{ id: string; target: StoredColumn[]; read: Column[] | null }>(sql`
    SELECT p.id, s.columns AS target,
           (SELECT r.output_columns FROM runs r WHERE r.pipeline_id = p.id AND r.status = 'success' ORDER BY r.seq DESC LIMIT 1) AS read
      FROM pipelines p JOIN pipeline_schemas s ON s.pipeline_id = p.id
     WHERE p.organization_id = ${organization_id} AND p.id = ANY(${ids}::uuid[])`)
  return new Map(rows.map(({ id, target, read }) => [id, { target: readKeptColumns(target), read }]))
}
