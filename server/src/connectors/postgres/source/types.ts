/**
 * The types of a source's columns as another database knows them. Built-in types keep their names; types that only
 * exist in this database (enums, extension types) are read as text, composite values as jsonb, domains as their base
 * type.
 */
import type { Session } from '../shared/session.ts'
import { type RowOf, readBoolean, readInteger, readText } from '../shared/values.ts'

interface TypeReference {
  oid: number
  modifier: number
}

export interface SourceType {
  /** The column's type in the reading. */
  name: string
  /** SQL around the column's expression that makes its values fit `name`. */
  convert(expression: string): string
  /** The same for use inside row_to_json, where a `json` value could contain raw newlines. */
  convertJson(expression: string): string
}

const typeRow = {
  oid: readInteger,
  name: readText,
  kind: readText,
  built_in: readBoolean,
  element: readInteger,
  base: readInteger,
  base_modifier: readInteger,
}

type TypeRow = RowOf<typeof typeRow>

const kept = new Set(
  `bool int2 int4 int8 numeric float4 float8 text varchar bpchar bytea date time timetz timestamp timestamptz interval uuid
  json jsonb xml inet cidr macaddr macaddr8 bit varbit point line lseg box path polygon circle tsvector tsquery jsonpath
  int4range int8range numrange daterange tsrange tstzrange`.split(/\s+/),
)

const same = (expression: string) => expression
const asText = (expression: string) => `${expression}::text`
const asJsonb = (expression: string) => `to_jsonb(${expression})`
/** JSON may contain newlines outside its strings, but not inside: replacing them with blanks changes nothing. */
const onOneLine = (expression: string) => `translate(${expression}::text, E'\\n\\r', '  ')::json`

export async function describeTypes(session: Session, references: TypeReference[]): Promise<SourceType[]> {
  const rows = await session.query(
    `WITH RECURSIVE wanted AS (
       SELECT * FROM pg_type WHERE oid = ANY($1::oid[])
       UNION
       SELECT inner_type.* FROM pg_type inner_type JOIN wanted
         ON inner_type.oid IN (wanted.typbasetype, CASE WHEN wanted.typcategory = 'A' THEN wanted.typelem END)
     )
     SELECT oid::int4, typname::text AS name, typtype::text AS kind, typnamespace = 'pg_catalog'::regnamespace AS built_in,
            CASE WHEN typcategory = 'A' THEN typelem::int4 ELSE 0 END AS element, typbasetype::int4 AS base, typtypmod AS base_modifier
     FROM wanted`,
    [references.map(({ oid }) => oid)],
    typeRow,
  )
  const types = new Map(rows.map((row) => [row.oid, row]))
  const plain = references.map((reference) => strip(types, reference))
  const names = await session.query(
    'SELECT format_type(oid, modifier) AS name FROM unnest($1::oid[], $2::int4[]) WITH ORDINALITY AS t(oid, modifier, n) ORDER BY n',
    [plain.map(({ oid }) => oid), plain.map(({ modifier }) => modifier)],
    { name: readText },
  )
  if (names.length !== plain.length) throw session.violation('it did not name the type of every column')
  return plain.map(({ oid }, index) => mapType(types, oid, names[index]!.name))
}

/** The base type of a domain. */
function strip(types: Map<number, TypeRow>, reference: TypeReference): TypeReference {
  let found = reference
  // A malicious server may name domains that are defined by each other: each is visited once.
  for (let left = types.size; left >= 0; left -= 1) {
    const row = types.get(found.oid)
    if (row?.kind !== 'd') break
    found = { oid: row.base, modifier: row.base_modifier }
  }
  return found
}

function mapType(types: Map<number, TypeRow>, oid: number, formatted: string): SourceType {
  const row = types.get(oid)
  if (row === undefined) return { name: 'text', convert: asText, convertJson: asText }
  if (row.kind === 'c') return { name: 'jsonb', convert: asJsonb, convertJson: asJsonb }
  if (row.element !== 0) return mapArray(types, row, formatted)
  if (row.built_in && row.name === 'money') {
    const asNumeric = (expression: string) => `${expression}::numeric`
    return { name: 'numeric', convert: asNumeric, convertJson: asNumeric }
  }
  if (!row.built_in || !kept.has(row.name)) return { name: 'text', convert: asText, convertJson: asText }
  return { name: formatted, convert: same, convertJson: row.name === 'json' ? onOneLine : same }
}

function mapArray(types: Map<number, TypeRow>, row: TypeRow, formatted: string): SourceType {
  const element = types.get(strip(types, { oid: row.element, modifier: -1 }).oid)
  if (element?.kind === 'c') return { name: 'jsonb', convert: asJsonb, convertJson: asJsonb }
  if (!element?.built_in || !kept.has(element.name)) {
    const asTexts = (expression: string) => `${expression}::text[]`
    return { name: 'text[]', convert: asTexts, convertJson: asTexts }
  }
  const name = types.get(row.element)?.kind === 'd' ? `${element.name}[]` : formatted
  const convertJson = element.name === 'json' ? (expression: string) => onOneLine(`to_json(${expression})`) : same
  return { name, convert: same, convertJson }
}
