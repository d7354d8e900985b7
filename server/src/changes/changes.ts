/**
 * Changes a whole organization, or its part that the caller sees, to what files describe. A plan (`dry_run`) does all of it
 * and takes it back, so it says what applying does, with every problem. Applying is one transaction: all or nothing.
 *
 * Whoever applies a plan sends its `base`. The rows that will change are locked before it is compared, so nothing that
 * others changed since the plan can be overwritten, and of two that apply at once one is refused.
 */
import type { CellServices } from '../connections/custom-sources.ts'
import type { ProbeServices } from '../connections/probes.ts'
import { findSettingsFaults } from '../connectors/settings/settings.ts'
import { DEADLOCK, isDatabaseError, lockForTransaction, type Queryable, raw, sql } from '../database/database.ts'
import { AppError } from '../errors.ts'
import { createGate } from '../gate.ts'
import type { Stores } from '../pipelines/pipelines.ts'
import { forgetTotals } from '../pipelines/totals.ts'
import { cancelRunsOfPipeline } from '../runs/cancel.ts'
import { type Actor, forbidden } from '../tenancy/actor.ts'
import type { Permission } from '../tenancy/permissions.ts'
import { carryOut } from './carry-out.ts'
import { type Checked, checkCode } from './check-code.ts'
import type { ChangedField } from './compare.ts'
import { type Current, mayRead, readBase, readCurrent } from './current.ts'
import type { Doubtful } from './diagnose.ts'
import { attachEffects, describeEffects, findAffected, lookAhead } from './effects.ts'
import { markFailed } from './failed.ts'
import { type Action, findSteps, type Step } from './plan.ts'
import { MAX_PROBLEMS, type Problem, pointerTo, publish, readFaults, refuseAll } from './problems.ts'
import { askSources, findQuestions, type Question, type SchemaOutlook } from './schemas.ts'
import { type DesiredObjects, frameOf, KINDS, type Kind, wordOf } from './shape.ts'

export interface ChangesInput {
  objects: Partial<Record<Kind, unknown[]>>
  prune?: boolean
  dry_run?: boolean
  base?: string
  /** The name of the only domain to change. */
  domain?: string
  /** Of a plan: also ask sources for their columns. */
  schemas?: boolean
}

interface Change {
  kind: (typeof wordOf)[Kind]
  name: string
  action: Action
  fields: ChangedField[]
  effects: string[]
  /** If sources were asked: of the pipelines whose columns may be others. */
  schemas?: SchemaOutlook[]
}

export interface ChangesAnswer {
  changes: Change[]
  problems: ReturnType<typeof publish>
  base: string
  applied: boolean
}

export type ChangeServices = Stores & CellServices & ProbeServices

/** Of this process: each holds a whole organization in memory. */
const gate = createGate({
  total: 4,
  perKey: 2,
  waitingPerKey: 8,
  waitingTotal: 32,
  waitMs: 30_000,
  refuse: () =>
    new AppError('too_many_requests', 'Too many plans are being made at once; try again in a moment', {
      'Retry-After': '5',
    }),
})

export async function changeOrganization(
  services: ChangeServices,
  actor: Actor,
  input: ChangesInput,
  signal: AbortSignal,
): Promise<ChangesAnswer> {
  const leave = await gate.enter(actor.organization_id, signal)
  const { answer, questions } = await change(services, actor, input, signal).finally(leave)
  if (questions.length === 0) return answer
  const outlooks = await askSources(services, actor, questions, signal)
  const changes = answer.changes.map((each, index) => {
    const schemas = outlooks.get(index)
    return schemas ? { ...each, schemas } : each
  })
  return { ...answer, changes }
}

interface Outcome {
  answer: ChangesAnswer
  questions: Question[]
}

async function change(
  services: ChangeServices,
  actor: Actor,
  input: ChangesInput,
  signal: AbortSignal,
): Promise<Outcome> {
  const { desired, problems: faults, malformed } = readObjects(input.objects)
  const current = await readCurrent(services, actor)
  if (input.base !== undefined && input.base !== current.base) throw stale()
  const domain = input.domain?.trim() ?? null
  // Without what is malformed, too much would be deleted.
  const prune = (input.prune ?? false) && faults.length === 0
  const found = findSteps({ actor, rules: services.config, current, desired, prune, domain })
  requireFew(found.steps)
  const code = await checkCode(services, actor, { steps: found.steps, desired, malformed }, signal)
  for (const { kind, object } of malformed) markFailed(code.failed, kind, object)
  const problems = [...faults, ...findUnreadable(actor, desired), ...found.problems, ...code.problems]
  const plan = {
    ...code,
    current,
    desired,
    malformed,
    steps: found.steps,
    problems,
    isTrial: input.dry_run ?? false,
    schemas: input.schemas ?? false,
  }
  for (let tries = 1; ; tries++) {
    try {
      return await carryOutPlan(services, actor, plan)
    } catch (error) {
      if (tries === 5 || !isDatabaseError(error, DEADLOCK)) throw error
    }
  }
}

/** The rows that change stay locked until the end. */
function requireFew({ length }: readonly Step[]): void {
  if (length > MAX_CHANGES)
    throw new AppError(
      'invalid_input',
      `These are ${length} changes; at most ${MAX_CHANGES} are made at once. Change one domain after another, or fewer objects`,
    )
}

interface Plan extends Checked {
  current: Current
  desired: DesiredObjects
  malformed: Doubtful[]
  steps: Step[]
  isTrial: boolean
  schemas: boolean
}

