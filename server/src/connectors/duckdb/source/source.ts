/**
 * The duckdb source. A read copies the file to the worker and streams one SELECT, of which each row is a line of JSON. A
 * whole table is read in any order, so it cannot resume; an incremental read is in cursor order and can.
 */
import type { DuckDBConnection, DuckDBDataChunk } from '@duckdb/node-api'
import { Type } from '../../../schema.ts'
import {
  identity,
  overridable,
  type Page,
  type ReadContext,
  type Reading,
  type Source,
  type SourceContext,
  type StreamDescription,
} from '../../contract.ts'
import { readState } from '../../cursor/cursor-state.ts'
import { checkFile, fetchFile } from '../../database-file/fetch-file.ts'
import { type CursorPlan, planIncremental } from '../../database-file/incremental.ts'
import { describeRelation, type Relation } from '../../database-file/relation.ts'
import {
  AUTH_TYPES,
  canonicalPlace,
  eitherPlace,
  outputsOf,
  type PlaceSettings,
  placeSettings,
} from '../../database-file/settings.ts'
import { quoteName, quoteText } from '../../duckdb.ts'
import { attachFile, checkHead, explainDuckdb } from '../database.ts'
import { sourceNotes } from '../notes.ts'
import { duckdbCursors } from './cursor.ts'
import { cutRanges } from './ranges.ts'
import { describeStream, listStreams, type Queries } from './relations.ts'
import { fieldOf } from './types.ts'

const PAGE_CHARACTERS = 128 * 1024

const settings = Type.Object(
  {
    ...placeSettings,
    queries: identity(
      overridable(
        Type.Unsafe<Record<string, string>>(
          Type.Object(
            {},
            {
              additionalProperties: Type.String({ minLength: 1, contentMediaType: 'application/sql' }),
              default: {},
              description: 'Additional streams: a name and the SELECT that returns its rows.',
            },
          ),
        ),
      ),
    ),
  },
  { additionalProperties: false, either: eitherPlace },
)

type Settings = PlaceSettings & { queries: Queries }

export const duckdbSource: Source<typeof settings> = {
  kind: 'source',
  name: 'duckdb',
  display_name: 'DuckDB',
  description:
    'Tables, views and queries of a DuckDB database file, from the web or from the output of an earlier run.',
  streams: 'dynamic',
  auth_types: AUTH_TYPES,
  settings,
  // Of the queries only the one that is read: another stream's is another pipeline's business.
  canonical: ({ queries, ...config }, stream) => ({
    ...canonicalPlace(config),
    queries: Object.hasOwn(queries, stream) ? { [stream]: queries[stream] } : {},
  }),
  checkState: (state) => void readState(state),
  capabilities: { incremental: true, resumable: true, columns: false, encodings: ['ndjson'], ranges: true },
  example_config: {
    name: 'duckdb',
    stream: 'orders',
    authentication: { type: 'none', params: {} },
    config: { url: 'https://example.com/shop.duckdb' },
  },
  notes: sourceNotes,

  async check(context) {
    const { stream, config } = context
    if (stream === null && Object.keys(config.queries).length === 0) return checkFile(context, checkHead)
    await withDatabase(context, async (connection) => {
      for (const name of Object.keys(config.queries)) await describeStream(connection, name, config.queries)
      if (stream !== null) await describeStream(connection, stream, config.queries)
    })
  },

  listStreams: (context) => withDatabase(context, (connection) => listStreams(connection, context.config.queries)),

  describe: (context, streams) =>
    withDatabase(context, async (connection) => {
      const described: StreamDescription[] = []
      for (const stream of streams)
        described.push(describeRelation(await describeStream(connection, stream, context.config.queries)))
      return described
    }),

  outputs: outputsOf,

  read: openReading,
}

interface OpenDatabase {
  connection: DuckDBConnection
  close(): Promise<void>
}

