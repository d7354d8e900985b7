/**
 * Makes a staged run visible. Which way depends on the target:
 *
 *   there is none       the stage takes its name
 *   replace             the two exchange their names, in one step for readers; the old rows are dropped afterwards
 *   append, upsert      the parts of the stage move there, all of a partition at once
 *   … with materialized views   each chunk by an INSERT of its own with a token, because moved parts pass them by
 *
 * The mark `publishing` holds the identity of the staged table, which it keeps under any name. As long as the table of
 * the stage's name still is that one, the step has not been done, or (moving) only in part, and is done again: this is
 * what makes publishing idempotent. Afterwards the mark is `published`, and only then is the stage dropped.
 */
import { ConnectorError, type LoadContext } from '../../contract.ts'
import type { Client } from '../shared/client.ts'
import { code, codeOf } from '../shared/errors.ts'
import { quoteName, quoteTable, quoteText, type TableName } from '../shared/names.ts'
import { readText } from '../shared/values.ts'
import { type TableColumn, widenFor } from './columns.ts'
import { insertSettings } from './insert.ts'
import { findChanges, matchStage } from './stage.ts'
import { alterTable, checkEngine, readTable, type TableFacts, VERSION } from './table.ts'

export interface Publication {
  client: Client
  context: LoadContext
  stage: TableFacts
  target: TableName
  /** See StagePlan. */
  inserts: boolean
}

/** Returns what changed in the target, for its owner. */
export async function makeVisible(publication: Publication): Promise<string[]> {
  const { client, context, stage, target, inserts } = publication
  const found = await readTable(client, target)
  if (found === null) {
    try {
      await client.run({ sql: `RENAME TABLE ${quoteTable(stage.name)} TO ${quoteTable(target)}` })
      return [`created table ${target.table}`]
    } catch (error) {
      if (codeOf(error) !== code.tableExists) throw error
      return makeVisible(publication)
    }
  }
  if (context.sync.write === 'replace') return exchange(client, stage, found)
  checkEngine(found)
  const changes = await matchTables(client, stage, found)
  await context.fault('clickhouse.publish.matched')
  if (inserts) await insertChunks(publication, found)
  else await moveParts(client, stage, found)
  return changes
}

async function exchange(client: Client, stage: TableFacts, target: TableFacts): Promise<string[]> {
  const changes = describeChanges(target.columns, stage.columns)
  await client.run({ sql: `EXCHANGE TABLES ${quoteTable(stage.name)} AND ${quoteTable(target.name)}` })
  return changes
}

/** What the first lacks to be the second, for its owner. */
export function describeChanges(before: readonly TableColumn[], after: readonly TableColumn[]): string[] {
  const changes = findChanges(before, after)
  if (changes === null) return []
  return [
    ...changes.added.map(({ name, sql }) => `added column ${name} ${sql}`),
    ...changes.widened.map(({ from, to }) => `widened column ${to.name} from ${from.sql} to ${to.sql}`),
  ]
}

/** Types that are not widened to json. */
const keepsAll = new Set(['json', 'text', 'interval', 'bytes'])

/** Parts move only between tables with the same columns. */
async function matchTables(client: Client, stage: TableFacts, target: TableFacts): Promise<string[]> {
  const isOwn = ({ name }: TableColumn): boolean => name !== VERSION
  const staged = stage.columns.filter(isOwn)
  // Somebody else may have widened the target further in the meantime.
  const wanted = staged.map((column) => {
    const have = target.columns.find(({ name }) => name === column.name)
    if (have === undefined) return column
    // Nested values among others: the stage was widened to hold both.
    if (column.neutral === 'json' && !keepsAll.has(have.neutral)) return { ...column, nullable: have.nullable }
    return widenFor(have, column) ?? have
  })
  const changes = findChanges(target.columns, wanted)
  if (changes !== null) await alterTable(client, target.name, changes)
  const others = target.columns.filter((column) => isOwn(column) && !wanted.some(({ name }) => name === column.name))
  await matchStage(client, stage, [...wanted, ...others])
  return describeChanges(target.columns, wanted)
}

async function moveParts(client: Client, stage: TableFacts, target: TableFacts): Promise<void> {
  const from = quoteTable(stage.name)
  const partitions = await client.query(`SELECT DISTINCT _partition_id FROM ${from} ORDER BY _partition_id`, {
    id: readText,
  })
  if (partitions.length === 0) return
  const steps = partitions.map(({ id }) => `MOVE PARTITION ID ${quoteText(id)} TO TABLE ${quoteTable(target.name)}`)
  try {
    await client.run({ sql: `ALTER TABLE ${from} ${steps.join(', ')}` })
  } catch (error) {
    const number = codeOf(error)
    if (number !== code.differentStructure && number !== code.badArguments) throw error
    throw new ConnectorError(
      'destination',
      `${target.name.table} was changed while rows were loaded, and they no longer fit it: ${(error as Error).message}. Run again`,
      { cause: error },
    )
  }
}

async function insertChunks(publication: Publication, target: TableFacts): Promise<void> {
  const { client, context, stage } = publication
  const from = quoteTable(stage.name)
  const versions = await client.query(`SELECT DISTINCT toString(${VERSION}) AS v FROM ${from} ORDER BY ${VERSION}`, {
    version: readText,
  })
  const names = stage.columns.map(({ name }) => name)
  const written = names.filter((name) => name !== VERSION || target.columns.some((column) => column.name === VERSION))
  const list = written.map(quoteName).join(', ')
  for (const { version } of versions) {
    await client.run({
      sql: `INSERT INTO ${quoteTable(target.name)} (${list}) SELECT ${list} FROM ${from} WHERE ${VERSION} = {version:UInt64}`,
      params: { version },
      settings: insertSettings(`${context.pipeline_id}/${context.run_id}/${context.reading}/${version}`),
    })
    await context.fault('clickhouse.publish.inserted')
  }
}
