/** The postgres destination: settings, checks and the way into a load (load.ts has the protocol). */
import { type Static, Type } from '../../../schema.ts'
import {
  ConnectorError,
  type Context,
  type Destination,
  type FenceContext,
  identity,
  type Load,
  type LoadContext,
  overridable,
} from '../../contract.ts'
import { makeSafe, postgresNames } from '../../types/names.ts'
import { explainFailure } from '../shared/errors.ts'
import { formatStream, quoteName, splitStream, type TableName } from '../shared/names.ts'
import { destinationNotes } from '../shared/notes.ts'
import { describeTarget, inTransaction, openSession, type Session } from '../shared/session.ts'
import { canonicalPlace, connectionSettings, eitherAddress, resolveTarget } from '../shared/settings.ts'
import { orNull, readBoolean, readText } from '../shared/values.ts'
import { openLoad } from './load.ts'
import { applicationOf, fence, type MarkOwner } from './marks.ts'
import { ensureMarks } from './marks-table.ts'
import { previewLoad } from './preview.ts'

const settings = Type.Object(
  {
    ...connectionSettings,
    schema: identity(
      overridable(
        Type.String({
          minLength: 1,
          default: 'public',
          description: 'Schema of the table; created if it is missing.',
        }),
      ),
    ),
    table: Type.Optional(
      identity(
        overridable(
          Type.String({ minLength: 1, description: 'Name of the table. Default: the last part of the stream.' }),
        ),
      ),
    ),
    statement_timeout_seconds: overridable(
      Type.Integer({
        minimum: 0,
        default: 3600,
        description:
          'The server cancels a statement, and with it the load of a checkpoint, that takes longer. 0: never.',
      }),
    ),
  },
  { additionalProperties: false, either: eitherAddress },
)

type Settings = Static<typeof settings>

export const postgresDestination: Destination<typeof settings> = {
  kind: 'destination',
  name: 'postgres',
  display_name: 'PostgreSQL',
  description: 'A table in a PostgreSQL database, loaded by COPY, exactly once.',
  settings,
  canonical: (config, stream) => ({
    ...canonicalPlace(config),
    schema: config.schema,
    table: tableOf(config, stream),
  }),
  capabilities: {
    write: ['append', 'replace', 'upsert'],
    encodings: ['tsv', 'ndjson'],
    native: 'pgcopy',
    commits: 'mark',
    quarantine: true,
  },
  example_config: {
    name: 'postgres',
    config: {
      host: 'db.example.com',
      database: 'warehouse',
      user: 'loader',
      password: 'a password',
      tls: { mode: 'require' },
      schema: 'public',
      table: 'orders',
    },
  },
  notes: destinationNotes,

  async check(context) {
    await withSession(context, 'sluice check', (session) =>
      inTransaction(session, async () => {
        await checkRights(session, context.config)
        const table = tableOf(context.config, context.stream)
        if (table !== null) await requireWritable(session, { schema: context.config.schema, table })
      }),
    )
  },

  async fence(context) {
    const owner = ownerOf(context)
    await context.fault('postgres.fence.before')
    const mark = await withSession(context, applicationOf(owner), async (session) => {
      await ensureMarks(session, owner.schema)
      return fence(session, owner)
    })
    await context.fault('postgres.fence.after')
    if (mark === null) return null
    const { run_id, seq, attempt, checkpoint, cursor, published, installation } = mark
    if (installation !== null && installation !== context.installation)
      context.log.warn(
        `${owner.schema} was last loaded by installation ${installation}, and this is ${context.installation}. That is expected once after a restore; if both are running, only one of them may have this pipeline enabled.`,
      )
    return { run_id, seq, attempt, checkpoint, cursor, published }
  },

  async preview(context) {
    const target = { schema: context.config.schema, table: tableOf(context.config, context.stream) }
    return explained(context, async () => {
      const session = await open(context, 'sluice preview', { readOnly: true })
      try {
        return await inTransaction(session, () =>
          previewLoad(session, context, target, async () => {
            await checkRights(session, context.config, { readOnly: true })
            await requireWritable(session, target)
          }),
        )
      } finally {
        await session.close()
      }
    })
  },

  async open(context) {
    const owner = ownerOf(context)
    const table = tableOf(context.config, context.stream)
    return explained(context, async () => {
      const load = await openLoad({
        context: context as LoadContext,
        owner,
        target: { schema: owner.schema, table },
        openSession: (signal) => open({ ...context, signal }, applicationOf(owner)),
      })
      return explainLoad(context, load)
    })
  },
}

