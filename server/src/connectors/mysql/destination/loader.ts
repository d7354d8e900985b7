/**
 * Puts rows into one table: by LOAD DATA LOCAL, whose data is only ever what is written here, or by INSERT where the
 * server does not allow that. LOAD DATA LOCAL turns errors into warnings and leaves rows out, so every warning and every
 * missing row fails the load.
 */
import { ConnectorError } from '../../contract.ts'
import { quoteName, quoteTable, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { orNull, readInteger, readText } from '../shared/values.ts'
import type { LocalRows } from '../shared/wire/connection.ts'
import type { QueueItem } from './page-queue.ts'
import type { WrittenColumn } from './shape.ts'

export interface Loader {
  write(item: QueueItem): Promise<void>
  /** Ends the statement; the rows are in the table. */
  finish(): Promise<void>
}

/** The name in our statement, which the server has to repeat. There is no such file. */
const LOCAL_NAME = 'sluice-rows'

export async function mayLoadLocal(session: Session): Promise<boolean> {
  const [row] = await session.query('SELECT @@local_infile', { on: orNull(readInteger) })
  return row?.on === 1
}

export function createLoader(session: Session, table: TableName, local: boolean): Loader {
  return local ? createLocalLoader(session, table) : createInsertLoader(session, table)
}

function createLocalLoader(session: Session, table: TableName): Loader {
  let open: { rows: LocalRows; columns: string; records: number } | null = null

  async function finish(): Promise<void> {
    if (open === null) return
    const { rows, records } = open
    open = null
    const { affectedRows, warnings } = await rows.finish()
    await checkRows(session, table, { warnings, missing: records - affectedRows })
  }

  return {
    async write({ rows, records, columns }) {
      const clause = loadClause(columns)
      if (open !== null && open.columns !== clause) await finish()
      open ??= {
        rows: await session.load(
          `LOAD DATA LOCAL INFILE '${LOCAL_NAME}' INTO TABLE ${quoteTable(table)} CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\\t' ESCAPED BY '\\\\' LINES TERMINATED BY '\\n' ${clause}`,
          LOCAL_NAME,
        ),
        columns: clause,
        records: 0,
      }
      open.records += records
      await open.rows.write(rows)
    },
    finish,
  }
}

/** Bytes come as hex digits. */
const isBytes = ({ neutral }: WrittenColumn): boolean => neutral === 'bytes'

function loadClause(columns: readonly WrittenColumn[]): string {
  const list = columns.map((column, index) => (isBytes(column) ? `@v${index}` : quoteName(column.name)))
  const sets = columns.flatMap((column, index) =>
    isBytes(column) ? [`${quoteName(column.name)} = UNHEX(@v${index})`] : [],
  )
  return `(${list.join(', ')})${sets.length === 0 ? '' : ` SET ${sets.join(', ')}`}`
}

const MAX_EXAMPLES = 3

/** What to do about a warning, by its number. */
const advices: Record<number, string> = {
  1062: 'Remove the duplicate, or choose another config.sync.primary_key',
  1301: 'Raise max_allowed_packet on the server',
}

async function checkRows(
  session: Session,
  table: TableName,
  { warnings, missing }: { warnings: number; missing: number },
): Promise<void> {
  if (warnings === 0 && missing === 0) return
  const said = await session.query(`SHOW WARNINGS LIMIT ${MAX_EXAMPLES}`, {
    level: readText,
    number: readInteger,
    message: readText,
  })
  const examples = said.map(({ message }) => message).join('; ') || `${missing} rows are missing`
  const advice = said.map(({ number }) => advices[number]).find((each) => each !== undefined)
  throw new RowsChanged(
    `MySQL would have changed or left out values of ${table.table}, so nothing of this checkpoint was loaded: ${examples}. ${advice ?? 'Change the column, or exclude it in config.columns'}`,
    examples,
  )
}

/** What the server said about rows that it would not have taken as they are. */
export class RowsChanged extends ConnectorError {
  readonly said: string
  constructor(message: string, said: string) {
    super('destination', message)
    this.said = said
  }
}

/** A quarter of the least that a server is set to, because characters are counted, and one has up to four bytes. */
const INSERT_CHARACTERS = 256 * 1024

function createInsertLoader(session: Session, table: TableName): Loader {
  return {
    async write({ rows, columns }) {
      const head = `INSERT INTO ${quoteTable(table)} (${columns.map(({ name }) => quoteName(name)).join(', ')}) VALUES `
      let tuples: string[] = []
      let size = 0
      const flush = async (): Promise<void> => {
        if (tuples.length === 0) return
        const { affectedRows, warnings } = await session.run(head + tuples.join(','))
        const missing = tuples.length - affectedRows
        tuples = []
        size = 0
        await checkRows(session, table, { warnings, missing })
      }
      for (const line of rows.toString('utf8').split('\n').slice(0, -1)) {
        const tuple = `(${line
          .split('\t')
          .map((field, index) => toLiteral(field, columns[index]!))
          .join(',')})`
        if (size + tuple.length > INSERT_CHARACTERS) await flush()
        tuples.push(tuple)
        size += tuple.length
      }
      await flush()
    },
    async finish() {},
  }
}

/** The escapes of a row are those of a quoted string. */
function toLiteral(field: string, column: WrittenColumn): string {
  if (field === '\\N') return 'NULL'
  return isBytes(column) ? `X'${field}'` : `'${field.replaceAll("'", "''")}'`
}
