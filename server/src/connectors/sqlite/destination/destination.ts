/**
 * The sqlite destination: one table in a database file, which is the output of the run. A run starts from the file of the
 * last success, and the conditional update that finishes it makes its own file the next one: that is why every record
 * arrives exactly once, whatever crashes.
 */
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Type } from '../../../schema.ts'
import { type BuiltOutput, ConnectorError, type Destination, type OutputContext } from '../../contract.ts'
import {
  describeColumns,
  foreignFile,
  KEPT_ROWS_WARNING,
  keepsOldRows,
  reportDropped,
  reportPlan,
  restorePrevious,
  surveyRecords,
  type TableSettings,
  tableOf,
  tableSetting,
} from '../../database-file/build.ts'
import { explainDisk } from '../../database-file/fetch-file.ts'
import { planTable, requireKey, type TableColumn } from '../../database-file/table-plan.ts'
import { noteOpenedFile } from '../../opened-files.ts'
import type { ColumnFacts } from '../../types/column-facts.ts'
import { explainSqlite, harden } from '../database.ts'
import { destinationNotes } from '../notes.ts'
import { sqliteColumns } from './columns.ts'
import { writeRows } from './rows.ts'
import { changeTable, createTable, readTable, setKey } from './table.ts'

const settings = Type.Object({ table: tableSetting }, { additionalProperties: false })

/** SQLite's own limit. */
const MAX_COLUMNS = 2000

export const sqliteDestination: Destination<typeof settings> = {
  kind: 'destination',
  name: 'sqlite',
  display_name: 'SQLite',
  description: 'A table in a SQLite database file, which grows from run to run and can be downloaded after each.',
  settings,
  canonical: (config, stream) => ({ table: requireTable(tableOf(config, stream)) }),
  capabilities: { write: ['append', 'replace', 'upsert'], encodings: ['ndjson'], commits: 'output' },
  example_config: { name: 'sqlite', config: { table: 'orders' } },
  notes: destinationNotes,

  async check({ config, stream }) {
    requireTable(tableOf(config, stream ?? 'table'))
  },

  async fence() {
    return null
  },

  async open() {
    return {
      async write() {},
      async commit() {},
      async publish() {},
      async abort() {},
    }
  },

  buildOutput: build,
}

function requireTable(table: string): string {
  if (!table.toLowerCase().startsWith('sqlite_')) return table
  throw new ConnectorError(
    'config',
    `The table cannot be named ${table}: SQLite reserves names that begin with sqlite_`,
  )
}

async function build(context: OutputContext<TableSettings>): Promise<BuiltOutput> {
  const path = join(context.folder, 'output.sqlite')
  const built = { path, extension: 'sqlite', content_type: 'application/vnd.sqlite3' }
  const { found, records } = await surveyRecords(context)
  const keepsOld = keepsOldRows(context, records)
  const goesOn = (keepsOld || context.sync.write !== 'replace') && (await restorePrevious(context, path))
  await context.fault('sqlite.restored')
  if (keepsOld) {
    context.log.warn(KEPT_ROWS_WARNING)
    return built
  }
  try {
    await load(context, path, { found, records, goesOn })
    return built
  } catch (error) {
    context.signal.throwIfAborted()
    throw explainSqlite(explainDisk(error, 'destination'), 'destination', 'The database file cannot be written')
  }
}

async function load(
  context: OutputContext<TableSettings>,
  path: string,
  { found, records, goesOn }: { found: ColumnFacts[]; records: number; goesOn: boolean },
): Promise<void> {
  const { sync } = context
  const table = tableOf(context.config, context.stream)
  if (goesOn) noteOpenedFile()
  const db = openForWriting(path)
  try {
    const existing = goesOn ? readExisting(context, db, table) : null
    const plan = planTable({
      existing,
      declared: context.columns,
      found,
      contract: sync.schema_change,
      dialect: sqliteColumns,
    })
    if (plan.columns.length > MAX_COLUMNS)
      throw new ConnectorError(
        'limit',
        `The table would have ${plan.columns.length} columns, and SQLite has at most ${MAX_COLUMNS}; exclude some with config.columns`,
      )
    reportPlan(context, table, plan)
    // Of no records at all nothing is known, so the table stays as it is.
    const key = sync.write === 'upsert' && records > 0 ? requireKey(plan, sync.primary_key) : []
    db.exec('BEGIN')
    if (existing === null) createTable(db, table, plan.columns)
    else changeTable(db, table, plan)
    if (records > 0) setKey(db, table, key)
    await context.fault('sqlite.changed')
    reportDropped(context, await writeRows(context, db, { table, plan, key }))
    db.exec('COMMIT')
    await context.fault('sqlite.committed')
    context.saveSchema(describeColumns('sqlite', plan.columns), plan.changes)
  } finally {
    db.close()
  }
}

/** A file that is not finished is thrown away, so it needs no journal. */
function openForWriting(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { defensive: true, allowExtension: false, limits: { attach: 0 } })
  try {
    harden(db)
    db.exec('PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE')
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

function readExisting(context: OutputContext<TableSettings>, db: DatabaseSync, table: string): TableColumn[] {
  const found = readTable(db, table)
  if ('fault' in found) throw foreignFile(context, found.fault)
  return found
}
