/**
 * Upsert: rows copied to a temporary table are merged into the target by key. Of several rows with the same key the
 * last wins. Rows are merged in key order, so two merges cannot deadlock.
 */
import { ConnectorError, type RefusedRecords, type RunLog } from '../../contract.ts'
import { codeOf, sqlState } from '../shared/errors.ts'
import { quoteName, quoteTable, quoteText, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { moveRows, refuseRows } from './refused-rows.ts'
import { insertSql, ordinalColumn, readAlwaysIdentities, restOf, type TableColumn } from './table.ts'

/** A temporary table with the columns of the records; it goes with the transaction. */
export const mergeTable = 'pg_temp._sluice_merge'

export function createMergeTableSql(columns: readonly TableColumn[]): string {
  const parts = columns.map(({ name, type }) => `${quoteName(name)} ${type}`)
  parts.push(`${quoteName(ordinalColumn)} int8 GENERATED ALWAYS AS IDENTITY (CACHE 1000)`)
  return `CREATE TEMPORARY TABLE _sluice_merge (${parts.join(', ')}) ON COMMIT DROP`
}

interface MergeInput {
  target: TableName
  /** A table with the columns and the ordinal. */
  from: string
  columns: readonly TableColumn[]
  key: readonly string[]
  log: RunLog
  refused?: RefusedRecords | undefined
}

export async function mergeRows(session: Session, input: MergeInput): Promise<void> {
  const { target, from, columns, key } = input
  checkKey(columns, key)
  await ensureUnique(session, target, key)
  const keyList = key.map(quoteName).join(', ')
  await leaveOutKeyless(session, input)
  const names = columns.map(({ name }) => name)
  const others = (await findChangeable(session, target, names, input.log)).filter((name) => !key.includes(name))
  const set = others.map(quoteName).map((name) => `${name} = EXCLUDED.${name}`)
  const action = set.length === 0 ? 'NOTHING' : `UPDATE SET ${set.join(', ')}`
  const list = `DISTINCT ON (${keyList}) ${names.map(quoteName).join(', ')}`
  const statement = (condition: string | null): string => {
    const order = `ORDER BY ${keyList}, ${quoteName(ordinalColumn)} DESC ON CONFLICT (${keyList}) DO ${action}`
    return insertSql(target, names, { list, rest: `${restOf(from, condition).rest} ${order}` })
  }
  await moveRows(session, { from, columns, statement }, input.refused)
}

/** Records without a value in the key are refused, or fail the merge. */
async function leaveOutKeyless(session: Session, { from, columns, key, refused }: MergeInput): Promise<void> {
  const condition = key.map((name) => `${quoteName(name)} IS NULL`).join(' OR ')
  const reason = `A record has no value in the primary key (${key.join(', ')}), so it cannot be merged`
  if (refused) return refuseRows(session, { from, columns }, { condition, reason }, refused)
  const [missing] = await session.query(`SELECT FROM ${from} WHERE ${condition} LIMIT 1`)
  if (missing) throw new ConnectorError('destination', `${reason}; fix the source or choose another key`)
}

/** The columns that can be updated in existing rows. */
export async function findChangeable(
  session: Session,
  target: TableName,
  names: readonly string[],
  log: RunLog,
): Promise<string[]> {
  const fixed = await readAlwaysIdentities(session, target)
  const kept = names.filter((name) => fixed.has(name))
  if (kept.length > 0) log.debug(`${kept.join(', ')}: GENERATED ALWAYS AS IDENTITY, so existing rows keep their value.`)
  return names.filter((name) => !fixed.has(name))
}

export function checkKey(columns: readonly TableColumn[], key: readonly string[]): void {
  if (key.length === 0)
    throw new ConnectorError('config', 'Upsert needs config.sync.primary_key, the fields that identify a record')
  const names = columns.map(({ name }) => name)
  const missing = key.find((name) => !names.includes(name))
  if (missing !== undefined) {
    throw new ConnectorError(
      'config',
      `config.sync.primary_key names ${missing}, which the records do not have; they have ${names.join(', ') || 'no field with a value'}`,
    )
  }
}

/** ON CONFLICT needs a unique index on exactly the key. */
export async function hasUnique(session: Session, target: TableName, key: readonly string[]): Promise<boolean> {
  const [found] = await session.query(
    `SELECT FROM pg_index i WHERE i.indrelid = to_regclass($1) AND i.indisunique AND i.indisvalid AND i.indimmediate
       AND i.indpred IS NULL AND i.indexprs IS NULL AND i.indnkeyatts = ${key.length}
       AND (SELECT array_agg(a.attname::text ORDER BY a.attname::text) FROM pg_attribute a
            WHERE a.attrelid = i.indrelid AND a.attnum = ANY((i.indkey::int2[])[0:i.indnkeyatts - 1])) =
           (SELECT array_agg(name ORDER BY name) FROM unnest($2::text[]) AS k(name))`,
    [quoteTable(target), key],
  )
  return found !== undefined
}

export async function ensureUnique(session: Session, target: TableName, key: readonly string[]): Promise<void> {
  if (await hasUnique(session, target, key)) return
  try {
    await session.script(`CREATE UNIQUE INDEX ON ${quoteTable(target)} (${key.map(quoteName).join(', ')})`)
  } catch (error) {
    if (codeOf(error) !== sqlState.uniqueViolation) throw error
    throw new ConnectorError(
      'config',
      `${quoteText(target.table)} has several rows with one value of the primary key (${key.join(', ')}), so records cannot be merged into it; remove them or choose another key`,
      { cause: error },
    )
  }
}
