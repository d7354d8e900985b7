/**
 * The duckdb destination: one table in a database file, which is the output of the run. A run starts from the file of the
 * last success, and the conditional update that finishes it makes its own file the next one: that is why every record
 * arrives exactly once, whatever crashes.
 */
import { join } from 'node:path'
import type { DuckDBConnection } from '@duckdb/node-api'
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
import { planTable, requireKey, type TablePlan } from '../../database-file/table-plan.ts'
import { attachFile, CATALOG, explainDuckdb } from '../database.ts'
import { destinationNotes } from '../notes.ts'
import { duckdbColumns } from './columns.ts'
import { writeCsv } from './csv.ts'
import { changeTable, createTable, insertRows, readTable } from './table.ts'

const settings = Type.Object({ table: tableSetting }, { additionalProperties: false })

/** Wider tables would need more memory for a row group than a run has. */
const MAX_COLUMNS = 2000

export const duckdbDestination: Destination<typeof settings> = {
  kind: 'destination',
  name: 'duckdb',
  display_name: 'DuckDB',
  description: 'A table in a DuckDB database file, which grows from run to run and can be downloaded after each.',
  settings,
  canonical: (config, stream) => ({ table: tableOf(config, stream) }),
  capabilities: { write: ['append', 'replace', 'upsert'], encodings: ['ndjson'], commits: 'output' },
  example_config: { name: 'duckdb', config: { table: 'orders' } },
  notes: destinationNotes,

  async check() {},

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

interface Survey {
  found: Parameters<typeof planTable>[0]['found']
  records: number
  longest: number
}

async function build(context: OutputContext<TableSettings>): Promise<BuiltOutput> {
  const path = join(context.folder, 'output.duckdb')
  const built = { path, extension: 'duckdb', content_type: 'application/vnd.duckdb' }
  const survey = await surveyRecords(context)
  const keepsOld = keepsOldRows(context, survey.records)
  const goesOn = (keepsOld || context.sync.write !== 'replace') && (await restorePrevious(context, path))
  await context.fault('duckdb.restored')
  if (keepsOld) {
    context.log.warn(KEPT_ROWS_WARNING)
    return built
  }
  try {
    await load(context, path, { survey, goesOn })
    return built
  } catch (error) {
    context.signal.throwIfAborted()
    throw explainDuckdb(explainDisk(error, 'destination'), 'destination', 'The database file cannot be written')
  }
}

async function load(
  context: OutputContext<TableSettings>,
  path: string,
  { survey, goesOn }: { survey: Survey; goesOn: boolean },
): Promise<void> {
  const { folder, signal } = context
  const table = tableOf(context.config, context.stream)
  const engine = await attachFile({ folder, path, signal, readOnly: false })
  try {
    const { connection } = engine
    const plan = await planChanges(context, connection, { survey, goesOn, table })
    reportPlan(context, table, plan)
    if (goesOn) await changeTable(connection, table, plan)
    else await createTable(connection, table, plan.columns)
    await context.fault('duckdb.changed')
    if (survey.records > 0) await fill(context, connection, { plan, table, longest: survey.longest })
    await context.fault('duckdb.filled')
    // Everything is in the one file then, and nothing in a log beside it.
    await connection.run(`USE memory; CHECKPOINT ${CATALOG}; DETACH ${CATALOG}`)
    context.saveSchema(describeColumns('duckdb', plan.columns), plan.changes)
  } finally {
    engine.close()
  }
}

async function planChanges(
  context: OutputContext<TableSettings>,
  connection: DuckDBConnection,
  { survey, goesOn, table }: { survey: Survey; goesOn: boolean; table: string },
): Promise<TablePlan> {
  const existing = goesOn ? await readTable(connection, table) : null
  if (existing !== null && 'fault' in existing) throw foreignFile(context, existing.fault)
  const plan = planTable({
    existing,
    declared: context.columns,
    found: survey.found,
    contract: context.sync.schema_change,
    dialect: duckdbColumns,
  })
  if (plan.columns.length <= MAX_COLUMNS) return plan
  throw new ConnectorError(
    'limit',
    `The table would have ${plan.columns.length} columns, more than ${MAX_COLUMNS}; exclude some with config.columns`,
  )
}

async function fill(
  context: OutputContext<TableSettings>,
  connection: DuckDBConnection,
  { plan, table, longest }: { plan: TablePlan; table: string; longest: number },
): Promise<void> {
  const { sync } = context
  const key = sync.write === 'upsert' ? requireKey(plan, sync.primary_key) : []
  const csv = join(context.folder, 'rows.csv')
  await writeCsv(context, csv, plan)
  reportDropped(context, await insertRows(connection, { table, plan, key, csv, longest }))
}
