/** What the source `manifest` does: a manifest with its settings is compiled to a plan, and the plan is read. */

import type { Json } from '../../json/json.ts'
import {
  ConnectorError,
  type ReadContext,
  type Reading,
  type SourceContext,
  type StreamDescription,
} from '../contract.ts'
import { inferColumns } from '../formats/head.ts'
import type { Plan } from '../http/plan.ts'
import { checkStream, openReading, sampleRecords } from '../http/read-stream.ts'
import type { Fields } from '../http/scope.ts'
import { compileBareRetriever } from './compile/retriever.ts'
import type { CompiledStream } from './compile/stream.ts'
import { component, type Dict, isDict } from './component.ts'
import { type BoundManifest, bindManifest, loadManifest, RESOLVER } from './manifest.ts'
import { ManifestError } from './problems.ts'
import { columnsOf } from './schema/columns.ts'
import { compileSchemaLoader } from './schema/dynamic.ts'
import { schemaFault } from './schema/validate.ts'
import { TemplateError } from './template/values.ts'

/** How many records a description looks at where no schema tells. */
const SAMPLE = 200
const MOST_COMPONENTS = 5000
const NEWLINE = 0x0a

type Context = SourceContext<object>

/** A read of a manifest with its settings; the inline source and saved manifests differ in where these come from. */
export interface Opened {
  manifest: string
  settings: Record<string, Json>
  /** Where the settings are in the source's `config`. */
  root: readonly string[]
}

export async function check(opened: Opened, context: Context & { stream: string | null }): Promise<void> {
  const manifest = await bind(opened, context)
  for (const stream of checkedStreams(manifest, context.stream)) {
    requireStream(manifest, stream)
    await checkStream(manifest.plan, stream, context)
  }
}

export async function listStreams(opened: Opened, context: Context): Promise<string[]> {
  const { plan } = await bind(opened, context)
  return plan.streams.map(({ name }) => name)
}

export async function describe(
  opened: Opened,
  context: Context,
  streams: readonly string[],
): Promise<StreamDescription[]> {
  const manifest = await bind(opened, context)
  const found: StreamDescription[] = []
  for (const stream of streams) found.push(await describeStream(manifest, requireStream(manifest, stream), context))
  return found
}

export async function read(opened: Opened, context: ReadContext<never>): Promise<Reading> {
  const manifest = await bind(opened, context)
  requireStream(manifest, context.stream)
  return openReading(manifest.plan, context.stream, context)
}

async function bind({ manifest: text, settings: given, root }: Opened, context: Context): Promise<BoundManifest> {
  try {
    const manifest = loadManifest(text)
    const config = withDefaults(manifest.settings, structuredClone(given))
    const fault = schemaFault(manifest.settings, config)
    if (fault !== null) throw new ConnectorError('config', `The settings do not fit the manifest: ${fault}.`)
    return await bindManifest(manifest, config, (plan) => readAll(plan, context), { settings: given, root })
  } catch (error) {
    if (error instanceof ManifestError || error instanceof TemplateError)
      throw new ConnectorError('config', `The manifest cannot be used: ${error.message}.`)
    throw error
  }
}

/** Airbyte's form fills in the defaults of the schema, so manifests rely on them. */
function withDefaults(schema: Dict, config: Fields, depth = 0): Fields {
  if (!isDict(schema.properties) || depth > 10) return config
  for (const [name, property] of Object.entries(schema.properties)) {
    if (!isDict(property)) continue
    const value = config[name]
    if (value === undefined && property.default !== undefined) config[name] = structuredClone(property.default)
    else if (isDict(value)) withDefaults(property, value as Fields, depth + 1)
  }
  return config
}

/** Those by which the manifest wants to be tested, as far as they run; otherwise its first stream. */
function checkedStreams({ plan, check }: BoundManifest, wanted: string | null): string[] {
  if (wanted !== null) return [wanted]
  const named = check.filter((name) => plan.streams.some((stream) => stream.name === name))
  if (named.length > 0) return named
  const [first] = plan.streams
  if (first === undefined) throw new ConnectorError('config', 'The manifest has no stream that can run.')
  return [first.name]
}

function requireStream({ plan, refused }: BoundManifest, stream: string): CompiledStream {
  const found = plan.streams.find(({ name }) => name === stream)
  if (found !== undefined) return found
  const reason = refused.get(stream)
  if (reason !== undefined)
    throw new ConnectorError('config', `The stream '${stream.slice(0, 100)}' cannot run: ${reason}.`)
  const names = plan.streams.slice(0, 20).map(({ name }) => name)
  throw new ConnectorError(
    'config',
    `The manifest has no stream '${stream.slice(0, 100)}'; it has ${names.join(', ')}.`,
  )
}

async function describeStream(
  manifest: BoundManifest,
  stream: CompiledStream,
  context: Context,
): Promise<StreamDescription> {
  const columns =
    (await describedColumns(manifest, stream, context)) ?? (await sampledColumns(manifest.plan, stream.name, context))
  const cursor = stream.choose(null).cursor?.field ?? []
  return {
    stream: stream.name,
    columns,
    primary_key: [...stream.primaryKey],
    cursor_fields: cursor.length === 1 ? [...cursor] : [],
    estimated_rows: null,
  }
}

async function describedColumns(
  { plan, environment }: BoundManifest,
  stream: CompiledStream,
  context: Context,
): Promise<StreamDescription['columns']> {
  const [loader] = stream.schemaLoaders
  if (loader === undefined) return stream.columns === null ? null : [...stream.columns]
  const read = compileBareRetriever(component(loader, 'retriever'), environment)
  const asked = { ...plan, streams: [{ name: RESOLVER, primaryKey: [], columns: null, choose: () => read }] }
  const [record] = await sampleRecords(asked, RESOLVER, context, 1)
  return columnsOf(compileSchemaLoader(loader, environment)(record))
}

async function sampledColumns(plan: Plan, stream: string, context: Context): Promise<StreamDescription['columns']> {
  const records = await sampleRecords(plan, stream, context, SAMPLE)
  if (records.length === 0) return null
  const bytes = Buffer.from(records.map((record) => `${JSON.stringify(record)}\n`).join(''))
  return (await inferColumns(onePage(bytes, records.length))).columns
}

async function* onePage(bytes: Buffer, records: number): AsyncGenerator<{ bytes: Buffer; records: number }> {
  yield { bytes, records }
}

/** All records of the only stream of a plan: the components of dynamic streams. */
async function readAll(plan: Plan, context: Context): Promise<Fields[]> {
  const sync = { mode: 'full_refresh', cursor_field: null } as ReadContext['sync']
  const { pages } = await openReading(plan, RESOLVER, { ...context, sync, state: null, resume: null })
  const records: Fields[] = []
  for await (const { bytes } of pages) {
    for (let start = 0; start < bytes.length; ) {
      const end = bytes.indexOf(NEWLINE, start)
      records.push(JSON.parse(bytes.toString('utf8', start, end === -1 ? bytes.length : end)))
      start = end === -1 ? bytes.length : end + 1
    }
    if (records.length > MOST_COMPONENTS)
      throw new ConnectorError('config', `the API gives more than ${MOST_COMPONENTS} streams`)
  }
  return records
}
