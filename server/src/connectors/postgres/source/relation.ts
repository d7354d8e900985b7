/** Describes what a stream reads: a table, a view or a query, with its columns and key. */
import { ConnectorError } from '../../contract.ts'
import { codeOf, sqlState } from '../shared/errors.ts'
import { formatStream, quoteTable, splitStream, type TableName } from '../shared/names.ts'
import type { Session } from '../shared/session.ts'
import { orNull, type RowOf, readBoolean, readInteger, readText } from '../shared/values.ts'
import { describeTypes, type SourceType } from './types.ts'

export interface SourceColumn {
  name: string
  type: SourceType
  /** The type's name in this database, for literals to compare with. */
  ownType: string
  /** Null if unknown: in views and queries. */
  nullable: boolean | null
}

export interface Relation {
  /** A FROM item. */
  from: string
  columns: SourceColumn[]
  primaryKey: string[]
  /** The number of blocks if block ranges can be read separately, else 0. */
  blocks: number
  /** From the server's statistics; null if it has none. */
  estimatedRows: number | null
}

export async function listRelations(session: Session, schemas: readonly string[]): Promise<string[]> {
  const rows = await session.query(
    `SELECT n.nspname AS schema, c.relname AS table FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
     WHERE c.relkind IN ('r', 'v', 'm', 'p', 'f') AND NOT c.relispartition
       AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname NOT LIKE 'pg\\_t%'
       AND c.relname NOT LIKE '\\_sluice\\_%'
       AND ($1::text[] = '{}' OR n.nspname = ANY($1::text[]))
       AND has_schema_privilege(n.oid, 'USAGE') AND has_table_privilege(c.oid, 'SELECT')
     ORDER BY 1, 2`,
    [schemas],
    { schema: readText, table: readText },
  )
  return rows.map(formatStream)
}

export async function describeStream(
  session: Session,
  stream: string,
  queries: Readonly<Record<string, string>>,
): Promise<Relation> {
  const query = Object.hasOwn(queries, stream) ? queries[stream] : undefined
  return query === undefined ? describeTable(session, stream) : describeQuery(session, stream, query)
}

/** The server checks the rights on everything that a statement names before its first row, and this one has none. */
export async function requireReadable(session: Session, stream: string, { from }: Relation): Promise<void> {
  try {
    await session.query(`SELECT * FROM ${from} AS t LIMIT 0`)
  } catch (error) {
    if (codeOf(error) !== sqlState.insufficientPrivilege) throw error
    throw new ConnectorError(
      'auth',
      `The role may not read ${stream}: ${(error as Error).message}. Grant it SELECT on the whole of it, and USAGE on its schema; where it may read some columns only, a pipeline that chooses them in config.columns works`,
      { cause: error },
    )
  }
}

/**
 * Rows per block at the last ANALYZE times the current number of blocks; for a partitioned table the sum of its
 * partitions. Null if a table with rows was never analyzed.
 */
const estimateSql = (version: number): string => `(
  SELECT CASE WHEN bool_and(e.rows IS NOT NULL) THEN sum(e.rows)::int8 END FROM (
    SELECT CASE WHEN pg_relation_size(p.oid) = 0 THEN 0
                WHEN p.reltuples >= 0 AND p.relpages > 0
                THEN round(p.reltuples / p.relpages * (pg_relation_size(p.oid) / current_setting('block_size')::int8)) END AS rows
    FROM pg_class p
    WHERE p.relkind IN ('r', 'm') AND ${
      version >= 120000 ? 'p.oid IN (SELECT relid FROM pg_partition_tree(c.oid) UNION SELECT c.oid)' : 'p.oid = c.oid'
    }
  ) AS e)`

async function describeTable(session: Session, stream: string): Promise<Relation> {
  const name = nameOf(stream)
  const table = await findTable(session, name, stream)
  const attributes = await session.query(
    `SELECT attname::text AS name, atttypid::int4 AS oid, atttypmod AS modifier, format_type(atttypid, atttypmod) AS own_type, NOT attnotnull AS nullable FROM pg_attribute
     WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum`,
    [table.oid],
    { name: readText, oid: readInteger, modifier: readInteger, own_type: readText, nullable: readBoolean },
  )
  const key = await session.query(
    `SELECT a.attname::text AS name FROM pg_index i, unnest(i.indkey::int2[]) WITH ORDINALITY AS k(attnum, n), pg_attribute a
     WHERE i.indrelid = $1 AND i.indisprimary AND a.attrelid = i.indrelid AND a.attnum = k.attnum ORDER BY k.n`,
    [table.oid],
    { name: readText },
  )
  const types = await describeTypes(session, attributes)
  const isView = table.kind === 'v' || table.kind === 'm'
  return {
    from: quoteTable(name),
    columns: attributes.map((attribute, index) => ({
      name: attribute.name,
      type: types[index]!,
      ownType: attribute.own_type,
      nullable: isView ? null : attribute.nullable,
    })),
    primaryKey: key.map((row) => row.name),
    blocks: (await isRanged(session, table)) ? table.blocks : 0,
    estimatedRows: table.estimated_rows,
  }
}

