/**
 * SQLite for files that nobody vouches for. A file can hold views, triggers and generated columns that run when it is read,
 * so the connection can do nothing but read the one file: no ATTACH, no extensions, no functions with side effects in its
 * schema, no virtual tables (their code trusts what is stored).
 *
 * node:sqlite is synchronous: a query that never ends blocks its process until the worker or the API kills it.
 */
import { constants, DatabaseSync, type SQLInputValue, type SQLOutputValue } from 'node:sqlite'
import { pathToFileURL } from 'node:url'
import { ConnectorError } from '../contract.ts'
import { noteOpenedFile } from '../opened-files.ts'

export type Value = SQLOutputValue

const HEADER = Buffer.from('SQLite format 3\0')
/** The longest text or blob, and so the longest row. */
const LONGEST_VALUE = 64 * 1024 * 1024

export function checkHead(head: Buffer): void {
  if (head.subarray(0, HEADER.length).equals(HEADER)) return
  if (head.length === 0) throw new ConnectorError('source', 'The file is empty, so it is no SQLite database.')
  throw new ConnectorError(
    'source',
    'The file is no SQLite database: it does not begin like one. If it is encrypted (SQLCipher), decrypt it first; if this is a web page, check the url.',
  )
}

/**
 * The file stays as it is: one in WAL mode is read without its -wal, which must have been checkpointed.
 *
 * What a query sorts or keeps goes to memory, which has a limit. A read may have to sort more than that: then it goes to
 * files in the folder for temporary files, and an executor that fills the disk with them is ended (executors/scratch-space.ts).
 */
export function openForReading(path: string, temporary: 'memory' | 'file' = 'memory'): DatabaseSync {
  noteOpenedFile()
  const url = pathToFileURL(path)
  url.searchParams.set('immutable', '1')
  const db = new DatabaseSync(url, {
    readOnly: true,
    defensive: true,
    allowExtension: false,
    limits: { attach: 0, length: LONGEST_VALUE },
  })
  try {
    harden(db)
    db.exec(`PRAGMA temp_store = ${temporary}`)
    allowReading(db, findVirtualTables(db))
    return db
  } catch (error) {
    db.close()
    throw error
  }
}

export function harden(db: DatabaseSync): void {
  db.exec('PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0; PRAGMA cache_size = -32000')
}

const READING = new Set([
  constants.SQLITE_SELECT,
  constants.SQLITE_READ,
  constants.SQLITE_FUNCTION,
  constants.SQLITE_RECURSIVE,
])
const PRAGMAS = new Set(['table_list', 'table_xinfo', 'index_list', 'index_info'])

function allowReading(db: DatabaseSync, virtual: ReadonlySet<string>): void {
  const { SQLITE_OK, SQLITE_DENY, SQLITE_PRAGMA, SQLITE_READ } = constants
  db.setAuthorizer((action, first) => {
    if (action === SQLITE_PRAGMA) return PRAGMAS.has(first ?? '') ? SQLITE_OK : SQLITE_DENY
    if (action === SQLITE_READ && virtual.has(first ?? '')) return SQLITE_DENY
    return READING.has(action) ? SQLITE_OK : SQLITE_DENY
  })
}

function findVirtualTables(db: DatabaseSync): Set<string> {
  const rows = db.prepare('PRAGMA table_list').all() as { schema: string; name: string; type: string }[]
  return new Set(rows.filter(({ schema, type }) => schema === 'main' && type === 'virtual').map(({ name }) => name))
}

/** The rows of a query, each an array; integers are bigint. */
export function* iterate(db: DatabaseSync, sql: string, ...values: SQLInputValue[]): Generator<Value[]> {
  const statement = db.prepare(sql)
  statement.setReadBigInts(true)
  statement.setReturnArrays(true)
  yield* statement.iterate(...values) as unknown as Iterable<Value[]>
}

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

const CODES: Record<number, string> = {
  11: 'The database file is damaged; check it with PRAGMA integrity_check, and repair or upload it again.',
  13: 'The disk of the worker is full; an operator has to free space.',
  18: 'A value or statement in the file is longer than 64 MB, the most that can be read.',
  23: 'It uses something that is not allowed in a file from outside (a virtual table, a function with side effects).',
  26: 'The file is no SQLite database, or it is damaged or encrypted.',
}

/** What went wrong, in our words; SQLite's own where it is about the query. */
export function explainSqlite(error: unknown, kind: 'source' | 'destination', what: string): unknown {
  if (error instanceof ConnectorError || (error as { code?: string } | null)?.code !== 'ERR_SQLITE_ERROR') return error
  const { errcode = 0, message } = error as Error & { errcode?: number }
  const known = CODES[errcode & 0xff]
  const text = known ?? `SQLite says: ${message.slice(0, 500)}.`
  return new ConnectorError(kind, `${what}. ${text}`, { cause: error, transient: (errcode & 0xff) === 13 })
}
