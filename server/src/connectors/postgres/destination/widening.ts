/**
 * The type that a column needs before other values fit. It keeps its type if it can hold them, or if PostgreSQL itself parses
 * or refuses them (texts with uuids still go into a uuid column). Values that it would round, truncate or shift by a zone
 * widen it (types/widening.ts); if no type of its family holds both, it becomes text.
 */
import type { Encoding } from '../../contract.ts'
import { Kind, type Kinds, widenType } from '../../types/kinds.ts'
import { commonType } from '../../types/widening.ts'
import { neutralType, type PostgresType, parsePostgresType, postgresType } from '../shared/type-names.ts'

const isJson = (base: string): boolean => base === 'json' || base === 'jsonb'
const isText = (base: string): boolean => base === 'text' || base === 'varchar' || base === 'bpchar'

/** Types whose size is the number of fractional digits; six by default. */
const timed = ['time', 'timetz', 'timestamp', 'timestamptz']
const MAX_FRACTION = 6

/** The maximum length of a value of these types as text. */
const lengths: Record<string, number> = { boolean: 5, int2: 6, int4: 11, int8: 20, uuid: 36, date: 13 }

/**
 * The type that a column of `have` needs before values declared as `declared` fit, or null where it holds them. In JSON
 * lines a json column takes everything, because every value is JSON there.
 */
export function widenDeclared(have: string, declared: string, encoding: Encoding = 'tsv'): string | null {
  const [from, to] = [parsePostgresType(have), parsePostgresType(declared)]
  if (have === declared || have === 'text') return null
  if (from.list && to.list) {
    const element = widenDeclared(elementOf(have), elementOf(declared), encoding)
    return element === null ? null : `${element}[]`
  }
  if (!from.list && isJson(from.base))
    return encoding === 'ndjson' || (!to.list && (isJson(to.base) || isText(to.base))) ? null : 'text'
  if (from.list || to.list) return 'text'
  if (isText(from.base)) return longest(to) <= (from.sizes[0] ?? Number.POSITIVE_INFINITY) ? null : 'text'
  if (sameFamily(from, to)) return widenFraction(from, to)
  if (from.base === 'date' && to.base === 'timestamp') return declared
  return widenAcross(have, from, declared, to)
}

const elementOf = (list: string): string => list.replace(/\[\]$/, '')

function longest({ base, sizes }: PostgresType): number {
  const length = base === 'varchar' || base === 'bpchar' ? sizes[0] : lengths[base]
  return length ?? Number.POSITIVE_INFINITY
}

function sameFamily(from: PostgresType, to: PostgresType): boolean {
  if (from.base.startsWith('interval') && to.base.startsWith('interval')) return true
  return from.base === to.base && timed.includes(from.base)
}

/** More fractional digits, and for an interval all of its fields. */
function widenFraction(from: PostgresType, to: PostgresType): string | null {
  const fraction = to.sizes[0] ?? MAX_FRACTION
  const kept = from.sizes[0] ?? MAX_FRACTION
  const base = from.base === to.base ? from.base : 'interval'
  if (base === from.base && fraction <= kept) return null
  const most = Math.max(fraction, kept)
  return most === MAX_FRACTION ? base : `${base}(${most})`
}

function widenAcross(have: string, from: PostgresType, declared: string, to: PostgresType): string | null {
  const own = neutralType(have)
  // Not ours to judge: inet, ranges, enums, uuid and the like parse a text themselves, or refuse it.
  if (own === 'text' || own === 'uuid')
    return isText(to.base) || (from.base === 'inet' && to.base === 'cidr') ? null : 'text'
  const other = neutralType(declared)
  const common = commonType(own, other)
  if (common === 'text') return 'text'
  // numeric(3,-2) and numeric(2,5) round in ways that no decimal(p,s) describes.
  const strange = from.base === 'numeric' && from.sizes.length > 0 && own === 'decimal'
  if (common === own && !strange) return null
  return common === other ? declared : postgresType(common)
}

/** The type for a column of `have` that must also hold values of these kinds, none of which fit so far. */
export function widenForValues(have: string, kinds: Kinds): string | null {
  const { base, sizes, list } = parsePostgresType(have)
  if (timed.includes(base) && sizes.length > 0 && !list) {
    const own =
      base === 'timestamptz' ? Kind.timestamptz : base === 'timestamp' ? Kind.timestamp | Kind.date : Kind.text
    if ((kinds & ~own) === 0) return base
    if (own === Kind.text) return 'text'
  }
  const wider = widenType(neutralType(have), kinds)
  return wider === null ? null : postgresType(wider)
}

/** How many fractional digits of a second a column keeps, if fewer than six. */
export function fractionOf(type: string): number | undefined {
  const { base, sizes, list } = parsePostgresType(type)
  return timed.includes(base) && !list ? sizes[0] : undefined
}

/** Whether a column of type `from` holds more as `to`. Two that merely differ are not: others may have widened it already. */
export function isWidening(from: string, to: string): boolean {
  if (from === to || from === 'jsonb' || from === 'json') return false
  return to === 'jsonb' || to === 'text' || widenDeclared(from, to) === to
}
