/** The clickhouse destination: settings, checks and the way into a load (load.ts has the protocol). */
import { type Static, Type } from '../../../schema.ts'
import { type Context, type Destination, identity, type Load, type LoadContext, overridable } from '../../contract.ts'
import { clickhouseNames, makeSafe } from '../../types/names.ts'
import { Client } from '../shared/client.ts'
import { quoteTable, splitStream, type TableName } from '../shared/names.ts'
import { destinationNotes } from '../shared/notes.ts'
import { canonicalPlace, connectionSettings, eitherAddress, resolveTarget } from '../shared/settings.ts'
import { readInteger } from '../shared/values.ts'
import { openLoad } from './load.ts'
import { fence } from './marks.ts'
import { previewLoad } from './preview.ts'
import { checkEngine, readTable } from './table.ts'

const settings = Type.Object(
  {
    ...connectionSettings,
    table: Type.Optional(
      identity(
        overridable(
          Type.String({
            minLength: 1,
            maxLength: 80,
            description: 'Name of the table. Default: the last part of the stream.',
          }),
        ),
      ),
    ),
    statement_timeout_seconds: overridable(
      Type.Integer({
        minimum: 0,
        default: 3600,
        description: 'The server ends a statement that takes longer. 0: no limit of ours.',
      }),
    ),
  },
  { additionalProperties: false, either: eitherAddress },
)

type Settings = Static<typeof settings>

export const clickhouseDestination: Destination<typeof settings> = {
  kind: 'destination',
  name: 'clickhouse',
  display_name: 'ClickHouse',
  description: 'A table in a ClickHouse database, loaded over its HTTP interface, exactly once.',
  settings,
  canonical: (config, stream) => ({ ...canonicalPlace(config), table: targetOf(config, stream).table }),
  capabilities: { write: ['append', 'replace', 'upsert'], encodings: ['tsv', 'ndjson'], commits: 'batch' },
  example_config: {
    name: 'clickhouse',
    config: {
      host: 'clickhouse.example.com',
      database: 'analytics',
      user: 'loader',
      password: 'a password',
      table: 'events',
    },
  },
  notes: destinationNotes,

  async check(context) {
    const { config, stream } = context
    await explained(openClient(context, true), async (client) => {
      await client.query('SELECT 1', { one: readInteger })
      const target = stream === null ? null : await readTable(client, targetOf(config, stream), { settle: false })
      if (target !== null) checkEngine(target)
      await checkRights(client)
    })
  },

  async fence(context) {
    await explained(openClient(context), (client) => fence(client, context))
    return null
  },

  async preview(context) {
    const target = targetOf(context.config, context.stream)
    return explained(openClient(context), (client) => previewLoad(client, context, target))
  },

  async open(context) {
    const client = openClient(context)
    const target = targetOf(context.config, context.stream)
    return explainLoad(client, await explained(client, () => openLoad(client, context as LoadContext, target)))
  },
}

function targetOf(config: Settings, stream: string): TableName {
  const { database } = resolveTarget(config)
  return { database, table: config.table ?? makeSafe(splitStream(stream).at(-1) ?? stream, clickhouseNames) }
}

function openClient({ config, egress, signal }: Context<Settings>, hurry = false): Client {
  return new Client({
    egress,
    signal,
    hurry,
    side: 'destination',
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

function explainLoad(client: Client, load: Load): Load {
  return {
    write: (page) => load.write(page),
    commit: (checkpoint, cursor) => explained(client, () => load.commit(checkpoint, cursor)),
    publish: (checkpoint, cursor) => explained(client, () => load.publish(checkpoint, cursor)),
    abort: () => load.abort(),
  }
}

/** Rights are known by using them: a table is made and dropped. */
async function checkRights(client: Client): Promise<void> {
  const name = { database: client.target.database, table: `_sluice_check_${process.pid}_${Date.now()}` }
  const quoted = quoteTable(name)
  await client.run({ sql: `CREATE TABLE ${quoted} (id UInt8) ENGINE = MergeTree ORDER BY id` })
  const made = await readTable(client, name)
  await client.run({ sql: `INSERT INTO ${quoted} FORMAT TabSeparated`, rows: Buffer.from('1\n') })
  await client.run({ sql: `DROP TABLE ${quoted}` })
  if (made !== null) checkEngine(made)
}
