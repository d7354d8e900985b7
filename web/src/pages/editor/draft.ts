/** What the editor edits: a pipeline as the API takes it, or one config for many streams. */
import { type Fields, getIn, isObject, isSame, setIn } from './fields.ts'

export interface Draft {
  name: string
  schedule: string | null
  timezone: string | null
  enabled: boolean
  domain_id: string | null
  config: Fields
  /** Set if more than one stream is chosen: each gets a pipeline, and `config.source` has no stream. */
  many: Many | null
}

export interface Many {
  streams: string[]
  name_pattern?: string
  table_pattern?: string
}

export const EMPTY_DRAFT: Draft = {
  name: '',
  schedule: null,
  timezone: null,
  enabled: true,
  domain_id: null,
  config: {},
  many: null,
}

const OWN = ['name', 'schedule', 'timezone', 'enabled', 'domain_id', 'config'] as const
const BULK = ['streams', 'name_pattern', 'table_pattern'] as const

export type Side = 'source' | 'destination'

export function sideOf(draft: Draft, side: Side): Fields | null {
  const found = draft.config[side]
  return isObject(found) ? found : null
}

export function streamOf(draft: Draft): string | null {
  const stream = getIn(draft.config, ['source', 'stream'])
  return typeof stream === 'string' && stream !== '' ? stream : null
}

/** The body that creates it. A name that was not given is the suggested one. */
export function toBody(draft: Draft, suggestedName = ''): Fields {
  const { many, name, ...shared } = draft
  return many === null ? { name: name.trim() === '' ? suggestedName : name, ...shared } : { ...many, ...shared }
}

/** Only the fields that differ, so that saving without a change sends nothing. */
export function changedFields(stored: Draft, draft: Draft): Fields {
  return Object.fromEntries(OWN.filter((name) => !isSame(stored[name], draft[name])).map((name) => [name, draft[name]]))
}

/** The JSON face of a draft: what `toBody` made, changed by hand. Throws with a sentence that says what is wrong. */
export function readBody(body: unknown): Draft {
  if (!isObject(body)) throw new Error('It must be an object with name and config')
  const known: readonly string[] = [...OWN, ...BULK]
  const unknown = Object.keys(body).find((name) => !known.includes(name))
  if (unknown !== undefined) throw new Error(`${unknown}: unknown field; there are ${known.join(', ')}`)
  const { config = {}, streams } = body
  if (!isObject(config)) throw new Error('config: must be an object with source and destination')
  const text = (name: string): string | null => {
    const value = body[name] ?? null
    if (value !== null && typeof value !== 'string') throw new Error(`${name}: must be text or null`)
    return value
  }
  const { enabled = true } = body
  if (typeof enabled !== 'boolean') throw new Error('enabled: must be true or false')
  return {
    name: text('name') ?? '',
    schedule: text('schedule'),
    timezone: text('timezone'),
    domain_id: text('domain_id'),
    enabled,
    config,
    many: streams === undefined ? null : readMany(streams, text('name_pattern'), text('table_pattern')),
  }
}

function readMany(streams: unknown, name_pattern: string | null, table_pattern: string | null): Many {
  if (!Array.isArray(streams) || !streams.every((stream) => typeof stream === 'string'))
    throw new Error('streams: must be a list of names')
  return { streams, ...(name_pattern !== null && { name_pattern }), ...(table_pattern !== null && { table_pattern }) }
}

/** One stream is a pipeline; more are one for each. */
export function withStreams(draft: Draft, streams: readonly string[]): Draft {
  const [only] = streams
  if (streams.length > 1)
    return {
      ...draft,
      config: withoutColumns(setIn(draft.config, ['source', 'stream'], undefined)),
      many: { ...draft.many, streams: [...streams] },
    }
  const same = only !== undefined && only === streamOf(draft)
  const config = setIn(draft.config, ['source', 'stream'], only)
  // The columns and keys of another stream mean nothing for this one.
  return { ...draft, config: same ? config : withoutColumns(config), many: null }
}

function withoutColumns(config: Fields): Fields {
  return [['columns'], ['sync', 'cursor_field'], ['sync', 'primary_key']].reduce(
    (changed, path) => setIn(changed, path, undefined),
    config,
  )
}

/** An empty pattern is left out, so that the default applies. */
export function withPattern(many: Many, name: 'name_pattern' | 'table_pattern', pattern: string): Many {
  const { [name]: _, ...rest } = many
  return pattern === '' ? rest : { ...rest, [name]: pattern }
}
