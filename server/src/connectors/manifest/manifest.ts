/**
 * A manifest as a whole: read, with its references resolved and its types filled in. `checkManifest` compiles every stream
 * without settings; `bindManifest` compiles those of a source with its settings, and says which ones cannot run and why.
 */
import { ConnectorError } from '../contract.ts'
import type { BudgetPlan, Plan } from '../http/plan.ts'
import type { Fields } from '../http/scope.ts'
import { compileBudget, compileConcurrency } from './compile/budget.ts'
import { applyConfigRules } from './compile/config-rules.ts'
import { checkedTemplate, expandDynamicStream, type ReadComponents } from './compile/dynamic-streams.ts'
import type { Environment, StoredSettings } from './compile/environment.ts'
import { compileRequester } from './compile/requester.ts'
import { compileBareRetriever } from './compile/retriever.ts'
import { type CompiledStream, compileStream, streamName } from './compile/stream.ts'
import { condition } from './compile/templates.ts'
import { type Component, components, type Dict, given, isComponent, isDict, optionalText } from './component.ts'
import { readManifest } from './document.ts'
import { propagateParameters } from './parameters.ts'
import { ManifestError, Unsupported } from './problems.ts'
import { resolveReferences } from './references.ts'
import { compileSchemaLoader } from './schema/dynamic.ts'
import { isTemplate } from './template/template.ts'

/** A manifest's own declarations, ready to be compiled. */
export interface Manifest {
  root: Component
  spec: Component | null
  /** The JSON schema of the settings. */
  settings: Dict
}

export interface Verdict {
  runs: 'whole' | 'part' | 'no'
  streams: number
  runnable: number
  /** `stream: reason`, or a reason alone that concerns all of them. */
  reasons: string[]
}

export interface BoundManifest {
  plan: Omit<Plan, 'streams'> & { streams: readonly CompiledStream[] }
  /** Why streams that the manifest names cannot run. */
  refused: ReadonlyMap<string, string>
  /** The streams by which the manifest wants a connection to be tested. */
  check: readonly string[]
  environment: Environment
}

export function loadManifest(text: string): Manifest {
  const resolved = resolveReferences(readManifest(text))
  if (given(resolved, 'streams') === undefined && given(resolved, 'dynamic_streams') === undefined) {
    throw new ManifestError('the manifest has neither streams nor dynamic_streams')
  }
  // What only others refer to needs no types: their copies get them where they stand.
  const { definitions: _definitions, schemas: _schemas, metadata: _metadata, ...used } = resolved
  const root = propagateParameters({ type: 'DeclarativeSource', ...used }) as Component
  if (root.type !== 'DeclarativeSource')
    throw new ManifestError(`the manifest is of type ${root.type}, not DeclarativeSource`)
  const spec = given(root, 'spec')
  const settings = isDict(spec) ? given(spec, 'connection_specification') : undefined
  return {
    root,
    spec: isDict(spec) ? ({ type: 'Spec', ...spec } as Component) : null,
    settings: isDict(settings) ? settings : {},
  }
}

function newEnvironment(config: Fields, checking: boolean, stored: StoredSettings | null = null): Environment {
  const environment: Environment = {
    config,
    checking,
    stored,
    stream: (stream) => compileStream(stream, environment),
    request: (requester) => compileRequester(requester, environment, { extra: new Set() }).request,
  }
  return environment
}

interface Declared {
  stream: Component
  /** The condition that it stands behind. */
  conditional: Component | null
}

/** The streams of a manifest, those behind conditions included, and its dynamic definitions. */
function declared(root: Component): { streams: Declared[]; dynamic: Component[] } {
  const streams = components(root, 'streams').flatMap((stream): Declared[] => {
    if (stream.type !== 'ConditionalStreams') return [{ stream, conditional: null }]
    return components(stream, 'streams').map((inner) => ({ stream: inner, conditional: stream }))
  })
  return { streams, dynamic: components(root, 'dynamic_streams') }
}

export const checkManifest = (text: string): Verdict => judgeManifest(() => loadManifest(text))

export function judgeManifest(load: () => Manifest): Verdict {
  try {
    return verdictOf(load())
  } catch (error) {
    return { runs: 'no', streams: 0, runnable: 0, reasons: [reasonOf(error)] }
  }
}

/** The names of the streams that run. `dynamic`: only the settings, or the API, tell all of them. */
export function declaredStreams({ root }: Manifest): { streams: string[]; dynamic: boolean } {
  const environment = newEnvironment({}, true)
  const { streams, dynamic } = declared(root)
  const names = streams.filter(({ stream }) => attempt(() => compileStream(stream, environment)) === null)
  const depends = streams.some(({ stream, conditional }) => conditional !== null || isTemplate(nameOf(stream)))
  return { streams: names.map(({ stream }) => nameOf(stream)), dynamic: dynamic.length > 0 || depends }
}

