/**
 * The postgres source. A read is one read-only transaction with one snapshot; rows leave the server by COPY. A whole
 * table is read in any order, by several sessions if it is large, so it cannot resume: a second snapshot would mix two
 * points in time. An incremental read is in cursor order and can resume.
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
import { describeTarget, inTransaction, openSession, type Session } from '../shared/session.ts'
import { canonicalPlace, connectionSettings, eitherAddress, resolveTarget } from '../shared/settings.ts'
import { type CopyOptions, copyOut, type Rows } from './copy-out.ts'
import { describeAll } from './describe.ts'
import { findCursor, isText, planIncremental } from './incremental.ts'
import { reportMissing } from './missing-values.ts'
import { mayOfferNative } from './native.ts'
import { type Bound, waitForWriters } from './older-writers.ts'
import { buildCopy, type Projection, projectColumns, type RowForm } from './projection.ts'
import { exportSnapshot, readRanges, worthSplitting } from './ranges.ts'
import { describeStream, listRelations, type Relation, requireReadable } from './relation.ts'

const settings = Type.Object(
  {
    ...connectionSettings,
    schemas: overridable(
      Type.Array(Type.String(), {
        default: [],
        description: 'List only the tables and views of these schemas. Empty: all schemas.',
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
    statement_timeout_seconds: overridable(
      Type.Integer({
        minimum: 0,
        default: 0,
        description: 'The server ends a statement that takes longer. 0: never.',
      }),
    ),
    parallel: overridable(
      Type.Integer({
        minimum: 1,
        maximum: 8,
        default: 2,
        description: 'How many sessions read a large table at once in a full refresh.',
      }),
    ),
    wait_for_writers_seconds: overridable(
      Type.Integer({
        minimum: 0,
        maximum: 3600,
        default: 60,
        description:
          'How long an incremental read waits for transactions that have written to the stream and not ended, so that rows which they commit late are not lost. 0: not at all.',
      }),
    ),
  },
  { additionalProperties: false, either: eitherAddress },
)

type Settings = Static<typeof settings>

export const postgresSource: Source<typeof settings> = {
  kind: 'source',
  name: 'postgres',
  display_name: 'PostgreSQL',
  description: 'Tables, views and queries of a PostgreSQL database, read by COPY in one consistent snapshot.',
  settings,
  // Of the queries only the one that is read: another stream's is another pipeline's business.
  canonical: ({ queries, ...config }, stream) => ({
    ...canonicalPlace(config),
    queries: Object.hasOwn(queries, stream) ? { [stream]: queries[stream] } : {},
  }),
  checkState: (state) => void readState(state),
  streams: 'dynamic',
  auth_types: ['none'],
  capabilities: {
    incremental: true,
    resumable: true,
    columns: true,
    encodings: ['tsv', 'ndjson'],
    native: 'pgcopy',
    ranges: true,
  },
  example_config: {
    name: 'postgres',
    stream: 'public.orders',
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
    const { stream, config } = context
    await withSession(context, async (session) => {
      await inTransaction(session, async () => {
        await session.query('SELECT 1')
        for (const name of Object.keys(config.queries)) await describeStream(session, name, config.queries)
        if (stream !== null)
          await requireReadable(session, stream, await describeStream(session, stream, config.queries))
      })
    })
  },

  async listStreams(context) {
    const tables = await withSession(context, (session) =>
      inTransaction(session, () => listRelations(session, context.config.schemas)),
    )
    return [...Object.keys(context.config.queries).sort(), ...tables]
  },

  describe: (context, streams) =>
    withSession(context, (session) => describeAll(session, streams, context.config.queries)),

  read: (context) => openReading(context),
}

function openSourceSession(context: SourceContext<Settings>): Promise<Session> {
  return openSession(resolveTarget(context.config), {
    egress: context.egress,
    signal: context.signal,
    side: 'source',
    application: 'sluice source',
    readOnly: true,
    statementTimeoutSeconds: context.config.statement_timeout_seconds,
    // The snapshot may have to wait for a slow destination; a dead machine is noticed by keep-alive.
    idleInTransactionSeconds: 0,
    keepSearchPath: Object.keys(context.config.queries).length > 0,
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
  const session = await openSourceSession(context)
  try {
    const bound = followsState(context) ? await prepareIncremental(context, session) : undefined
    await session.begin({ repeatable: true })
    const relation = await describeStream(session, context.stream, context.config.queries)
    return context.sync.mode === 'incremental'
      ? await openIncremental(context, session, relation, bound)
      : await openWhole(context, session, relation)
  } catch (error) {
    session.destroy()
    throw explain(context, error)
  }
}

/** A back-fill moves no cursor, so no later run misses what is committed after its snapshot. */
const followsState = ({ sync, range }: ReadContext<Settings>): boolean => sync.mode === 'incremental' && !range