function tableOf(config: Settings, stream: string): string
/** Null if neither the settings nor a stream name the table. */
function tableOf(config: Settings, stream: string | null): string | null
function tableOf({ table }: Settings, stream: string | null): string | null {
  if (table !== undefined || stream === null) return table ?? null
  return makeSafe(splitStream(stream).at(-1) ?? stream, postgresNames)
}

function ownerOf({
  config,
  pipeline_id,
  run_id,
  seq,
  attempt,
  token,
  installation,
}: FenceContext<Settings> | LoadContext<Settings>): MarkOwner {
  return { schema: config.schema, pipeline_id, run_id, seq, attempt, token, installation }
}

function open(context: Context<Settings>, application: string, options: { readOnly?: boolean } = {}): Promise<Session> {
  return openSession(resolveTarget(context.config), {
    egress: context.egress,
    signal: context.signal,
    side: 'destination',
    application,
    statementTimeoutSeconds: context.config.statement_timeout_seconds,
    ...options,
  })
}

async function explained<T>(context: Context<Settings>, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    context.signal.throwIfAborted()
    throw explainFailure(error, 'destination', describeTarget(resolveTarget(context.config)))
  }
}

function explainLoad(context: Context<Settings>, load: Load): Load {
  return {
    native: load.native === true,
    write: (page) => explained(context, () => load.write(page)),
    commit: (checkpoint, cursor) => explained(context, () => load.commit(checkpoint, cursor)),
    publish: (checkpoint, cursor) => explained(context, () => load.publish(checkpoint, cursor)),
    abort: () => load.abort(),
  }
}

function withSession<T>(
  context: Context<Settings>,
  application: string,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  return explained(context, async () => {
    const session = await open(context, application)
    try {
      return await work(session)
    } finally {
      await session.close()
    }
  })
}

/** `readOnly`: this transaction is, so what it says about the server is not asked. */
async function checkRights(session: Session, config: Settings, { readOnly = false } = {}): Promise<void> {
  const schema = config.schema
  const [row] = await session.query(
    `SELECT to_regnamespace($1) IS NOT NULL AS found,
            coalesce(has_schema_privilege(to_regnamespace($1)::oid, 'CREATE'), false) AS may_create,
            has_database_privilege(current_database(), 'CREATE') AS may_create_schema, CASE WHEN ${readOnly} THEN CASE WHEN pg_is_in_recovery() THEN 'on' END
                 ELSE current_setting('transaction_read_only') END AS read_only`,
    [quoteName(schema)],
    { found: readBoolean, may_create: readBoolean, may_create_schema: readBoolean, read_only: orNull(readText) },
  )
  if (row?.read_only === 'on') {
    throw new ConnectorError(
      'config',
      'The server does not accept writes: it is a standby or set to read-only; give the address of the primary',
    )
  }
  if (row?.found ? !row.may_create : !row?.may_create_schema) {
    throw new ConnectorError(
      'auth',
      row?.found
        ? `The role may not create tables in the schema ${schema}; grant it CREATE and USAGE on it`
        : `There is no schema ${schema} and the role may not create it; create it, or grant CREATE on the database`,
    )
  }
}

/** A table that is not there yet will be created; one that is there has to take rows from this role. */
async function requireWritable(session: Session, name: TableName): Promise<void> {
  const [row] = await session.query(
    `SELECT c.relkind IN ('r', 'p', 'f', 'v') AS is_table,
            CASE WHEN c.relkind IN ('r', 'p', 'f', 'v') THEN has_table_privilege(c.oid, 'INSERT') ELSE false END AS may_insert
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relname = $2`,
    [name.schema, name.table],
    { is_table: readBoolean, may_insert: readBoolean },
  )
  if (row === undefined || row.may_insert) return
  if (!row.is_table)
    throw new ConnectorError(
      'config',
      `There is something else than a table named ${formatStream(name)}; choose another table`,
    )
  throw new ConnectorError(
    'auth',
    `The role may not write to ${formatStream(name)}; grant it INSERT, for upsert also SELECT and UPDATE, and make it the owner where the table is to be replaced or its columns are to follow the source`,
  )
}
