/**
 * Finds the rows that the server refuses, where a pipeline quarantines them. InnoDB undoes a statement that fails, so it is
 * repeated with halves of its rows, by their numbers in a table of our own, until a row is refused alone.
 */
import type { RefusedRecords } from '../../contract.ts'
import { writeRefused } from '../../types/refused-row.ts'
import { unescapeField } from '../../types/tsv.ts'
import { quoteName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { orNull, readInteger, readText, type Shape } from '../shared/values.ts'
import { ServerError } from '../shared/wire/packets.ts'
import type { TableColumn } from './columns.ts'
import { ordinalColumn } from './stage.ts'

/** Data exceptions, constraints, check options of views, SIGNAL in a trigger. */
const REFUSALS = /^(22...|23...|44000|45000)$/
/** No default, wrong value, no partition, checks: they have the general SQLSTATE. */
const numbers = new Set([1364, 1366, 1265, 1526, 1748, 3819, 4025])

export const isRefusal = (error: unknown): error is ServerError =>
  error instanceof ServerError && (REFUSALS.test(error.state) || numbers.has(error.errno))

export const describeRefusal = ({ message, errno }: ServerError): string =>
  `${message.replace(/\.$/, '')} (error ${errno})`

const number = quoteName(ordinalColumn)

interface OwnRows {
  /** A table of our own whose rows are numbered, as SQL writes it. */
  from: string
  /** What a record consists of. */
  columns: readonly TableColumn[]
}

interface RowMove extends OwnRows {
  /** The statement for all rows, or for those that fulfil a condition. */
  statement(condition: string | null): string
}

/** Runs the statement, without the rows that are refused. */
export async function moveRows(session: Session, move: RowMove, refused: RefusedRecords | undefined): Promise<void> {
  const attempt = async (condition: string | null): Promise<ServerError | null> => {
    try {
      await session.run(move.statement(condition))
      return null
    } catch (error) {
      if (!refused || !isRefusal(error)) throw error
      return error
    }
  }
  if ((await attempt(null)) === null) return
  const [range] = await session.query(`SELECT MIN(${number}), MAX(${number}) FROM ${move.from}`, {
    first: readInteger,
    last: readInteger,
  })
  const { first, last } = range!

  async function moveRange(from: number, to: number): Promise<void> {
    const condition = `${number} BETWEEN ${from} AND ${to}`
    const refusal = await attempt(condition)
    if (refusal === null) return
    if (from < to) return halve(from, to)
    const [row] = await readRecords(session, move, condition)
    await refused!.add(row!.record, describeRefusal(refusal))
  }
  async function halve(from: number, to: number): Promise<void> {
    const middle = Math.floor((from + to) / 2)
    await moveRange(from, middle)
    await moveRange(middle + 1, to)
  }
  if (first < last) await halve(first, last)
  else await moveRange(first, last)
}

const AT_ONCE = 500

/** Takes all rows that fulfil the condition out of the table. */
export async function refuseRows(
  session: Session,
  rows: OwnRows,
  { condition, reason }: { condition: string; reason: string },
  refused: RefusedRecords,
): Promise<void> {
  for (;;) {
    const found = await readRecords(session, rows, `(${condition}) ORDER BY ${number} LIMIT ${AT_ONCE}`)
    for (const { record } of found) await refused.add(record, reason)
    const last = found.at(-1)
    if (last === undefined) return
    await session.run(`DELETE FROM ${rows.from} WHERE (${condition}) AND ${number} <= ${last.number}`)
  }
}

async function readRecords(
  session: Session,
  { from, columns }: OwnRows,
  condition: string,
): Promise<{ number: number; record: string }[]> {
  const shape: Shape = Object.fromEntries(columns.map((_, at) => [`c${at}`, orNull(readText)]))
  const list = [number, ...columns.map(textSql)].join(', ')
  const rows = await session.query(`SELECT ${list} FROM ${from} WHERE ${condition}`, { number: readInteger, ...shape })
  return rows.map((row) => {
    const texts = columns.map((_, at) => (row as Record<string, unknown>)[`c${at}`] as string | null)
    return { number: row.number, record: writeRefused(columns.map(named), texts) }
  })
}

const named = ({ name, neutral }: TableColumn) => ({ name, type: neutral })

/** The text that the contract has for a value. */
function textSql({ name, neutral }: TableColumn): string {
  const column = quoteName(name)
  if (neutral === 'bytes') return `CONCAT('\\\\x', LOWER(HEX(${column})))`
  if (neutral === 'boolean') return `IF(${column} IS NULL, NULL, IF(${column}, 't', 'f'))`
  return neutral === 'timestamptz' ? `CONCAT(${column}, '+00')` : `CAST(${column} AS CHAR)`
}

/** A row as LOAD DATA reads it, without its newline (transcode.ts). */
export function writeLoadedRow(columns: readonly TableColumn[], row: string): string {
  const texts = row.split('\t').map((field, at) => {
    const text = unescapeField(field)
    const neutral = columns[at]?.neutral
    if (text === null) return null
    if (neutral === 'boolean') return text === '1' ? 't' : text === '0' ? 'f' : text
    return neutral === 'bytes' ? `\\x${text}` : neutral === 'timestamptz' ? `${text}+00` : text
  })
  return writeRefused(columns.map(named), texts)
}
