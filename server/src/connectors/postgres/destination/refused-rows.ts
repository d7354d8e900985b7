/**
 * Finds the rows that the server refuses, where a pipeline quarantines them. A statement that fails because of a row is
 * undone by its savepoint and repeated with halves of its rows, until a row is refused alone. That takes two statements and
 * the logarithm of the batch for each such row, and every row is sent or read as often as that at most.
 *
 * Rows in a table of our own are halved by their place in it (ctid): blocks first, then the rows of a block.
 */
import type { RefusedRecords } from '../../contract.ts'
import { codeOf } from '../shared/errors.ts'
import { quoteName, quoteText } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { readInteger, readText } from '../shared/values.ts'
import type { TableColumn } from './table.ts'

interface Refusal {
  message: string
  code: string
  detail?: string
  where?: string
}

/** Data exceptions, constraints, check options of views, RAISE in a trigger, and rows too large for a page or an index. */
const REFUSALS = /^(22...|23...|44000|P0001|54000)$/
/** The rows are not what COPY reads: a fault of ours or of the source, not of a record. */
const BAD_COPY_FORMAT = '22P04'

function isRefusal(error: unknown): error is Refusal {
  const code = codeOf(error) ?? ''
  return REFUSALS.test(code) && code !== BAD_COPY_FORMAT
}

export function describeRefusal({ message, detail, where, code }: Refusal): string {
  const column = /, column ([^:]+)/.exec(where ?? '')?.[1]
  return `${[message, detail, column && `column ${column}`].filter(Boolean).join('; ')} (SQLSTATE ${code})`
}

/** Nothing of the work remains if the server refuses a row of it. */
export async function tryRows<T>(
  session: Session,
  work: () => Promise<T>,
): Promise<{ done: T; refusal?: never } | { refusal: Refusal }> {
  await session.script('SAVEPOINT sluice_rows')
  try {
    const done = await work()
    await session.script('RELEASE SAVEPOINT sluice_rows')
    return { done }
  } catch (error) {
    if (!isRefusal(error)) throw error
    await session.script('ROLLBACK TO SAVEPOINT sluice_rows; RELEASE SAVEPOINT sluice_rows')
    return { refusal: error }
  }
}

/** Otherwise a row would be refused when the transaction commits, and nobody could say which. */
export async function checkAtOnce(session: Session, refused: RefusedRecords | undefined): Promise<void> {
  if (refused) await session.script('SET CONSTRAINTS ALL IMMEDIATE')
}

interface OwnRows {
  /** A table of our own, as SQL writes it. */
  from: string
  /** What a record consists of. */
  columns: readonly TableColumn[]
}

interface RowMove extends OwnRows {
  /** The statement for all rows, or for those that fulfil a condition on `s`. */
  statement(condition: string | null): string
}

/** Runs the statement, without the rows that are refused. */
export async function moveRows(session: Session, move: RowMove, refused: RefusedRecords | undefined): Promise<void> {
  if (!refused) return session.script(move.statement(null))
  const attempt = (condition: string | null) => tryRows(session, () => session.script(move.statement(condition)))
  if (!(await attempt(null)).refusal) return

  const halve = async (from: number, to: number, work: (from: number, to: number) => Promise<void>): Promise<void> => {
    const middle = Math.floor((from + to) / 2)
    await work(from, middle)
    await work(middle, to)
  }
  const moveList = async (places: readonly string[]): Promise<void> => {
    if (places.length === 0) return
    const { refusal } = await attempt(`s.ctid = ANY ('{${places.map((place) => `"${place}"`).join(',')}}'::tid[])`)
    if (!refusal) return
    if (places.length > 1) return halve(0, places.length, (from, to) => moveList(places.slice(from, to)))
    const [record] = await readRecords(session, move, `s.ctid = '${places[0]}'`)
    await refused.add(record!, describeRefusal(refusal))
  }
  const moveBlocks = async (from: number, to: number): Promise<void> => {
    const condition = `s.ctid >= '(${from},0)' AND s.ctid < '(${to},0)'`
    if (to - from === 1) return moveList(await readPlaces(session, move.from, condition))
    if ((await attempt(condition)).refusal) await halve(from, to, moveBlocks)
  }
  const blocks = await countBlocks(session, move.from)
  if (blocks > 1) await halve(0, blocks, moveBlocks)
  else await moveBlocks(0, 1)
}

async function countBlocks(session: Session, from: string): Promise<number> {
  const [row] = await session.query(
    `SELECT pg_relation_size(${quoteText(from)}::regclass) / current_setting('block_size')::int8 AS blocks`,
    [],
    { blocks: readInteger },
  )
  return row!.blocks
}

async function readPlaces(session: Session, from: string, condition: string): Promise<string[]> {
  const rows = await session.query(`SELECT s.ctid::text AS place FROM ${from} AS s WHERE ${condition}`, [], {
    place: readText,
  })
  return rows.map(({ place }) => place)
}

/** A json value may contain newlines between its parts; inside strings they are escaped. */
const onOneLine = (record: string): string => record.replace(/[\r\n]/g, ' ')

const recordOf = (columns: readonly TableColumn[]): string =>
  `row_to_json((SELECT r FROM (SELECT ${columns.map(({ name }) => `s.${quoteName(name)}`).join(', ')}) AS r))::text`

async function readRecords(session: Session, { from, columns }: OwnRows, condition: string): Promise<string[]> {
  const sql = `SELECT ${recordOf(columns)} AS record FROM ${from} AS s WHERE ${condition}`
  return (await session.query(sql, [], { record: readText })).map(({ record }) => onOneLine(record))
}

const AT_ONCE = 500

/** Takes all rows that fulfil the condition out of the table. */
export async function refuseRows(
  session: Session,
  { from, columns }: OwnRows,
  { condition, reason }: { condition: string; reason: string },
  refused: RefusedRecords,
): Promise<void> {
  for (;;) {
    const rows = await session.query(
      `DELETE FROM ${from} AS s WHERE s.ctid = ANY (ARRAY(SELECT ctid FROM ${from} WHERE ${condition} LIMIT ${AT_ONCE}))
       RETURNING ${recordOf(columns)} AS record`,
      [],
      { record: readText },
    )
    for (const { record } of rows) await refused.add(onOneLine(record), reason)
    if (rows.length < AT_ONCE) return
  }
}
