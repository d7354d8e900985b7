/** Carries out the steps of a plan inside of one transaction, with the functions that single requests use. */
import { setImmediate } from 'node:timers/promises'
import type { ValidationResult } from '../cell/validate.ts'
import {
  deleteCustomSource,
  requireFreeName,
  storeNewSource,
  storeSourceChange,
} from '../connections/custom-sources.ts'
import {
  deleteManifest,
  type ManifestValidation,
  storeManifestChange,
  storeNewManifest,
} from '../connections/manifests.ts'
import { createSavedConnector, deleteSavedConnector, updateSavedConnector } from '../connections/saved-connectors.ts'
import { nestIn, type Queryable, sql, type Transactions } from '../database/database.ts'
import { AppError } from '../errors.ts'
import { createPipeline, updatePipeline } from '../pipelines/pipelines.ts'
import { removePipeline } from '../runs/delete-pipeline.ts'
import { type Actor, requirePermission } from '../tenancy/actor.ts'
import { createDomain, deleteDomain, updateDomain } from '../tenancy/domains.ts'
import { namesIn, toIds } from './connection-names.ts'
import type { ConnectionName } from './current.ts'
import { changedParts, type Doubtful, describeMissingDomain, findAllProblems, type Surroundings } from './diagnose.ts'
import { failedConnection, failedDomain, failedSource, markFailed } from './failed.ts'
import type { Step } from './plan.ts'
import { MAX_PROBLEMS, type Problem, problemsOf } from './problems.ts'
import type { DesiredConnection, DesiredObjects, DesiredPipeline, DesiredSource } from './shape.ts'

/** The result of validating new code, by its index in the request. */
type CheckedCode = ReadonlyMap<number, ValidationResult | ManifestValidation>

interface Given extends Pick<Surroundings, 'stores' | 'actor' | 'current' | 'failed'> {
  desired: DesiredObjects
  malformed: readonly Doubtful[]
  checked: CheckedCode
}

interface Work extends Given, Surroundings {
  db: Transactions
  domainIds: Map<string, string>
  connections: ConnectionName[]
}

/** All steps, whatever happens to some of them: the caller rolls back if there is any problem. */
export async function carryOut(tx: Queryable, given: Given, steps: readonly Step[]): Promise<Problem[]> {
  const work: Work = {
    ...given,
    tx,
    db: nestIn(tx),
    domainIds: new Map(given.current.domains.map(({ id, name }) => [name, id])),
    connections: [...given.current.connectionNames],
  }
  const problems: Problem[] = []
  const doubtful: Doubtful[] = [...given.malformed]
  for (const step of steps.filter(({ action }) => action !== 'delete')) {
    const { kind, action, index, fields } = step
    const doubt = { kind, index: index!, object: given.desired[kind][index!], action, fields }
    try {
      if (!(await carryOutOne(work, step))) doubtful.push(doubt)
    } catch (error) {
      markFailed(given.failed, kind, doubt.object)
      const found = problemsOf(error, doubt.object, ['objects', kind, index!])
      problems.push(...found)
      // Who may not do it learns no more than that.
      if (!found.some(({ forbidden }) => forbidden)) doubtful.push(doubt)
    }
  }
  for (const doubt of doubtful) {
    if (problems.length >= MAX_PROBLEMS) break
    // Not all of them ask the database for something, and other requests wait.
    await setImmediate()
    problems.push(...(await findAllProblems(work, doubt)))
  }
  for (const step of steps.filter(({ action }) => action === 'delete').reverse())
    problems.push(...(await carryOutRemoval(work, step)))
  return distinct(problems)
}

/** A deletion has no place in the request. */
async function carryOutRemoval(work: Work, step: Step): Promise<Problem[]> {
  try {
    await carryOutOne(work, step)
    return []
  } catch (error) {
    return problemsOf(error, {}, ['prune']).map((problem) => ({
      ...problem,
      pointer: '/prune',
      message: `'${step.name}': ${problem.message.replace('delete it without if_unused', 'describe it in the files')}`,
    }))
  }
}

const distinct = (problems: readonly Problem[]): Problem[] => [
  ...new Map(problems.map((problem) => [`${problem.pointer} ${problem.message}`, problem])).values(),
]

/** False if it was left out, because it refers to something that has a problem. */
async function carryOutOne(work: Work, step: Step): Promise<boolean> {
  switch (step.kind) {
    case 'domains':
      await carryOutDomain(work, step)
      return true
    case 'sources':
      await carryOutSource(work, step)
      return true
    case 'connections':
      return carryOutConnection(work, step)
    case 'pipelines':
      return carryOutPipeline(work, step)
  }
}

async function carryOutDomain({ db, actor, desired, domainIds }: Work, { action, id, index }: Step): Promise<void> {
  if (action === 'delete') {
    requirePermission(actor, 'domains:delete', id)
    return deleteDomain(db, actor, id!)
  }
  const { name, description = null, color = null } = desired.domains[index!]!
  if (action === 'change') return void (await updateDomain(db, actor, id!, { description, color }))
  domainIds.set(name.trim(), (await createDomain(db, actor, { name, description, color })).id)
}

