/** The part of JSON Schema that settings use, and what a form needs to know about it. */
export interface Schema {
  type?: string | readonly string[]
  title?: string
  description?: string
  default?: unknown
  const?: unknown
  enum?: readonly unknown[]
  anyOf?: readonly Schema[]
  oneOf?: readonly Schema[]
  properties?: Record<string, Schema>
  required?: readonly string[]
  additionalProperties?: boolean | Schema
  items?: Schema
  minLength?: number
  maxLength?: number
  minimum?: number
  maximum?: number
  maxItems?: number
  pattern?: string
  format?: string
  examples?: readonly unknown[]
  /** A text with lines: `application/yaml`, `application/sql`, `application/x-pem-file`. */
  contentMediaType?: string
  /** Write-only: shown as MASK, and kept while it stays so. */
  secret?: boolean
  /** Settings that exclude each other: one of these sets is given. The first is offered first. */
  either?: readonly { title: string; fields: readonly string[] }[]
  /** The setting `by` decides which others have a meaning; what is named in no case always has one. */
  cases?: { by: string; otherwise?: string; fields: Record<string, readonly string[]> }
  /** How the schemas of Airbyte manifests say the same things. */
  airbyte_secret?: boolean
  multiline?: boolean
  order?: number
  /** A pipeline may choose it beside a saved connector. */
  override?: boolean
}

export type Settings = Record<string, unknown>

export const MASK = '********'

export type Kind =
  | 'choice'
  | 'text'
  | 'long'
  | 'secret'
  | 'number'
  | 'boolean'
  /** A text, a number or a boolean, whichever is typed. */
  | 'scalar'
  | 'texts'
  /** Any number of given values. */
  | 'many'
  | 'pairs'
  | 'list'
  | 'group'
  /** One of several shapes. */
  | 'variants'
  | 'json'

/** The schema without `null`: an empty field stands for it. */
export function withoutNull(schema: Schema): Schema {
  if (Array.isArray(schema.type)) {
    const types: string[] = schema.type.filter((type: string) => type !== 'null')
    return types.length === 1
      ? { ...schema, type: types[0]! }
      : { ...without(schema, 'type'), anyOf: types.map((type) => ({ type })) }
  }
  const members = schema.anyOf ?? schema.oneOf
  const rest = members?.filter(({ type }) => type !== 'null')
  if (!members || rest!.length === members.length) return schema
  const bare = without(without(schema, 'anyOf'), 'oneOf')
  return rest!.length === 1 ? { ...rest![0], ...bare } : { ...bare, anyOf: rest! }
}

export function kindOf(given: Schema): Kind {
  const schema = withoutNull(given)
  if (choicesOf(schema) !== null) return 'choice'
  const members = schema.anyOf ?? schema.oneOf
  if (members) return kindOfUnion(members)
  switch (schema.type) {
    case 'boolean':
      return 'boolean'
    case 'integer':
    case 'number':
      return 'number'
    case 'string':
      // A key in PEM has lines, and a password field has only one.
      return isLong(schema) ? 'long' : isSecret(schema) ? 'secret' : 'text'
    case 'array':
      return schema.items ? kindOfList(kindOf(schema.items)) : 'json'
  }
  if (schema.properties && Object.keys(schema.properties).length > 0) return 'group'
  if (schema.type === undefined && !/\b(json|object|dict|list|tuple|body)\b/i.test(schema.description ?? ''))
    return 'scalar'
  return schema.type === 'object' && isScalar(schema.additionalProperties) ? 'pairs' : 'json'
}

function kindOfList(items: Kind): Kind {
  return items === 'text' ? 'texts' : items === 'choice' ? 'many' : 'list'
}

function kindOfUnion(members: readonly Schema[]): Kind {
  const kinds = members.map(kindOf)
  if (kinds.every((kind) => kind === 'text' || kind === 'number' || kind === 'boolean')) return 'scalar'
  if (kinds.includes('texts') && kinds.every((kind) => kind === 'text' || kind === 'texts')) return 'texts'
  return kinds.includes('json') ? 'json' : 'variants'
}

/** The values of which one is chosen, or null if any value may be given. */
function choicesOf(schema: Schema): string[] | null {
  return optionsOf(schema)?.map(({ value }) => String(value)) ?? null
}

export function optionsOf(schema: Schema): { value: unknown; title: string }[] | null {
  if (schema.enum) return schema.enum.filter((value) => value !== null).map((value) => ({ value, title: say(value) }))
  const members = schema.anyOf ?? schema.oneOf
  if (!members?.every((member) => member.const !== undefined)) return null
  return members.map((member) => ({ value: member.const, title: member.title ?? say(member.const) }))
}

