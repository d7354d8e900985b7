/**
 * Rows in PostgreSQL's binary COPY form, and the types that travel in it. A binary value carries no type (only arrays name
 * that of their elements), and the server believes what it is told: a `timestamptz` read as an `int8` is a wrong number
 * and no error. So the form is used only for the types below. They are built in, with the same number in every server, and
 * their binary form has not changed since PostgreSQL 8.4. Each end compares these numbers with what its own server says
 * about the very columns that are copied.
 *
 * Text is converted between the encodings of server and client as in the text form, and lengths and digits are checked.
 */
import { parsePostgresType } from './type-names.ts'

/** Signature, flags, length of the header's extension: in front of the first row. */
export const copyHeader = Buffer.concat([Buffer.from('PGCOPY\n\xff\r\n\0', 'latin1'), Buffer.alloc(8)])
/** The number of fields of a row that does not exist: after the last row. */
export const copyTrailer = Buffer.from([0xff, 0xff])

/** Older servers may store times as floating point numbers; zero is a server that does not say what it is. */
export const NATIVE_VERSION = 100000

/** The numbers of each type and of its array. */
const oids: Record<string, readonly [number, number]> = {
  boolean: [16, 1000],
  bytea: [17, 1001],
  int8: [20, 1016],
  int2: [21, 1005],
  int4: [23, 1007],
  text: [25, 1009],
  json: [114, 199],
  cidr: [650, 651],
  float4: [700, 1021],
  float8: [701, 1022],
  macaddr8: [774, 775],
  macaddr: [829, 1040],
  inet: [869, 1041],
  bpchar: [1042, 1014],
  varchar: [1043, 1015],
  date: [1082, 1182],
  time: [1083, 1183],
  timestamp: [1114, 1115],
  timestamptz: [1184, 1185],
  interval: [1186, 1187],
  timetz: [1266, 1270],
  bit: [1560, 1561],
  'bit varying': [1562, 1563],
  numeric: [1700, 1231],
  uuid: [2950, 2951],
  jsonb: [3802, 3807],
}

/** The number that a server must give for a column of this type (in our one name for it), or null: it stays text. */
export function nativeOid(type: string): number | null {
  const { base, list } = parsePostgresType(type)
  const known = base.startsWith('interval') ? 'interval' : base
  const [own, array] = Object.hasOwn(oids, known) ? oids[known]! : []
  return (list ? array : own) ?? null
}