class Undo extends Error {}

async function carryOutPlan(services: ChangeServices, actor: Actor, plan: Plan): Promise<Outcome> {
  const { current, steps, isTrial } = plan
  const affected = findAffected(current, steps)
  const ids = affected.map(({ id }) => id)
  const place = { box: services.box, organization_id: actor.organization_id }
  let answer: ChangesAnswer | undefined
  let questions: Question[] = []
  const work = async (tx: Queryable) => {
    await lockForTransaction(tx, `changes ${actor.organization_id}`)
    await lockRows(tx, actor, steps)
    if ((await readBase(tx, actor)) !== current.base) throw stale()
    const before = await lookAhead(tx, place, ids)
    const { db: _, ...stores } = services
    const given = { ...plan, stores, actor, failed: new Set(plan.failed) }
    const problems = [...plan.problems, ...(await carryOut(tx, given, steps))]
    const after = await lookAhead(tx, place, ids)
    const effects = await describeEffects(tx, before, after)
    answer = {
      changes: describeSteps(plan, attachEffects(steps, affected, effects)),
      problems: publish(problems),
      base: isTrial ? current.base : await readBase(tx, actor),
      applied: !isTrial,
    }
    // Without problems the caller may do all of it, so also have the sources read.
    if (isTrial && plan.schemas && problems.length === 0)
      questions = await findQuestions(tx, { actor, place, steps, affected, before, after })
    if (!isTrial && problems.length > 0) throw refuseAll(problems)
    if (isTrial) throw new Undo('A plan is not committed')
  }
  await services.db.transaction(work).catch((error: unknown) => {
    if (!(error instanceof Undo)) throw error
  })
  forgetTotals(actor.organization_id)
  return { answer: answer!, questions }
}

const stale = () =>
  new AppError('conflict', 'The organization has changed since the plan was made; make the plan again and look at it')

const TABLES: Record<Kind, string> = {
  domains: 'domains',
  sources: 'custom_sources',
  connections: 'saved_connectors',
  pipelines: 'pipelines',
}

/** In the order in which other requests lock them: runs, their pipeline, what it refers to. */
async function lockRows(tx: Queryable, actor: Actor, steps: readonly Step[]): Promise<void> {
  for (const { kind, action, id } of steps)
    if (kind === 'pipelines' && action === 'delete') await cancelRunsOfPipeline(tx, actor.organization_id, id!)
  for (const kind of [...KINDS].reverse()) {
    const ids = steps.flatMap((step) => (step.kind === kind && step.id !== null ? [step.id] : []))
    if (ids.length > 0)
      await tx.execute(sql`
        SELECT 1 FROM ${raw(TABLES[kind])} WHERE organization_id = ${actor.organization_id} AND id = ANY(${ids}::uuid[]) ORDER BY id FOR UPDATE`)
  }
}

function readObjects(given: ChangesInput['objects']): {
  desired: DesiredObjects
  problems: Problem[]
  malformed: Doubtful[]
} {
  const problems: Problem[] = []
  const malformed: Doubtful[] = []
  const read = (kind: Kind) =>
    (given[kind] ?? []).map((object, index) => {
      // What follows so many problems is not told, so it is not looked for either.
      if (problems.length >= MAX_PROBLEMS) return null
      const at = ['objects', kind, index]
      const faults = findSettingsFaults(frameOf[kind], object, '').map((fault) => fault.replace(/^\./, ''))
      problems.push(...readFaults(faults.join('\n'), object, at))
      if (faults.length === 0) return object
      malformed.push({ kind, index, object, action: 'create', fields: [] })
      return null
    })
  const desired = Object.fromEntries(KINDS.map((kind) => [kind, read(kind)])) as unknown as DesiredObjects
  return { desired, problems, malformed }
}

const READS: Record<Kind, Permission> = {
  domains: 'domains:read',
  sources: 'custom_sources:read',
  connections: 'connectors:read',
  pipelines: 'pipelines:read',
}

/** Without seeing what there is, everything would be taken for new. */
function findUnreadable(actor: Actor, desired: DesiredObjects): Problem[] {
  const may = mayRead(actor)
  return KINDS.filter((kind) => desired[kind].length > 0 && !may[kind]).map((kind) => ({
    pointer: pointerTo('objects', kind),
    message: forbidden(READS[kind], actor).message,
    forbidden: true,
  }))
}

const MAX_CHANGES = 2000

function describeSteps({ current, steps }: Plan, effects: readonly string[][]): Change[] {
  return steps.map(({ kind, name, action, fields, id }, index) => {
    const own = ownEffects({ kind, action, id, fields }, current)
    return { kind: wordOf[kind], name, action, fields, effects: [...own, ...effects[index]!] }
  })
}

function ownEffects(
  { kind, action, id, fields }: Pick<Step, 'kind' | 'action' | 'id' | 'fields'>,
  current: Current,
): string[] {
  if (kind === 'pipelines' && action === 'delete')
    return [
      'Its runs, logs, outputs and state are deleted; a run in progress is cancelled. Tables in the destination stay.',
    ]
  if (kind === 'sources' && action === 'change' && fields.some(({ path }) => path === 'code')) {
    const version = current.sources.find((source) => source.id === id)!.version + 1
    return [`It becomes version ${version}; runs that start after the change use it.`]
  }
  if (kind === 'sources' && action === 'replace')
    return ['It is another source from now on: its old versions are deleted.']
  return []
}