function say(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

export function isSecret(schema: Schema): boolean {
  return schema.secret === true || schema.airbyte_secret === true || schema.format === 'password'
}

function isLong({ contentMediaType, multiline, maxLength }: Schema): boolean {
  return contentMediaType !== undefined || multiline === true || (maxLength ?? 0) > 10_000
}

function isScalar(schema: boolean | Schema | undefined): boolean {
  return typeof schema === 'object' && ['text', 'long', 'number', 'boolean', 'scalar'].includes(kindOf(schema))
}

/**
 * Settings in the order of a form. First what must be given; where nothing must (a server can be named in several ways), what
 * has no default and is not a group. The rest comes after it.
 */
export function arrange(schema: Schema): { first: string[]; more: string[] } {
  const properties = schema.properties ?? {}
  const order = (name: string) => properties[name]!.order ?? Number.POSITIVE_INFINITY
  // Sorting is stable: without an order, the settings stay as they were declared.
  const names = Object.keys(properties).sort((a, b) => (order(a) < order(b) ? -1 : order(a) > order(b) ? 1 : 0))
  const plain = (name: string) =>
    properties[name]!.default === undefined && !COMPLEX.includes(kindOf(properties[name]!))
  const decides = (name: string) => name === schema.cases?.by
  const first = names.some((name) => isRequired(schema, name) && !decides(name))
    ? names.filter((name) => isRequired(schema, name) || decides(name))
    : names.filter((name) => plain(name) || decides(name))
  const more = names.filter((name) => !first.includes(name))
  // Hiding one or two small fields would cost more than it saves.
  const few = more.length <= 2 && more.every((name) => !COMPLEX.includes(kindOf(properties[name]!)))
  return first.length === 0 || few ? { first: names, more: [] } : { first, more }
}

/** The settings that have a meaning now. What has a value is shown in any case, so that it can be seen and removed. */
export function applicable(schema: Schema, value: Settings): Schema {
  if (!schema.cases || !schema.properties) return schema
  const { by, otherwise, fields } = schema.cases
  const given = value[by] ?? otherwise
  const chosen = fields[String(given)] ?? []
  const others = new Set(Object.values(fields).flat())
  const properties = Object.entries(schema.properties).flatMap(([name, property]): [string, Schema][] => {
    if (name === by) return [[name, decider(property, schema.cases!, given)]]
    if (!others.has(name)) return [[name, property]]
    if (chosen.includes(name)) return [[name, withoutCase(property)]]
    return value[name] === undefined ? [] : [[name, property]]
  })
  return { ...schema, properties: Object.fromEntries(properties) }
}

function decider(property: Schema, { otherwise, fields }: NonNullable<Schema['cases']>, given: unknown): Schema {
  const values = new Set([...Object.keys(fields), ...(typeof given === 'string' ? [given] : [])])
  return { ...without(property, 'description'), ...(otherwise && { default: otherwise }), enum: [...values] }
}

/** "offset: the first offset." → "The first offset." */
function withoutCase(property: Schema): Schema {
  const schema = withoutNull(property)
  const words = schema.description?.replace(/^[a-z0-9_, ]+: /, '')
  return words ? { ...schema, description: words.charAt(0).toUpperCase() + words.slice(1) } : schema
}

const COMPLEX: readonly Kind[] = ['group', 'json', 'pairs', 'long', 'list', 'variants']

export function isRequired(schema: Schema, name: string): boolean {
  return schema.required?.includes(name) === true && schema.properties?.[name]?.default === undefined
}

const ACRONYMS = /\b(api|ca|csv|hmac|http|https|id|ids|json|sql|ssh|tls|url|urls|uri|yaml)\b/g

/** "access_key_id" → "Access key ID" */
export function labelOf(name: string, schema: Schema): string {
  if (schema.title) return schema.title
  const words = name
    .replace(/([a-z])([A-Z])/g, '$1_$2')
    .toLowerCase()
    .replace(/[_-]+/g, ' ')
    .replace(ACRONYMS, (word) =>
      /^(id|url)s$/.test(word) ? `${word.slice(0, -1).toUpperCase()}s` : word.toUpperCase(),
    )
  return words.charAt(0).toUpperCase() + words.slice(1)
}

/** What an empty field shows: the default, or an example. */
export function placeholderOf(schema: Schema): string | undefined {
  const preset = presetOf(schema)
  if (preset !== undefined) return preset
  const [example] = schema.examples ?? []
  return example === undefined ? undefined : `such as ${say(example)}`
}

/** The default as a text. Where it depends on something else, only the description names it. */
export function presetOf({ default: preset, description }: Schema): string | undefined {
  if (preset !== undefined && preset !== '' && typeof preset !== 'object') return String(preset)
  return /(?:^|\. )Default:? ([\w*./-]*[\w*/-])\.?$/.exec(description ?? '')?.[1]
}

/** The settings without what was left empty, so that defaults apply. */
export function withValue(settings: Settings, name: string, value: unknown): Settings {
  return value === undefined ? without(settings, name) : { ...settings, [name]: value }
}

function without<T extends object>(object: T, name: string): T {
  return Object.fromEntries(Object.entries(object).filter(([key]) => key !== name)) as T
}

export function isObject(value: unknown): value is Settings {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
