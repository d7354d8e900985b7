import {
  ConnectorError,
  type Page,
  type ReadContext,
  type ReadRange,
  type Source,
  type SourceContext,
  type StreamDescription,
} from '../contract.ts'
import { inferColumns } from '../formats/head.ts'
import { checkStream, checkStreamState, openReading, sampleRecords } from '../http/read-stream.ts'
import type { Fields } from '../http/scope.ts'
import { canonicalRestApi } from './canonical.ts'
import { compilePlan, type RestApiPlan } from './compile.ts'
import { exampleConfig, notes } from './notes.ts'
import { type RestApiSettings, settings } from './settings.ts'

/** How many records a description looks at. */
const SAMPLE = 200

export const restApiSource: Source<typeof settings> = {
  kind: 'source',
  name: 'rest_api',
  display_name: 'REST API',
  description:
    'Any HTTP API that answers with JSON, described by settings in the shape of the REST API source of dlt: paths, pages, parents and children, incremental reads.',
  streams: 'dynamic',
  auth_types: ['api_key', 'bearer', 'basic', 'oauth2_client_credentials', 'oauth2_refresh_token'],
  settings,
  canonical: canonicalRestApi,
  capabilities: {
    incremental: true,
    own_cursor: true,
    resumable: true,
    columns: false,
    encodings: ['ndjson'],
    ranges: true,
  },
  example_config: exampleConfig,
  notes,

  async check(context) {
    const plan = openPlan(context)
    await checkStream(plan, context.stream ?? firstStream(plan), context)
  },

  async listStreams(context) {
    return openPlan(context).streams.map(({ name }) => name)
  },

  async describe(context, streams) {
    const plan = openPlan(context)
    const found: StreamDescription[] = []
    for (const stream of streams) found.push(await describeStream(plan, stream, context))
    return found
  },

  checkState: checkStreamState,
  checkRange: requireBounds,

  async read(context) {
    return openReading(openPlan(context), context.stream, context)
  },
}

/** They become parts of requests, also of paths: only what times, numbers and ids are made of. */
const BOUND = /^[\w.:+ -]{1,200}$/

function requireBounds({ from, to }: ReadRange): void {
  for (const bound of [from, to]) {
    const possible = typeof bound === 'number' ? Number.isFinite(bound) : BOUND.test(bound) && !bound.includes('..')
    if (!possible)
      throw new ConnectorError(
        'config',
        'A range of rest_api has numbers, or texts such as 2024-01-31T00:00:00Z: up to 200 letters, digits, spaces and _ . : + - without two dots in a row.',
      )
  }
}

/** One authentication only: the client's, or that of the source. */
function openPlan(context: SourceContext<RestApiSettings> & Partial<Pick<ReadContext, 'sync'>>): RestApiPlan {
  const { config, authentication, sync } = context
  if (config.client.auth !== undefined && authentication.type !== 'none')
    throw new ConnectorError('config', 'There are two authentications: give either client.auth or authentication.')
  return compilePlan(config, sync?.lookback_seconds ?? 0)
}

/** A stream without parents: its check asks for one page only. */
const firstStream = (plan: RestApiPlan): string =>
  (plan.streams.find(({ name }) => plan.resources.get(name)!.parent === null) ?? plan.streams[0]!).name

async function describeStream(
  plan: RestApiPlan,
  stream: string,
  context: SourceContext<RestApiSettings>,
): Promise<StreamDescription> {
  const records = await sampleRecords(plan, stream, context, SAMPLE)
  const { columns } = await inferColumns(asPages(records))
  const names = new Set(columns?.map(({ name }) => name))
  const { primaryKey, choose } = plan.streams.find(({ name }) => name === stream)!
  const cursor = choose(null).cursor?.field ?? []
  return {
    stream,
    columns: records.length === 0 ? null : columns,
    primary_key: primaryKey.filter((name) => names.size === 0 || names.has(name)),
    cursor_fields: cursor.length === 1 && (names.size === 0 || names.has(cursor[0]!)) ? [...cursor] : [],
    estimated_rows: null,
  }
}

async function* asPages(records: readonly Fields[]): AsyncGenerator<Page> {
  const bytes = Buffer.from(records.map((record) => `${JSON.stringify(record)}\n`).join(''))
  yield { bytes, records: records.length }
}
