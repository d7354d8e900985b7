/**
 * Python type hints of a custom source's settings as schemas, as far as a run checks them (python/svc/source/fields.py):
 * a config that the run would refuse is refused when it is saved. What is not known here takes any value.
 */

import type { Json } from '../json/json.ts'
import { type TSchema, Type } from '../schema.ts'

const LONGEST_HINT = 200

const array = Type.Array(Type.Unknown())
const object = Type.Object({}, { additionalProperties: true })
const text = Type.String()

const simple: Record<string, { schema: TSchema; example: Json }> = {
  str: { schema: text, example: 'text' },
  int: { schema: Type.Integer(), example: 1 },
  float: { schema: Type.Number(), example: 1.5 },
  bool: { schema: Type.Boolean(), example: true },
  list: { schema: array, example: [] },
  tuple: { schema: array, example: [] },
  set: { schema: array, example: [] },
  frozenset: { schema: array, example: [] },
  dict: { schema: object, example: {} },
  date: { schema: text, example: '2024-01-31' },
  datetime: { schema: text, example: '2024-01-31T12:00:00Z' },
  Decimal: { schema: Type.Union([Type.Number(), text]), example: 1.5 },
  None: { schema: Type.Null(), example: null },
}
const aliases: Record<string, string> = {
  List: 'list',
  Tuple: 'tuple',
  Set: 'set',
  FrozenSet: 'frozenset',
  Dict: 'dict',
}

/** Null: any value. */
export function schemaOfHint(hint: string | null): TSchema | null {
  if (hint === null || hint.length > LONGEST_HINT) return null
  const choices = choicesOf(hint)
  if (choices !== null) return unionOf(choices.map(schemaOfHint))
  const { name, inner } = nameOf(hint)
  if (name === 'Literal') return literalsOf(inner)
  return findSimple(name)?.schema ?? null
}

interface HintedField {
  name: string
  type_hint: string | null
  required: boolean
}

/** The settings that a form asks for, as JSON Schema. */
export function settingsSchemaOf(fields: readonly HintedField[]): Record<string, unknown> {
  const properties = fields.map(({ name, type_hint }) => [
    name,
    { ...schemaOfHint(type_hint), ...aboutHint(type_hint) },
  ])
  return {
    type: 'object',
    properties: Object.fromEntries(properties),
    required: fields.filter(({ required }) => required).map(({ name }) => name),
    additionalProperties: true,
  }
}

/** What the schema of a hint does not say. */
function aboutHint(hint: string | null): { description?: string; examples?: Json[] } {
  if (hint === null || PLAIN.has(hint)) return {}
  const isMoment = /\bdate(time)?\b/.test(hint)
  return { description: hint, ...(isMoment && { examples: [exampleOfHint(hint)] }) }
}

const PLAIN = new Set(['str', 'int', 'float', 'bool'])

/** A value of the right kind. */
export function exampleOfHint(hint: string | null): Json {
  if (hint === null || hint.length > LONGEST_HINT) return 'text'
  const [first] = choicesOf(hint) ?? []
  if (first !== undefined) return exampleOfHint(first)
  const { name, inner } = nameOf(hint)
  if (name === 'Literal') return readLiterals(inner)?.[0] ?? 'text'
  return findSimple(name)?.example ?? 'text'
}

function findSimple(name: string) {
  const known = Object.hasOwn(aliases, name) ? aliases[name]! : name
  return Object.hasOwn(simple, known) ? simple[known] : undefined
}

/** The members of `A | B`, `Union[A, B]` and `Optional[A]`; null for any other hint. */
function choicesOf(hint: string): string[] | null {
  const members = split(hint, '|')
  if (members.length > 1) return members
  const { name, inner } = nameOf(hint)
  if (name === 'Union') return split(inner, ',')
  return name === 'Optional' ? [inner, 'None'] : null
}

function unionOf(members: (TSchema | null)[]): TSchema | null {
  const known = members.filter((member) => member !== null)
  return known.length < members.length || known.length === 0 ? null : Type.Union(known)
}

function literalsOf(inner: string): TSchema | null {
  const values = readLiterals(inner)
  return values && Type.Union(values.map((value) => Type.Literal(value)))
}

/** Only strings without escapes and whole numbers; null for anything else. */
function readLiterals(inner: string): (string | number)[] | null {
  const values = split(inner, ',').map((item) => {
    const quoted = /^(['"])([^'"\\]*)\1$/.exec(item)
    if (quoted) return quoted[2]!
    return /^-?\d{1,15}$/.test(item) ? Number(item) : null
  })
  const known = values.filter((value) => value !== null)
  return known.length < values.length || known.length === 0 ? null : known
}

/** `typing.List[str]` is the name `List` with `str` inside. */
function nameOf(hint: string): { name: string; inner: string } {
  const found = /^(?:typing\.|datetime\.|decimal\.)?(\w+)(?:\[(.*)\])?$/s.exec(hint.trim())
  return { name: found?.[1] ?? '', inner: found?.[2] ?? '' }
}

/** Splits outside brackets and quotes. */
function split(hint: string, separator: string): string[] {
  const parts = ['']
  let depth = 0
  let quote = ''
  for (const character of hint) {
    if (quote !== '') quote = character === quote ? '' : quote
    else if (character === "'" || character === '"') quote = character
    else if (character === '[') depth++
    else if (character === ']') depth--
    if (character === separator && depth === 0 && quote === '') parts.push('')
    else parts[parts.length - 1] += character
  }
  return parts.map((part) => part.trim())
}
