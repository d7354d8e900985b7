/** The mysql destination: settings, checks and the way into a load (load.ts has the protocol). */
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
import { makeSafe, mysqlNames } from '../../types/names.ts'
import { explainFailure } from '../shared/errors.ts'
import { quoteTable, splitStream } from '../shared/names.ts'
import { destinationNotes } from '../shared/notes.ts'
import { describeTarget, openSession, type Session } from '../shared/session.ts'
import { canonicalPlace, connectionSettings, eitherAddress, resolveTarget } from '../shared/settings.ts'
import { readFlag } from '../shared/values.ts'
import { openLoad } from './load.ts'
import { endHolder, ensureMarks, fence, type MarkOwner } from './marks.ts'
import { previewLoad } from './preview.ts'
import { settleEarlier } from './stage.ts'

const settings = Type.Object(
  {
    ...connectionSettings,
    table: Type.Optional(
      identity(
        overridable(
          Type.String({
            minLength: 1,
            maxLength: 64,
            description: 'Name of the table. Default: the last part of the stream.',
          }),
        ),
      ),
    ),
    statement_timeout_seconds: overridable(
      Type.Integer({
        minimum: 0,
        default: 3600,
        description: 'MariaDB ends a statement, and with it the load of a checkpoint, that takes longer. 0: never.',
      }),
    ),
  },
  { additionalProperties: false, either: eitherAddress },
)

type Settings = Static<typeof settings>

export const mysqlDestination: Destination<typeof settings> = {
  kind: 'destination',
  name: 'mysql',
  display_name: 'MySQL and MariaDB',
  description: 'A table in a MySQL or MariaDB database, loaded by LOAD DATA, exactly once.',
  settings,
  canonical: (config, stream) => ({
    ...canonicalPlace(config),
    database: databaseOf(config),
    table: tableOf(config, stream),
  }),
  capabilities: {
    write: ['append', 'replace', 'upsert'],
    encodings: ['tsv', 'ndjson'],
    commits: 'mark',
    quarantine: true,
  },
  example_config: {
    name: 'mysql',
    config: {
      host: 'db.example.com',
      database: 'warehouse',
      user: 'loader',
      password: 'a password',
      tls: { mode: 'require' },
      table: 'orders',
    },
  },
  notes: destinationNotes,

  async check(context) {
    await withSession(context, (session) => checkRights(session, databaseOf(context.config)))
  },

  async fence(context) {
    const owner = ownerOf(context)
    await context.fault('mysql.fence.before')
    const mark = await withSession(context, async (session) => {
      await ensureMarks(session, owner.database)
      const taken = await fence(session, owner)
      await context.fault('mysql.fence.taken')
      if (taken !== null) await endHolder(session, owner, taken)
      const earlier = await settleEarlier(session, owner, taken?.stage ?? null)
      if (taken === null || earlier === null) return taken
      const { cursor, checkpoint, sameRun } = earlier
      return sameRun ? { ...taken, cursor, checkpoint, published: true } : { ...taken, cursor }
    })
    await context.fault('mysql.fence.after')
    if (mark === null) return null
    const { run_id, seq, attempt, checkpoint, cursor, published, installation } = mark
    if (installation !== context.installation)
      context.log.warn(
        `${owner.database} was last loaded by installation ${installation}, and this is ${context.installation}. That is expected once after a restore; if both are running, only one of them may have this pipeline enabled.`,
      )
    return { run_id, seq, attempt, checkpoint, cursor, published }
  },

  async preview(context) {
    const target = { database: databaseOf(context.config), table: tableOf(context.config, context.stream) }
    return withSession(context, async (session) => {
      await session.run('START TRANSACTION READ ONLY')
      return previewLoad(session, context, target)
    })
  },

  async open(context) {
    const owner = ownerOf(context)
    return explained(context, async () => {
      const load = await openLoad({
        context: context as LoadContext,
        owner,
        target: { database: owner.database, table: tableOf(context.config, context.stream) },
        statementTimeoutSeconds: context.config.statement_timeout_seconds,
        openSession: (signal) => open({ ...context, signal }),
      })
      return explainLoad(context, load)
    })
  },
}

function databaseOf(config: Settings): string {
  const { database } = resolveTarget(config)
  if (database !== undefined) return database
  throw new ConnectorError(
    'config',
    'The mysql settings cannot be used: `database` is missing: give the one to load into.',
  )
}

function tableOf({ table }: Settings, stream: string): string {
  return table ?? makeSafe(splitStream(stream).at(-1) ?? stream, mysqlNames)
}

function ownerOf(context: FenceContext<Settings> | LoadContext<Settings>): MarkOwner {
  const { config, pipeline_id, run_id, seq, attempt, token, installation } = context
  return { database: databaseOf(config), pipeline_id, run_id, seq, attempt, token, installation }
}

function open(context: Context<Settings>): Promise<Session> {
  return openSession(resolveTarget(context.config), {
    egress: context.egress,
    signal: context.signal,
    side: 'destination',
    program: 'sluice destination',
    statementTimeoutSeconds: context.config.statement_timeout_seconds,
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
    write: (page) => explained(context, () => load.write(page)),
    commit: (checkpoint, cursor) => explained(context, () => load.commit(checkpoint, cursor)),
    publish: (checkpoint, cursor) => explained(context, () => load.publish(checkpoint, cursor)),
    abort: () => load.abort(),
  }
}

function withSession<T>(context: Context<Settings>, work: (session: Session) => Promise<T>): Promise<T> {
  return explained(context, async () => {
    const session = await open(context)
    try {
      return await work(session)
    } finally {
      await session.close()
    }
  })
}

/** Rights in MySQL are known by using them: a table is made and dropped. */
async function checkRights(session: Session, database: string): Promise<void> {
  const [row] = await session.query('SELECT @@global.read_only', { read_only: readFlag })
  if (row?.read_only)
    throw new ConnectorError(
      'config',
      'The server does not accept writes: it is a replica or set to read-only; give the address of the primary',
    )
  const name = quoteTable({ database, table: `_sluice_check_${process.pid}_${Date.now()}` })
  await session.run(`CREATE TABLE ${name} (id int) ENGINE=InnoDB`)
  await session.run(`DROP TABLE ${name}`)
}
