/** What building a database file has in common, whatever system it is of. */
import { open } from 'node:fs/promises'
import { watchSpace } from '../../blobs/disk-space.ts'
import { Type } from '../../schema.ts'
import { type Column, ConnectorError, type Context, identity, type OutputContext, overridable } from '../contract.ts'
import { LineSurvey, surveyLines } from '../formats/line-survey.ts'
import type { ColumnFacts } from '../types/column-facts.ts'
import { explainDisk } from './fetch-file.ts'
import type { TableColumn, TablePlan } from './table-plan.ts'

export const tableSetting = Type.Optional(
  identity(
    overridable(
      Type.String({
        minLength: 1,
        maxLength: 255,
        pattern: '^[^\\u0000-\\u001f]+$',
        description: 'The name of the table. Default: the name of the stream.',
      }),
    ),
  ),
)

export interface TableSettings {
  table?: string
}

/** Control characters in the name of a stream have no place in one of a table. */
export function tableOf({ table }: TableSettings, stream: string): string {
  return table ?? stream.replace(/[\u0000-\u001f]/g, '_').slice(0, 255)
}

interface Survey {
  found: ColumnFacts[]
  records: number
  /** The length of the longest line. */
  longest: number
}

/** Reads all records once, for what their columns have to hold. */
export async function surveyRecords({ readRecords, signal }: OutputContext<TableSettings>): Promise<Survey> {
  const survey = new LineSurvey()
  let records = 0
  for await (const page of readRecords()) {
    signal.throwIfAborted()
    surveyLines(survey, page)
    for (let at = page.indexOf(10); at !== -1; at = page.indexOf(10, at + 1)) records += 1
  }
  const { columns, longest } = survey.take()
  return { found: columns, records, longest }
}

/** Copies the file of the last success to where the new one is built. False if the run starts with an empty one. */
export async function restorePrevious(context: OutputContext<TableSettings>, path: string): Promise<boolean> {
  const { previous, folder, signal } = context
  if (previous === null) return false
  const makeRoom = watchSpace(folder)
  const file = await open(path, 'wx', 0o600)
  try {
    for await (const chunk of previous.read()) {
      signal.throwIfAborted()
      makeRoom(chunk.length)
      await file.writeFile(chunk)
    }
    return true
  } catch (error) {
    throw explainDisk(error, 'destination')
  } finally {
    await file.close()
  }
}

/** An empty read does not empty the table unless the pipeline says so. */
export function keepsOldRows({ sync, previous }: OutputContext<TableSettings>, records: number): boolean {
  return sync.write === 'replace' && records === 0 && !sync.allow_empty && previous !== null
}

export const KEPT_ROWS_WARNING =
  'The source returned no records, so the table keeps its old rows; set config.sync.allow_empty to empty it.'

export function reportPlan({ log }: Context<TableSettings>, table: string, plan: TablePlan): void {
  for (const change of plan.changes) log.info(`Table ${table}: ${change}.`)
  if (plan.ignored.length > 0)
    log.warn(
      `Fields that ${table} has no column for are left out, because config.sync.schema_change is discard: ${plan.ignored.slice(0, 20).join(', ')}.`,
    )
}

export function reportDropped({ log }: Context<TableSettings>, dropped: number): void {
  if (dropped > 0)
    log.warn(
      `${dropped} values do not fit their columns and are left out, because config.sync.schema_change is discard.`,
    )
}

export const describeColumns = (system: string, columns: readonly TableColumn[]): Column[] =>
  columns.map(({ name, type, sql }) => ({ name, type, native: { system, type: sql } }))

export function missingKey(key: readonly string[]): ConnectorError {
  return new ConnectorError(
    'destination',
    `A record has no value in the primary key (${key.join(', ')}), so it cannot be merged; fix the source or choose another key`,
  )
}

export function doubledKey(key: readonly string[], table: string): ConnectorError {
  return new ConnectorError(
    'destination',
    `${table} already has rows with the same ${key.join(', ')}, so it cannot be the primary key; choose another, or set another \`table\` in the destination to start over with a new file`,
  )
}

/** The store is not trusted more than any other: a file that this pipeline cannot have written is not opened further. */
export function foreignFile({ previous }: OutputContext<TableSettings>, reason: string): ConnectorError {
  return new ConnectorError(
    'destination',
    `The file of the last successful run ${previous!.run_id} is not one that this pipeline wrote (${reason}). Set another \`table\` in the destination to start over with a new file.`,
  )
}