async function openIncremental(
  context: ReadContext<Settings>,
  session: Session,
  relation: Relation,
  bound: Bound,
): Promise<Reading> {
  const plan = planIncremental({ ...context, relation, bound })
  const { projection } = plan
  const both = await offersNative(context, session, relation, projection)
  const read = (form: RowForm) => {
    const rows = copyOut(session, plan.buildSql(form), copyOptions(form, projection, plan.hidden))
    return guard(context, [session], plan.pages(form, rows))
  }
  return {
    columns: projection.columns,
    resumable: true,
    pages: read(context.encoding),
    ...(both ? { native: read('pgcopy') } : {}),
  }
}

async function openWhole(context: ReadContext<Settings>, session: Session, relation: Relation): Promise<Reading> {
  const projection = projectColumns(relation, context.columns)
  const both = await offersNative(context, session, relation, projection)
  const sessions = await openMore(context, session, relation)
  const read = (form: RowForm) => {
    const buildSql = (where: string) => buildCopy({ form, relation, projection, tail: where })
    const options = copyOptions(form, projection)
    const rows =
      sessions.length > 1
        ? readRanges(sessions, relation.blocks, buildSql, options)
        : copyOut(session, buildSql(''), options)
    return guard(context, sessions, asPages(rows))
  }
  return {
    columns: projection.columns,
    resumable: false,
    pages: read(context.encoding),
    ...(both ? { native: read('pgcopy') } : {}),
  }
}

async function offersNative(
  { native }: ReadContext<Settings>,
  session: Session,
  relation: Relation,
  projection: Projection,
): Promise<boolean> {
  return native === true && mayOfferNative(session, relation, projection)
}

function copyOptions(form: RowForm, { columns }: Projection, hidden = 0): CopyOptions {
  return form === 'pgcopy' ? { fields: columns.length + hidden } : {}
}

/** Before the snapshot is taken: decides how far to read, and warns about rows that no run will read. */
async function prepareIncremental(context: ReadContext<Settings>, session: Session): Promise<Bound> {
  const { stream, config, sync, signal, log } = context
  const relation = await inTransaction(session, () => describeStream(session, stream, config.queries))
  const cursor = findCursor(relation, sync)
  const state = readState(context.resume) ?? readState(context.state)
  if (state !== null) await reportMissing(session, relation, cursor, { state, log })
  if (isText(cursor)) {
    log.warn(
      `config.sync.cursor_field ${cursor.name} is text: 10 sorts before 9, and the order depends on the collation. Rows that sort before the last one read are not read; choose a number or a time.`,
    )
    return undefined
  }
  return waitForWriters(session, relation, cursor, { signal, log, seconds: config.wait_for_writers_seconds })
}

/** The session alone, or with others under its snapshot if the table is large enough to make that worthwhile. */
async function openMore(context: ReadContext<Settings>, first: Session, relation: Relation): Promise<Session[]> {
  const wanted = context.config.parallel
  if (wanted === 1 || !worthSplitting(relation.blocks)) return [first]
  const snapshot = await exportSnapshot(first)
  if (snapshot === null) return [first]
  const sessions = [first]
  try {
    while (sessions.length < wanted) {
      const session = await openSourceSession(context)
      sessions.push(session)
      await session.begin({ snapshot })
    }
  } catch (error) {
    // One session can read it all: a server with few connections left is no reason to fail.
    context.signal.throwIfAborted()
    for (const session of sessions.splice(1)) session.destroy()
    context.log.debug(`The table is read by one session, because no other could be opened: ${(error as Error).message}`)
  }
  return sessions
}

async function* asPages(rows: AsyncIterable<Rows>): AsyncGenerator<Page> {
  for await (const { bytes, count, release } of rows) yield { bytes, records: count, release }
}

/**
 * Closes the sessions with the pages: gracefully after the last one, at once if the reader left or something failed.
 */
async function* guard(
  context: ReadContext<Settings>,
  sessions: readonly Session[],
  pages: AsyncGenerator<Page>,
): AsyncGenerator<Page> {
  let whole = false
  try {
    for await (const page of pages) {
      context.signal.throwIfAborted()
      yield page
    }
    whole = true
  } catch (error) {
    throw explain(context, error)
  } finally {
    if (whole) await Promise.all(sessions.map((session) => session.close()))
    else for (const session of sessions) session.destroy()
  }
}