function nameOf(stream: string): TableName {
  const parts = splitStream(stream)
  if (parts.length > 2) {
    throw new ConnectorError(
      'config',
      `The stream ${stream} has ${parts.length} parts; postgres streams are schema.table or the name of a query`,
    )
  }
  return parts.length === 2 ? { schema: parts[0]!, table: parts[1]! } : { schema: 'public', table: stream }
}

const tableShape = {
  oid: readInteger,
  kind: readText,
  heap: readBoolean,
  blocks: readInteger,
  estimated_rows: orNull(readInteger),
}

async function findTable(
  session: Session,
  { schema, table }: TableName,
  stream: string,
): Promise<RowOf<typeof tableShape>> {
  const [found] = await session.query(
    `SELECT c.oid::int4, c.relkind::text AS kind, coalesce(am.amname = 'heap', false) AS heap,
            CASE WHEN c.relkind IN ('r', 'm') THEN pg_relation_size(c.oid) / current_setting('block_size')::int8 ELSE 0 END::int4 AS blocks,
            ${estimateSql(session.version)} AS estimated_rows
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_am am ON am.oid = c.relam
     WHERE n.nspname = $1 AND c.relname = $2 AND c.relkind IN ('r', 'v', 'm', 'p', 'f')`,
    [schema, table],
    tableShape,
  )
  if (found) return found
  throw new ConnectorError(
    'config',
    `There is no table, view or query ${stream} that this role can see; list the streams to see which exist`,
  )
}

/**
 * Reading a range of rows by ctid needs PostgreSQL 14; before, each range would scan the whole table. A table with
 * inheritance children also returns their rows, which have the same ctids.
 */
async function isRanged(session: Session, { oid, kind, heap }: RowOf<typeof tableShape>): Promise<boolean> {
  if (!heap || session.version < 140000 || (kind !== 'r' && kind !== 'm')) return false
  const [children] = await session.query(
    'SELECT EXISTS (SELECT FROM pg_inherits WHERE inhparent = $1) AS found',
    [oid],
    { found: readBoolean },
  )
  return !children?.found
}

async function describeQuery(session: Session, stream: string, text: string): Promise<Relation> {
  const from = `(\n${trimStatement(text)}\n)`
  // Described through the extended protocol, which takes one statement only: a query cannot end ours and start another.
  const result = await session.client
    .query({ text: `SELECT * FROM ${from} AS t LIMIT 0`, queryMode: 'extended' } as unknown as { text: string })
    .catch((error: Error) => {
      if (!codeOf(error)?.startsWith('42')) throw error
      throw new ConnectorError('config', `The query ${stream} cannot be run: ${error.message}. It must be one SELECT`, {
        cause: error,
      })
    })
  const fields = result.fields.map((field) => ({
    name: field.name,
    oid: field.dataTypeID,
    modifier: field.dataTypeModifier,
  }))
  const repeated = fields.find((field, index) => fields.findIndex(({ name }) => name === field.name) !== index)
  if (repeated)
    throw new ConnectorError(
      'config',
      `The query ${stream} has two columns named ${repeated.name}; give one of them another name`,
    )
  const types = await describeTypes(session, fields)
  const own = await session.query(
    'SELECT format_type(oid, modifier) AS name FROM unnest($1::oid[], $2::int4[]) WITH ORDINALITY AS t(oid, modifier, n) ORDER BY n',
    [fields.map(({ oid }) => oid), fields.map(({ modifier }) => modifier)],
    { name: readText },
  )
  if (own.length !== fields.length) throw session.violation('it did not name the type of every column')
  return {
    from,
    columns: fields.map(({ name }, index) => ({
      name,
      type: types[index]!,
      ownType: own[index]!.name,
      nullable: null,
    })),
    primaryKey: [],
    blocks: 0,
    estimatedRows: null,
  }
}

/**
 * Removes whitespace and semicolons at the end. A regular expression would take quadratic time on long runs of blanks.
 */
function trimStatement(text: string): string {
  let end = text.length
  while (end > 0 && (text[end - 1] === ';' || text[end - 1]!.trim() === '')) end -= 1
  return text.slice(0, end)
}
