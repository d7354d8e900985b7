/**
 * The table that collects the rows of a run before they are visible. Its name tells pipeline, run and reading, so an attempt
 * that goes on with a reading finds it, and every later run drops what earlier ones left. A zombie then finds no table.
 */
import { createHash } from 'node:crypto'
import { ConnectorError, type LoadContext } from '../../contract.ts'
import type { Client } from '../shared/client.ts'
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import { byName, columnSql, sameColumn, type TableColumn } from './columns.ts'
import {
  alterTable,
  checkEngine,
  dropTable,
  listTables,
  readTable,
  type TableChanges,
  type TableFacts,
  VERSION,
} from './table.ts'

/** Blocks whose tokens a table remembers. */
const WINDOW = 10_000
const window = `non_replicated_deduplication_window = ${WINDOW}`

type Owner = Pick<LoadContext, 'pipeline_id' | 'run_id' | 'seq' | 'reading'>

const digest = (text: string, length: number): string =>
  createHash('sha256').update(text).digest('hex').slice(0, length)

const prefixOf = ({ pipeline_id }: Owner): string => `_sluice_s_${digest(pipeline_id, 12)}_`

export function stageName(database: string, owner: Owner): TableName {
  const { seq, run_id, reading } = owner
  return { database, table: `${prefixOf(owner)}${seq}_${digest(run_id, 12)}_${reading}` }
}

/** Drops the stages of earlier runs of the pipeline, and of readings of this run that were abandoned. */
export async function sweepStages(client: Client, owner: Owner): Promise<void> {
  const { database } = client.target
  const prefix = prefixOf(owner)
  const run = digest(owner.run_id, 12)
  for (const table of await listTables(client, database, prefix)) {
    const [seq, ofRun, reading] = table.slice(prefix.length).split('_')
    const abandoned = ofRun === run ? Number(reading) < owner.reading : Number(seq) < owner.seq
    if (abandoned) await dropTable(client, { database, table })
  }
}

export interface StagePlan {
  stage: TableName
  target: TableFacts | null
  /** The fields that identify a record, for upsert. */
  key: readonly string[]
  /** Rows reach the target by INSERT, chunk by chunk, because materialized views must see them. */
  inserts: boolean
}

/** Whether rows carry the number of their chunk. */
export const hasVersion = ({ key, inserts }: Pick<StagePlan, 'key' | 'inserts'>): boolean => key.length > 0 || inserts

/** Made like its target, so that whole parts can move there, or like the table that it is going to become. */
export async function createStage(
  client: Client,
  plan: StagePlan,
  columns: readonly TableColumn[],
): Promise<TableFacts> {
  const { stage, target, key, inserts } = plan
  const name = quoteTable(stage)
  if (target !== null && !inserts) {
    await client.run({ sql: `CREATE TABLE IF NOT EXISTS ${name} AS ${quoteTable(target.name)}` })
  } else {
    const list = columns.map((column) => columnSql(column))
    if (hasVersion(plan)) list.push(`${quoteName(VERSION)} UInt64`)
    await client.run({
      sql: `CREATE TABLE IF NOT EXISTS ${name} (${list.join(', ')}) ENGINE = ${engineOf(key, inserts)} SETTINGS ${window}`,
    })
  }
  const made = await readTable(client, stage)
  if (made === null) throw fenced()
  // A server may make a replicated table where a plain one was asked for, as ClickHouse Cloud does.
  checkEngine(made)
  return made
}

/** Without it the server does not know a token again. A stage that is made like a table without it gets it before its first row. */
export async function ensureWindow(client: Client, stage: TableFacts): Promise<void> {
  if (stage.definition.includes(window)) return
  await client.run({ sql: `ALTER TABLE ${quoteTable(stage.name)} MODIFY SETTING ${window}` })
}

function engineOf(key: readonly string[], inserts: boolean): string {
  if (inserts) return `MergeTree ORDER BY ${quoteName(VERSION)}`
  if (key.length === 0) return 'MergeTree ORDER BY tuple()'
  const sorted = key.length === 1 ? quoteName(key[0]!) : `(${key.map(quoteName).join(', ')})`
  return `ReplacingMergeTree(${quoteName(VERSION)}) ORDER BY ${sorted}`
}

export function fenced(): ConnectorError {
  return new ConnectorError(
    'destination',
    'This attempt was fenced: the table that its rows were staged in is gone, because a newer run has taken over or somebody dropped it. Run again',
  )
}

/** What a table lacks to hold the columns; null if nothing. */
export function findChanges(have: readonly TableColumn[], columns: readonly TableColumn[]): TableChanges | null {
  const known = byName(have)
  const added = columns.filter(({ name }) => !known.has(name))
  const widened = columns.flatMap((to) => {
    const from = known.get(to.name)
    return from === undefined || sameColumn(from, to) ? [] : [{ from, to: { ...to, nullable: from.nullable } }]
  })
  return added.length + widened.length === 0 ? null : { added, widened }
}

/** Makes the stage able to hold the columns. */
export async function matchStage(client: Client, stage: TableFacts, columns: readonly TableColumn[]): Promise<void> {
  const changes = findChanges(stage.columns, columns)
  if (changes === null) return
  await alterTable(client, stage.name, changes)
  const known = byName(stage.columns)
  for (const { added, widened } of [changes]) {
    for (const column of added) known.set(column.name, column)
    for (const { to } of widened) known.set(to.name, to)
  }
  stage.columns = [...known.values()]
}