async function carryOutSource({ db, actor, current, desired, checked, failed }: Work, step: Step): Promise<void> {
  requirePermission(actor, 'custom_sources:write')
  const { action, id, index, name } = step
  const remove = async (options: { if_unused: boolean }) =>
    current.sources.find((source) => source.id === id)!.language === 'manifest'
      ? deleteManifest(db, actor, id!, options)
      : deleteCustomSource(db, actor, id!, options)
  if (action === 'delete') return remove({ if_unused: true })
  if (action === 'create') requireFreeName(name)
  if (failed.has(failedSource(name))) return
  const source = desired.sources[index!]!
  if (action === 'replace') await remove({ if_unused: false })
  if (action === 'change') return changeSource(db, actor, { step, source, checked: checked.get(index!) ?? null })
  const { code, description = null } = source
  const input = { name: source.name, source_name: name, description }
  if (source.language === 'manifest')
    await storeNewManifest(db, actor, { ...input, manifest: code }, checked.get(index!) as ManifestValidation)
  else await storeNewSource(db, actor, { ...input, code }, checked.get(index!) as ValidationResult)
}

async function changeSource(
  db: Transactions,
  actor: Actor,
  {
    step,
    source,
    checked,
  }: { step: Step; source: DesiredSource; checked: ValidationResult | ManifestValidation | null },
): Promise<void> {
  const fields = new Set(step.fields.map(({ path }) => path))
  const change = {
    id: step.id!,
    ...(fields.has('name') && { name: source.name }),
    ...(fields.has('description') && { description: source.description ?? null }),
  }
  const code = fields.has('code') ? source.code : undefined
  if (source.language === 'manifest')
    await storeManifestChange(
      db,
      actor,
      { ...change, ...(code !== undefined && { manifest: code }) },
      checked as ManifestValidation | null,
    )
  else
    await storeSourceChange(
      db,
      actor,
      { ...change, ...(code !== undefined && { code }) },
      checked as ValidationResult | null,
    )
}

async function carryOutConnection(work: Work, { action, id, index, fields, name }: Step): Promise<boolean> {
  const { db, tx, actor, current, desired, stores, failed } = work
  requirePermission(actor, 'connectors:write')
  const all = { ...stores, db }
  if (action === 'delete') {
    const { type } = current.connections.find((connection) => connection.id === id)!
    await deleteSavedConnector(db, actor, { type, id: id! }, { if_unused: true })
    return true
  }
  const wanted = desired.connections[index!] as DesiredConnection
  const { type, connector_name, description = null, config = {} } = wanted
  if (failed.has(failedSource(connector_name))) {
    failed.add(failedConnection(type, name))
    return false
  }
  if (action === 'change') {
    const changes = {
      ...(fields.some(({ path }) => path === 'description') && { description }),
      ...(fields.some(({ path }) => path.startsWith('config')) && { config }),
    }
    await updateSavedConnector(all, actor, { type, id: id! }, changes)
    return true
  }
  if (action === 'replace') await deleteSavedConnector(db, actor, { type, id: id! })
  const input = { name, connector_name, description, config }
  const made = await createSavedConnector(all, actor, type, id === null ? input : { ...input, id })
  if (action === 'create') work.connections.push({ id: made.id, name, type })
  else await renameConnector(tx, actor, { type, id: made.id, connector_name })
  return true
}

/** The name of the connector is also in the rows of the pipelines that use it. */
async function renameConnector(
  tx: Queryable,
  { organization_id }: Actor,
  { type, id, connector_name }: { type: 'source' | 'destination'; id: string; connector_name: string },
): Promise<void> {
  if (type === 'source')
    await tx.execute(
      sql`UPDATE pipelines SET source_name = ${connector_name} WHERE organization_id = ${organization_id} AND saved_source_id = ${id}`,
    )
  else
    await tx.execute(
      sql`UPDATE pipelines SET destination_name = ${connector_name} WHERE organization_id = ${organization_id} AND saved_destination_id = ${id}`,
    )
}

async function carryOutPipeline(work: Work, { action, id, index, fields }: Step): Promise<boolean> {
  const { tx, db, actor, desired, stores, domainIds, connections } = work
  if (action === 'delete') {
    await removePipeline(tx, actor, id!)
    return true
  }
  const pipeline = desired.pipelines[index!]!
  if (refersToFailed(work, pipeline)) return false
  const changes = changedParts({ action, fields })
  const named = changes('config') ? toIds(pipeline.config, connections, []) : { config: undefined, problems: [] }
  if (named.problems.length > 0) return false
  const { schedule = null, timezone = null, enabled = true } = pipeline
  const input = {
    ...(named.config && { config: named.config }),
    ...(changes('domain') && { domain_id: findDomain(pipeline, domainIds) }),
    ...(changes('schedule') && { schedule }),
    ...(changes('timezone') && { timezone }),
    ...(changes('enabled') && { enabled }),
  }
  const all = { ...stores, db }
  if (action === 'create') await createPipeline(all, actor, { ...input, name: pipeline.name, config: named.config })
  else await updatePipeline(all, actor, id!, input)
  return true
}

function refersToFailed({ failed }: Work, { config, domain }: DesiredPipeline): boolean {
  const source = (config.source as { name?: unknown }).name
  return (
    namesIn(config).some(({ side, name }) => failed.has(failedConnection(side, String(name)))) ||
    (typeof source === 'string' && failed.has(failedSource(source))) ||
    (domain != null && failed.has(failedDomain(domain.trim())))
  )
}

function findDomain({ domain = null }: DesiredPipeline, ids: ReadonlyMap<string, string>): string | null {
  if (domain === null) return null
  const id = ids.get(domain.trim())
  if (id === undefined) throw new AppError('invalid_input', describeMissingDomain(domain))
  return id
}
