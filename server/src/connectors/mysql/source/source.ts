/**
 * The mysql source. A read is one read-only transaction with one snapshot, and one SELECT whose rows are streamed. A
 * whole table is read in any order, so it cannot resume: a second snapshot would mix two points in time. An incremental
 * read is in cursor order and can resume.
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
import { explainFailure } from '../shared/errors.ts'
import { sourceNotes } from '../shared/notes.ts'
import { describeTarget, openSession, type Session } from '../shared/session.ts'
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
    zero_dates: overridable(
      Type.Union([Type.Literal('null'), Type.Literal('text'), Type.Literal('fail')], {
        default: 'null',
        description:
          'Dates that do not exist (0000-00-00, 2024-02-00): null (counted in a warning), text (columns with dates and times are read as text), fail.',
      }),
    ),
    tinyint1_as_boolean: overridable(
      Type.Boolean({
        default: false,
        description: 'Read TINYINT(1), which is what BOOLEAN means in MySQL, as boolean: 0 is false, all else true.',
      }),
    ),
    statement_timeout_seconds: overridable(
      Type.Integer({
        minimum: 0,
        default: 0,
        description: 'The server ends a statement that takes longer. 0: never.',
      }),
    ),
  },
  { additionalProperties: false, either: eitherAddress },
)

type Settings = Static<typeof settings>

export const mysqlSource: Source<typeof settings> = {
  kind: 'source',
  name: 'mysql',
  display_name: 'MySQL and MariaDB',
  description: 'Tables, views and queries of a MySQL or MariaDB server, streamed in one consistent snapshot.',
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
    name: 'mysql',
    stream: 'orders',
    config: {
      host: 'db.example.com',
      database: 'shop',
      user: 'reader',
      password: 'a password',
      tls: { mode: 'require' },
    },
  },
  notes: sourceNotes,

  async check(context) {
    await withSession(context, async (session) => {
      await session.query('SELECT 1', { one: readInteger })
      for (const name of Object.keys(context.config.queries)) await describeStream(session, name, choicesOf(context))
      if (context.stream === null) return
      // A user may see a table of which it may read only some columns, or none.
      const { from } = await describeStream(session, context.stream, choicesOf(context))
      await session.describe(`SELECT * FROM ${from} AS t LIMIT 0`)
    })
  },

  async listStreams(context) {
    const { databases, queries } = context.config
    const { database } = resolveTarget(context.config)
    const tables = await withSession(context, (session) => listRelations(session, database, databases))
    return [...Object.keys(queries).sort(), ...tables]
  },

  describe: (context, streams) => withSession(context, (session) => describeAll(session, streams, choicesOf(context))),

  read: (context) => openReading(context),
}

function choicesOf({ config }: SourceContext<Settings>): StreamChoices {
  return {
    database: resolveTarget(config).database,
    queries: config.queries,
    types: { zeroDates: config.zero_dates, tinyint1AsBoolean: config.tinyint1_as_boolean },
  }
}

function openSourceSession(context: SourceContext<Settings>): Promise<Session> {
  return openSession(resolveTarget(context.config), {
    egress: context.egress,
    signal: context.signal,
    side: 'source',
    program: 'sluice source',
    statementTimeoutSeconds: context.config.statement_timeout_seconds,
  })
}

async function withSession<T>(context: SourceContext<Settings>, work: (session: Session) => Promise<T>): Promise<T> {
  const session = await openSourceSession(context)
  try {
    return await work(session)
  } catch (error) {
    throw explain(context, error)
  } finally {
    await session.close()
  }
}

function explain(context: SourceContext<Settings>, error: unknown): unknown {
  if (context.signal.aborted) return context.signal.reason
  return explainFailure(error, 'source', describeTarget(resolveTarget(context.config)))
}

async function openReading(context: ReadContext<Settings>): Promise<Reading> {
  const { encoding, config, log } = context
  const session = await openSourceSession(context)
  try {
    await session.run('START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY')
    const relation = await describeStream(session, context.stream, choicesOf(context))
    if (relation.engine !== null && relation.engine !== 'InnoDB')
      log.warn(
        `${context.stream} is a table of the engine ${relation.engine}, which has no snapshots: rows that change while it is read may be missing or mixed.`,
      )
    const plan =
      context.sync.mode === 'incremental' ? planIncremental({ ...context, relation }) : planWhole(context, relation)
    const rows = new RowPages(session, {
      encoding,
      fields: plan.projection.fields,
      zeroDates: config.zero_dates,
      ties: plan.ties,
    })
    const atEnd = (): void => {
      plan.reportEnd()
      for (const { column, count } of rows.missingDates)
        log.warn(
          `${count} values of ${column} are dates that do not exist (0000-00-00 and the like); they were read as null.`,
        )
    }
    return {
      columns: plan.projection.columns,
      resumable: plan.ties !== null,
      pages: guard(context, session, rows.read(plan.sql), atEnd),
    }
  } catch (error) {
    session.destroy()
    throw explain(context, error)
  }
}

function planWhole({ columns }: ReadContext<Settings>, relation: Relation): ReadPlan {
  const projection = projectColumns(relation, columns)
  const sql = `SELECT ${projection.list.join(', ')} FROM ${relation.from} AS t`
  return { projection, sql, ties: null, reportEnd() {} }
}

/** Closes the session with the pages: gracefully after the last one, at once if the reader left or something failed. */
async function* guard(
  context: ReadContext<Settings>,
  session: Session,
  pages: AsyncGenerator<Page>,
  atEnd: () => void,
): AsyncGenerator<Page> {
  let whole = false
  try {
    for await (const page of pages) {
      context.signal.throwIfAborted()
      yield page
    }
    whole = true
    atEnd()
  } catch (error) {
    throw explain(context, error)
  } finally {
    if (whole) await session.close()
    else session.destroy()
  }
}