async function openDatabase(context: SourceContext<Settings>): Promise<OpenDatabase> {
  const file = await fetchFile(context, checkHead)
  try {
    const engine = await attachFile({ ...file, signal: context.signal, readOnly: true })
    const close = (): Promise<void> => {
      engine.close()
      return file.remove()
    }
    return { connection: engine.connection, close }
  } catch (error) {
    await file.remove()
    throw error
  }
}

async function withDatabase<T>(
  context: SourceContext<Settings>,
  work: (connection: DuckDBConnection) => Promise<T>,
): Promise<T> {
  try {
    const { connection, close } = await openDatabase(context)
    try {
      return await work(connection)
    } finally {
      await close()
    }
  } catch (error) {
    throw explain(error, context)
  }
}

function explain(error: unknown, { signal }: SourceContext<Settings>, stream?: string): unknown {
  if (signal.aborted) return signal.reason
  return explainDuckdb(error, 'source', stream === undefined ? 'The file cannot be read' : `${stream} cannot be read`)
}

async function openReading(context: ReadContext<Settings>): Promise<Reading> {
  const { stream, config, sync } = context
  let close = async (): Promise<void> => {}
  try {
    const opened = await openDatabase(context)
    close = opened.close
    const relation = await describeStream(opened.connection, stream, config.queries)
    const plan = sync.mode === 'incremental' ? planIncremental(context, relation, duckdbCursors) : null
    return { columns: relation.columns, resumable: plan !== null, pages: readPages(context, opened, relation, plan) }
  } catch (error) {
    await close()
    throw explain(error, context, stream)
  }
}

/** With `||` every part of the line would be a string of its own, and a chunk of rows take several times the memory. */
function lineOf(columns: Relation['columns']): string {
  const fields = columns.map(({ name, native }) => {
    const { json } = fieldOf(`t.${quoteName(name)}`, native!.type)
    return `${quoteText(`${JSON.stringify(name)}:`)}, coalesce(${json}, 'null')`
  })
  return fields.length === 0 ? "'{}'" : `concat('{', ${fields.join(", ',', ")}, '}')`
}

async function* readPages(
  context: ReadContext<Settings>,
  { connection, close }: OpenDatabase,
  relation: Relation,
  plan: CursorPlan | null,
): AsyncGenerator<Page> {
  let text = ''
  let records = 0
  const takePage = (): Page => {
    const page = { bytes: Buffer.from(text), records, ...(plan ? { cursor: plan.ties.state() } : {}) }
    text = ''
    records = 0
    return page
  }
  try {
    const list = [lineOf(relation.columns), ...(plan?.hidden ?? [])].join(', ')
    const selects = plan ? await cutRanges(connection, relation, plan) : [`FROM ${relation.from} AS t`]
    for await (const chunk of streamChunks(
      connection,
      selects.map((rest) => `SELECT ${list} ${rest}`),
      context.signal,
    )) {
      const [lines, cursors, rows] = [0, 1, 2].map((at) => (at === 0 || plan ? chunk.getColumnValues(at) : []))
      for (let at = 0; at < chunk.rowCount; at += 1) {
        if (plan && !plan.ties.admit(cursorText(cursors![at]), String(rows![at]))) continue
        text += `${lines![at]}\n`
        records += 1
        if (text.length >= PAGE_CHARACTERS) yield takePage()
      }
    }
    if (records > 0) yield takePage()
    plan?.reportEnd()
  } catch (error) {
    throw explain(error, context, relation.stream)
  } finally {
    await close()
  }
}

async function* streamChunks(
  connection: DuckDBConnection,
  queries: readonly string[],
  signal: AbortSignal,
): AsyncGenerator<DuckDBDataChunk> {
  for (const query of queries) {
    signal.throwIfAborted()
    const result = await connection.stream(query)
    while (true) {
      signal.throwIfAborted()
      const chunk = await result.fetchChunk()
      if (!chunk || chunk.rowCount === 0) break
      yield chunk
    }
  }
}

const cursorText = (value: unknown): string => (value === null ? '' : `=${String(value)}`)
