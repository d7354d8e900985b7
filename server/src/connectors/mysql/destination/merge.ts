/** Upsert: staged rows are merged into the target by key, in the order they came, so that of several the last wins. */
import { ConnectorError, type RefusedRecords } from '../../contract.ts'
import { errno, errnoOf } from '../shared/errors.ts'
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { readInteger } from '../shared/values.ts'
import type { TableColumn } from './columns.ts'
import { moveRows, refuseRows } from './refused-rows.ts'
import { ordinalColumn } from './stage.ts'
import { readUniqueIndexes } from './table.ts'

export function checkKey(columns: readonly TableColumn[], key: readonly string[]): void {
  if (key.length === 0)
    throw new ConnectorError('config', 'Upsert needs config.sync.primary_key, the fields that identify a record')
  const names = columns.map(({ name }) => name)
  const missing = key.find((name) => !names.includes(name))
  if (missing !== undefined)
    throw new ConnectorError(
      'config',
      `config.sync.primary_key names ${missing}, which the records do not have; they have ${names.join(', ') || 'no field with a value'}`,
    )
}

/** Throws if another unique index would decide which rows are the same. */
export async function hasKeyIndex(session: Session, target: TableName, key: readonly string[]): Promise<boolean> {
  const wanted = [...key].map((name) => name.toLowerCase()).sort()
  const indexes = [...(await readUniqueIndexes(session, target))]
  const isWanted = (columns: readonly string[]): boolean =>
    columns.length === wanted.length &&
    columns
      .map((name) => name.toLowerCase())
      .sort()
      .every((name, at) => name === wanted[at])
  const other = indexes.find(([, columns]) => !isWanted(columns))
  if (other !== undefined)
    throw new ConnectorError(
      'config',
      `${target.table} has the unique index ${other[0]} (${other[1].join(', ')}) besides config.sync.primary_key (${key.join(', ')}); MySQL would merge rows by either of them. Drop it, or use it as the key`,
    )
  return indexes.length > 0
}

/** Before the transaction, because it may create an index. */
export async function prepareMerge(session: Session, target: TableName, key: readonly string[]): Promise<void> {
  if (await hasKeyIndex(session, target, key)) return
  try {
    await session.run(
      `ALTER TABLE ${quoteTable(target)} ADD UNIQUE INDEX \`sluice_key\` (${key.map(quoteName).join(', ')})`,
    )
  } catch (error) {
    const number = errnoOf(error)
    if (number === errno.duplicateEntry)
      throw new ConnectorError(
        'config',
        `${target.table} has several rows with one value of the primary key (${key.join(', ')}), so records cannot be merged into it; remove them or choose another key`,
        { cause: error },
      )
    // A TEXT or BLOB without a length, or too long.
    if (number === 1170 || number === 1071)
      throw new ConnectorError(
        'config',
        `${target.table} cannot have an index on ${key.join(', ')}, because such a column is too long for one; make it a VARCHAR, or load into a new table`,
        { cause: error },
      )
    throw error
  }
}

interface MergeInput {
  target: TableName
  /** A table with the columns and the ordinal. */
  from: string
  columns: readonly TableColumn[]
  key: readonly string[]
  refused?: RefusedRecords | undefined
}

/** Inside the transaction. */
export async function mergeRows(session: Session, input: MergeInput): Promise<void> {
  const { target, from, columns, key } = input
  await leaveOutKeyless(session, input)
  const list = columns.map(({ name }) => quoteName(name))
  const others = columns.filter(({ name }) => !key.includes(name)).map(({ name }) => quoteName(name))
  const set =
    others.length === 0
      ? [`${quoteName(key[0]!)} = VALUES(${quoteName(key[0]!)})`]
      : others.map((name) => `${name} = VALUES(${name})`)
  const statement = (condition: string | null): string =>
    `INSERT INTO ${quoteTable(target)} (${list.join(', ')}) SELECT ${list.join(', ')} FROM ${from}${condition === null ? '' : ` WHERE ${condition}`} ORDER BY ${quoteName(ordinalColumn)} ON DUPLICATE KEY UPDATE ${set.join(', ')}`
  await moveRows(session, { from, columns, statement }, input.refused)
}

/** Records without a value in the key are refused, or fail the merge. */
async function leaveOutKeyless(session: Session, { from, columns, key, refused }: MergeInput): Promise<void> {
  const condition = key.map((name) => `${quoteName(name)} IS NULL`).join(' OR ')
  const reason = `A record has no value in the primary key (${key.join(', ')}), so it cannot be merged`
  if (refused) return refuseRows(session, { from, columns }, { condition, reason }, refused)
  const [row] = await session.query(`SELECT EXISTS (SELECT 1 FROM ${from} WHERE ${condition})`, {
    missing: readInteger,
  })
  if (row?.missing === 1) throw new ConnectorError('destination', `${reason}; fix the source or choose another key`)
}
