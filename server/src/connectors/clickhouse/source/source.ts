/**
 * The clickhouse source. A read is one SELECT whose rows are streamed; the server reads the parts that the table has when it
 * begins. A whole table is read in any order, so it cannot resume. An incremental read is in cursor order and can resume.
 */
import { type Static, Type } from '../../../schema.ts'
import {
  identity,
  overridable,
  type Page,
  type ReadContext,
  type Reading,
  type Source,
  type SourceContext,
} from '../../contract.ts'
import { readState } from '../../cursor/cursor-state.ts'
import { Client } from '../shared/client.ts'
import { sourceNotes } from '../shared/notes.ts'
import { canonicalPlace, connectionSettings, eitherAddress, resolveTarget } from '../shared/settings.ts'
import { readInteger } from '../shared/values.ts'
import { describeAll } from './describe.ts'
import { planIncremental, type ReadPlan } from './incremental.ts'
import { projectColumns } from './projection.ts'
import { describeStream, listRelations, type Relation, type StreamChoices } from './relation.ts'
import { RowPages } from './row-pages.ts'

const settings = Type.Object(
  {
    ...connectionSettings,
    databases: overridable(
      Type.Array(Type.String(), {
        default: [],
        description: 'List only the tables and views of these databases. Empty: all that the user may see.',
      }),
    ),
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
    final: overridable(
      Type.Boolean({
        default: true,
        description:
          'Read tables of engines that merge rows (ReplacingMergeTree and the like) with FINAL, so that rows which were replaced are not returned.',
      }),
    ),
    binary_columns: overridable(
      Type.Array(Type.String(), {
        default: [],
        description: 'Columns of the types String and FixedString that hold bytes instead of text.',
      }),
    ),
    statement_timeout_seconds: overridable(
      Type.Integer({
        minimum: 0,
        default: 0,
        description: 'The server ends a statement that takes longer. 0: no limit of ours.',
      }),
    ),
  },
  { additionalProperties: false, either: eitherAddress },
)

type Settings = Static<typeof settings>

export const clickhouseSource: Source<typeof settings> = {
  kind: 'source',
  name: 'clickhouse',
  display_name: 'ClickHouse',
  description: 'Tables, views and queries of a ClickHouse server, streamed over its HTTP interface.',
  settings,
  // Of the queries only the one that is read: another stream's is another pipeline's business.
  canonical: ({ queries, ...config }, stream) => ({
    ...canonicalPlace(config),
    queries: Object.hasOwn(queries, stream) ? { [stream]: queries[stream] } : {},
  }),
  checkState: (state) => void readState(state),
  streams: 'dynamic',
  auth_types: ['none'],
  capabilities: { incremental: true, resumable: true, columns: true, encodings: ['tsv', 'ndjson'], ranges: true },
  example_config: {
    name: 'clickhouse',
    stream: 'events',
    config: {
      host: 'abc123.eu-central-1.aws.clickhouse.cloud',
      database: 'analytics',
      user: 'reader',
      password: 'a password',
    },
  },
  notes: sourceNotes,

  async check(context) {
    await explained(openClient(context, true), async (client) => {
      await client.query('SELECT 1', { one: readInteger })
      for (const name of Object.keys(context.config.queries)) await describeStream(client, name, choicesOf(context))
      if (context.stream === null) return
      const { from, columns } = await describeStream(client, context.stream, choicesOf(context))
      const { list } = projectColumns({ from, columns, unreadable: [], primaryKey: [], estimatedRows: null }, {})
      await client.run({ sql: `SELECT ${list.join(', ')} FROM ${from} LIMIT 0`, settings: { readonly: 2 } })
    })
  },

  listStreams: (context) =>
    explained(openClient(context), async (client) => {
      const { databases, queries } = context.config
      return [...Object.keys(queries).sort(), ...(await listRelations(client, databases))]
    }),

  describe: (context, streams) =>
    explained(openClient(context), (client) => describeAll(client, streams, choicesOf(context))),

  read: (context) => {
    const client = openClient(context)
    return explained(client, () => openReading(context, client))
  },
}

function choicesOf({ config }: SourceContext<Settings>): StreamChoices {
  return { queries: config.queries, binaryColumns: config.binary_columns, final: config.final }
}

function openClient({ config, egress, signal }: SourceContext<Settings>, hurry = false): Client {
  return new Client({
    egress,
    signal,
    hurry,
    side: 'source',
    target: resolveTarget(config),
    timeoutSeconds: config.statement_timeout_seconds,
  })
}

async function explained<T>(client: Client, work: (client: Client) => Promise<T>): Promise<T> {
  try {
    return await work(client)
  } catch (error) {
    throw client.explain(error)
  }
}

/** How values are written: as the contract says, with every digit. */
const textSettings = {
  bool_true_representation: 't',
  bool_false_representation: 'f',
  date_time_output_format: 'simple',
  output_format_decimal_trailing_zeros: 0,
  output_format_json_quote_64bit_integers: 0,
  output_format_json_quote_decimals: 0,
  output_format_json_quote_denormals: 1,
  output_format_json_escape_forward_slashes: 0,
  output_format_json_named_tuples_as_objects: 1,
}

async function openReading(context: ReadContext<Settings>, client: Client): Promise<Reading> {
  const { encoding, log, sync, stream } = context
  const relation = await describeStream(client, stream, choicesOf(context))
  if (relation.unreadable.length > 0)
    log.warn(
      `Columns that hold the state of an aggregate function cannot be read, and are left out: ${relation.unreadable.join(', ')}.`,
    )
  const plan = sync.mode === 'incremental' ? planIncremental({ ...context, relation }) : planWhole(context, relation)
  const rows = new RowPages({ encoding, columns: plan.projection.columns, ties: plan.ties })
  const { sql, params } = plan
  return {
    columns: plan.projection.columns,
    resumable: plan.ties !== null,
    pages: guard(context, client, plan, rows.read(client, { sql, params, settings: textSettings })),
  }
}

function planWhole({ columns }: ReadContext<Settings>, relation: Relation): ReadPlan {
  const projection = projectColumns(relation, columns)
  const sql = `SELECT ${projection.list.join(', ')} FROM ${relation.from}`
  return { projection, sql, params: {}, ties: null, reportEnd() {} }
}

async function* guard(
  { signal }: ReadContext<Settings>,
  client: Client,
  plan: ReadPlan,
  pages: AsyncGenerator<Page>,
): AsyncGenerator<Page> {
  try {
    for await (const page of pages) {
      signal.throwIfAborted()
      yield page
    }
    plan.reportEnd()
  } catch (error) {
    throw client.explain(error)
  }
}
