/** What a target must be, so that rows can be loaded into it exactly once. */
import { ConnectorError, type LoadContext } from '../../contract.ts'
import { quoteName, quoteTable } from '../shared/names.ts'
import { checkEngine, type TableFacts, VERSION } from './table.ts'

export function checkTarget(target: TableFacts, { sync }: Pick<LoadContext, 'sync'>): void {
  checkEngine(target)
  if (sync.write === 'upsert') checkMerging(target, sync.primary_key)
  if (target.views > 0 && sync.write !== 'replace') checkWindow(target)
}

/** Rows with the same key are merged by the engine of the table. */
function checkMerging({ name, engine, definition, sortingKey }: TableFacts, key: readonly string[]): void {
  if (engine !== 'ReplacingMergeTree' || !definition.replaceAll('`', '').startsWith(`ReplacingMergeTree(${VERSION})`))
    throw new ConnectorError(
      'config',
      `${name.table} is not a table that upsert can use: its engine must be ReplacingMergeTree(${VERSION}), with a column ${quoteName(VERSION)} UInt64. Choose another table, let one be created, or use append`,
    )
  if (sortingKey.length === key.length && sortingKey.every((column, at) => column === key[at])) return
  throw new ConnectorError(
    'config',
    `${name.table} merges rows by its sorting key (${sortingKey.join(', ')}), but config.sync.primary_key is ${key.join(', ')}; make them the same`,
  )
}

/** Rows are inserted there, so the table has to know an INSERT again that it has already had. */
function checkWindow({ name, definition }: TableFacts): void {
  if (/non_replicated_deduplication_window = [1-9]/.test(definition)) return
  throw new ConnectorError(
    'config',
    `${name.table} has materialized views, so its rows are inserted; for that it has to recognise repeated inserts, or a crash could double rows. Run ALTER TABLE ${quoteTable(name)} MODIFY SETTING non_replicated_deduplication_window = 10000, and the same for the tables behind the views`,
  )
}

/** The records must have the fields that identify them. */
export function checkKey(columns: readonly { name: string }[], { sync }: Pick<LoadContext, 'sync'>): void {
  if (sync.write !== 'upsert') return
  if (sync.primary_key.length === 0)
    throw new ConnectorError('config', 'Upsert needs config.sync.primary_key, the fields that identify a record')
  const names = columns.map(({ name }) => name)
  const missing = sync.primary_key.find((name) => !names.includes(name))
  if (missing !== undefined)
    throw new ConnectorError(
      'config',
      `config.sync.primary_key names ${missing}, which the records do not have; they have ${names.join(', ') || 'no field with a value'}`,
    )
}
