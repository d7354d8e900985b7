/** How SQLite orders, compares and names values of a cursor column. */
import type { DatabaseSync } from 'node:sqlite'
import { type Column, ConnectorError } from '../../contract.ts'
import type { CursorDialect } from '../../database-file/incremental.ts'
import { iterate, quoteName } from '../database.ts'

/**
 * Numbers sort before texts, so a column with both has no order that means anything. What a state holds is text: it is
 * compared as what the column holds.
 */
export function createDialect(db: DatabaseSync, from: string): CursorDialect {
  const comparable = ({ name }: Column): string => `${quoteName(name)} COLLATE BINARY`
  const literal = (column: Column, text: string): string =>
    holdsNumbers(db, from, column) ? numberLiteral(column, text) : textLiteral(text)
  return {
    comparable,
    text: (column) => {
      holdsNumbers(db, from, column)
      return quoteName(column.name)
    },
    literal,
    before: (column, text, seconds) => textLiteral(subtract(column, text, seconds)),
    // Not a hash of them: SQLite has none, and a function of ours would be called for all rows before the first is returned.
    // In hex, which has the same order as the text and can be stored whatever the values are.
    identity: (columns) => `hex(${join(columns.map(({ name }) => `quote(${quoteName(name)})`))})`,
    quoteIdentity: (text) => (/^[0-9A-F]*$/.test(text) ? `'${text}'` : "''"),
  }
}

/** A function takes at most 1,000 arguments, and a chain of operators is as deep as it is long. */
const AT_ONCE = 500

function join(parts: readonly string[]): string {
  const groups: string[] = []
  for (let at = 0; at < parts.length; at += AT_ONCE)
    groups.push(`concat_ws(',', ${parts.slice(at, at + AT_ONCE).join(', ')})`)
  return groups.length === 1 ? groups[0]! : `concat_ws(',', ${groups.join(', ')})`
}

function holdsNumbers(db: DatabaseSync, from: string, { name }: Column): boolean {
  const column = quoteName(name)
  const [row] = iterate(db, `SELECT typeof(min(${column})), typeof(max(${column})) FROM ${from}`)
  const classes = new Set([row![0], row![1]].map((type) => (type === 'real' ? 'integer' : type)))
  if (classes.size > 1 || classes.has('blob'))
    throw new ConnectorError(
      'config',
      `config.sync.cursor_field ${name} holds values of several kinds (${[...classes].join(', ')}), which have no common order; choose another`,
    )
  return classes.has('integer')
}

function numberLiteral({ name }: Column, text: string): string {
  if (/^-?\d{1,19}$/.test(text)) {
    const value = BigInt(text)
    if (value >= -(2n ** 63n) && value < 2n ** 63n) return value === -(2n ** 63n) ? '(-9223372036854775807 - 1)' : text
  }
  const value = Number(text)
  if (text !== '' && !Number.isNaN(value))
    return Number.isFinite(value) ? value.toExponential() : `${value > 0 ? '' : '-'}9e999`
  throw new ConnectorError(
    'config',
    `The state or the range holds ${JSON.stringify(text.slice(0, 60))}, but ${name} holds numbers; set it again, or delete it`,
  )
}

/** As bytes, so that no character of it needs to be quoted. */
const textLiteral = (text: string): string => `CAST(x'${Buffer.from(text).toString('hex')}' AS TEXT)`

const TIME = /^(\d{4}-\d\d-\d\d)(?:([ T])(\d\d:\d\d:\d\d)(?:\.\d+)?(Z|[+-]\d\d:\d\d)?)?$/

/** In the same form, so that texts still compare as times do. */
function subtract({ name }: Column, text: string, seconds: number): string {
  const [, date, separator, clock = '00:00:00', zone = ''] = TIME.exec(text) ?? []
  if (date === undefined)
    throw new ConnectorError(
      'config',
      `config.sync.lookback_seconds cannot go back from ${JSON.stringify(text.slice(0, 60))}, the last value of ${name}`,
    )
  const moment = new Date(Date.parse(`${date}T${clock}Z`) - seconds * 1000).toISOString()
  return separator === undefined
    ? moment.slice(0, 10)
    : `${moment.slice(0, 10)}${separator}${moment.slice(11, 19)}${zone}`
}
