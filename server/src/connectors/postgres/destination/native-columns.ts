/**
 * Whether rows in binary form may be copied into a table. The server would not notice a wrong type of the same length, so
 * its own numbers of the types are compared: when the load is opened, to decide, and again by the transaction of every
 * COPY, which first takes the lock that COPY takes: from then on no other session can change a type.
 */
import { type Column, ConnectorError, type LoadContext } from '../../contract.ts'
import { NATIVE_VERSION, nativeOid } from '../shared/native-rows.ts'
import type { Session } from '../shared/session.ts'
import { declaredType, normalizeType } from '../shared/type-names.ts'
import { orNull, readInteger, readText } from '../shared/values.ts'
import type { QueueOptions } from './page-queue.ts'
import { Shape } from './shape.ts'
import type { LoadTable, TableColumn } from './table.ts'

/** `into` is the table as SQL writes it, or null while it does not exist. */
export async function takesNative(
  session: Session,
  { native, columns }: LoadContext,
  options: QueueOptions,
  into: string | null,
): Promise<boolean> {
  if (native !== true || columns === null || session.version < NATIVE_VERSION) return false
  const written = keepTypes(columns, options)
  if (written === null || into === null) return written !== null
  const table = await readTypes(session, into)
  // A column that is missing will be added with its type.
  return (
    isTable(table) &&
    findOther(
      table,
      written.filter(({ name }) => table.types.has(name)),
    ) === null
  )
}

/** The columns that are written if each declared one is, with the type it has in the source; else null. */
function keepTypes(declared: readonly Column[], options: QueueOptions): TableColumn[] | null {
  const shape = new Shape(options)
  if (shape.declare(declared).widened.length > 0) return null
  const written = shape.written()
  if (written.length !== declared.length) return null
  const same = written.every(({ type }, at) => type === declaredType(declared[at]!) && nativeOid(type) !== null)
  return same ? written : null
}

interface TableTypes {
  kind: string | null
  /** Without generated columns, which cannot be written. */
  types: Map<string, { oid: number; type: string }>
}

async function readTypes(session: Session, table: string): Promise<TableTypes> {
  const rows = await session.query(
    `SELECT c.relkind::text AS kind, a.attname::text AS name, a.atttypid::int8 AS oid, format_type(a.atttypid, a.atttypmod) AS type
     FROM pg_class c LEFT JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = ''
     WHERE c.oid = to_regclass($1)`,
    [table],
    { kind: readText, name: orNull(readText), oid: orNull(readInteger), type: orNull(readText) },
  )
  const types: TableTypes['types'] = new Map()
  for (const { name, oid, type } of rows) {
    if (name !== null && oid !== null && type !== null) types.set(name, { oid, type: normalizeType(type) })
  }
  return { kind: rows[0]?.kind ?? null, types }
}

/** Not a view or a foreign table: what becomes of its columns, others decide. */
const isTable = ({ kind }: TableTypes): boolean => kind === 'r' || kind === 'p'

const VARCHAR = 1043

/** The first of the columns that the table does not have with this very type. */
function findOther({ types }: TableTypes, columns: readonly TableColumn[]): string | null {
  const other = columns.find(({ name, type }) => {
    const is = types.get(name)
    if (is?.type !== type) return true
    // A varchar without a length is text under another number.
    return is.oid !== nativeOid(type) && !(type === 'text' && is.oid === VARCHAR)
  })
  return other?.name ?? null
}

/** In the transaction that copies. */
export async function requireTypes(
  session: Session,
  { sql, name }: LoadTable,
  columns: readonly TableColumn[],
): Promise<void> {
  await session.script(`LOCK TABLE ${sql} IN ROW EXCLUSIVE MODE`)
  const table = await readTypes(session, sql)
  const other = findOther(table, columns)
  if (isTable(table) && other === null) return
  const what = other === null ? name.table : `column ${other} of ${name.table}`
  const message = `Another session changed ${what} while rows were loaded; the run begins again`
  throw new ConnectorError('destination', message, { transient: true })
}