function verdictOf({ root, spec }: Manifest): Verdict {
  const environment = newEnvironment({}, true)
  const { streams, dynamic } = declared(root)
  const common = attempt(() => compileCommon(root, spec, environment))
  const reasons = common === null ? [] : [common]
  let runnable = 0
  const judge = (name: string, compile: () => void): void => {
    const reason = attempt(compile)
    if (reason !== null) reasons.push(`${name}: ${reason}`)
    else if (common === null) runnable++
  }
  for (const { stream, conditional } of streams) {
    judge(nameOf(stream), () => {
      if (conditional !== null) conditionOf(conditional, environment)
      checkStream(stream, environment)
    })
  }
  for (const definition of dynamic) {
    judge(optionalText(definition, 'name') || 'dynamic streams', () => checkDynamic(definition, environment))
  }
  const total = streams.length + dynamic.length
  const runs = runnable === 0 ? 'no' : runnable === total ? 'whole' : 'part'
  return { runs, streams: total, runnable, reasons }
}

function checkStream(stream: Component, environment: Environment): void {
  for (const loader of compileStream(stream, environment).schemaLoaders) checkSchemaLoader(loader, environment)
}

function checkSchemaLoader(loader: Component, environment: Environment): void {
  const retriever = given(loader, 'retriever')
  if (!isComponent(retriever)) throw new Unsupported('DynamicSchemaLoader has no retriever')
  compileBareRetriever(retriever, environment)
  compileSchemaLoader(loader, environment)
}

function checkDynamic(definition: Component, environment: Environment): void {
  const resolver = given(definition, 'components_resolver')
  const retriever = isDict(resolver) ? given(resolver, 'retriever') : undefined
  if (isComponent(retriever)) compileBareRetriever(retriever, environment)
  checkStream(checkedTemplate(definition, environment), environment)
}

function compileCommon(
  root: Component,
  spec: Component | null,
  environment: Environment,
): { budget: BudgetPlan | null; concurrency: number | undefined } {
  if (given(root, 'stream_groups') !== undefined) throw new Unsupported('stream_groups are not supported')
  applyConfigRules(spec, environment)
  return { budget: compileBudget(root, environment), concurrency: compileConcurrency(root, environment) }
}

function conditionOf(conditional: Component, environment: Environment): () => boolean {
  const read = condition(given(conditional, 'condition') ?? '', { environment, owner: conditional, known: 'config' })
  return () => read(null)
}

function nameOf(stream: Component): string {
  return String(given(stream, 'name') ?? 'a stream')
}

function attempt(act: () => unknown): string | null {
  try {
    act()
    return null
  } catch (error) {
    return reasonOf(error)
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof ManifestError || error instanceof Unsupported || error instanceof ConnectorError)
    return error.message
  if (error instanceof RangeError) return 'it is nested too deeply'
  throw error
}

/** Settings are changed as the manifest says, so the caller gives a copy. Streams that cannot run are named, not fatal. */
export async function bindManifest(
  manifest: Manifest,
  settings: Fields,
  readComponents: ReadComponentsOf,
  stored: Omit<StoredSettings, 'schema'> | null = null,
): Promise<BoundManifest> {
  const environment = newEnvironment(settings, false, stored && { ...stored, schema: manifest.settings })
  const common = compileForUse(manifest, environment)
  const plan = { budget: common.budget, ...(common.concurrency !== undefined && { concurrency: common.concurrency }) }
  const streams: CompiledStream[] = []
  const refused = new Map<string, string>()
  const add = (stream: Component): void => {
    try {
      streams.push(compileStream(stream, environment))
    } catch (error) {
      if (!(error instanceof Unsupported)) throw error
      refused.set(safeName(stream, environment), error.message)
    }
  }
  const { streams: fixed, dynamic } = declared(manifest.root)
  for (const { stream, conditional } of fixed)
    if (conditional === null || conditionOf(conditional, environment)()) add(stream)
  for (const definition of dynamic) {
    const read: ReadComponents = (retriever) =>
      readComponents({ ...plan, streams: [resolverStream(retriever, environment)] })
    for (const stream of await expandDynamicStream(definition, environment, read)) add(stream)
  }
  return { plan: { ...plan, streams }, refused, check: checkedNames(manifest.root), environment }
}

/** Reads all records of the only stream of a plan. */
export type ReadComponentsOf = (plan: Plan) => Promise<Fields[]>

function compileForUse(manifest: Manifest, environment: Environment): ReturnType<typeof compileCommon> {
  try {
    return compileCommon(manifest.root, manifest.spec, environment)
  } catch (error) {
    if (error instanceof Unsupported) throw new ConnectorError('config', `the manifest cannot run: ${error.message}`)
    throw error
  }
}

export const RESOLVER = 'components'

function resolverStream(retriever: Component, environment: Environment): Plan['streams'][number] {
  const plan = compileBareRetriever(retriever, environment)
  return { name: RESOLVER, primaryKey: [], columns: null, choose: () => plan }
}

function safeName(stream: Component, environment: Environment): string {
  try {
    return streamName(stream, environment)
  } catch {
    return nameOf(stream)
  }
}

function checkedNames(root: Component): string[] {
  const check = given(root, 'check')
  const names = isDict(check) ? given(check, 'stream_names') : undefined
  return Array.isArray(names) ? names.map(String) : []
}
