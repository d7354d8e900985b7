/** The variables of templates, found in the scope of a plan when a template asks for them. */
import type { Json } from '../../../json/json.ts'
import type { Fields, Scope } from '../../http/scope.ts'
import { textArgument } from '../template/arguments.ts'
import { LINK_TEXT } from '../template/header-names.ts'
import type { Variables } from '../template/template.ts'
import { Callable, type Dict, TemplateError, Undefined, type Value } from '../template/values.ts'

const ALWAYS = ['config', 'parameters'] as const
const SLICE = ['stream_slice', 'stream_interval', 'stream_partition', 'stream_state'] as const

/** Which variables exist where. A template that uses another one is refused. */
export const NAMES = {
  config: [...ALWAYS],
  jwt: [...ALWAYS, 'json_loads'],
  request: [...ALWAYS, ...SLICE, 'next_page_token', 'creation_response', 'polling_response', 'download_target'],
  page: [...ALWAYS, 'response', 'headers', 'last_record', 'last_page_size'],
  answer: [...ALWAYS, 'response', 'headers'],
  record: [...ALWAYS, ...SLICE, 'record', 'next_page_token'],
  added: [...ALWAYS, ...SLICE, 'record', 'value', 'path'],
  removed: [...ALWAYS, 'property'],
  components: [...ALWAYS, ...SLICE, 'components_values', 'stream_template_config'],
  rawSchema: [...ALWAYS, 'raw_schema'],
  session: [...ALWAYS, 'session_token'],
} as const

export type Known = keyof typeof NAMES

export interface Bound {
  config: Fields
  parameters: Fields
  /** Further variables of one place. */
  more?: Dict
}

type Finder = (scope: Scope) => Value

const FINDERS: Record<string, Finder> = {
  stream_slice: sliceOf,
  stream_interval: sliceOf,
  stream_partition: sliceOf,
  stream_state: (scope) => scope.state ?? {},
  next_page_token: (scope) => (scope.token === null ? null : { next_page_token: scope.token }),
  response: (scope) => scope.answer?.body ?? {},
  headers: headersOf,
  last_record: (scope) => scope.lastRecord,
  last_page_size: (scope) => scope.pageRecords,
  record: (scope) => scope.record,
  creation_response: (scope) => scope.job?.created ?? null,
  polling_response: (scope) => scope.job?.polled ?? null,
  download_target: (scope) => scope.job?.target ?? null,
}

function headersOf({ answer }: Scope): Dict {
  const text = answer?.headers.link
  return { ...answer?.headers, link: { ...answer?.links }, ...(text !== undefined && { [LINK_TEXT]: text }) }
}

/** Python's `json.loads`, which exists where tokens are signed: keys are often pasted as a JSON file. */
const JSON_LOADS = new Callable(([text]) => {
  try {
    return JSON.parse(textArgument(text, 'json_loads'))
  } catch {
    throw new TemplateError('json_loads was given something that is not JSON')
  }
})

export function variables(scope: Scope | null, { config, parameters, more }: Bound): Variables {
  return (name) => {
    if (name === 'config') return config
    if (name === 'parameters') return parameters
    if (name === 'json_loads') return JSON_LOADS
    if (more !== undefined && Object.hasOwn(more, name)) return more[name]!
    if (scope === null) return new Undefined(name)
    const finder = FINDERS[name]
    if (finder !== undefined) return finder(scope)
    return Object.hasOwn(scope.extra, name) ? scope.extra[name]! : new Undefined(name)
  }
}

const slices = new WeakMap<Fields, { interval: Fields; slice: Dict }>()

/** Partition and interval as one, with the parts as hidden attributes, as Airbyte's slice has them. */
function sliceOf(scope: Scope): Dict {
  const known = slices.get(scope.partition)
  if (known?.interval === scope.interval) return known.slice
  const slice: Dict = { ...scope.partition, ...scope.interval }
  const hidden: Record<string, Json> = {
    extra_fields: scope.extra,
    partition: scope.partition,
    cursor_slice: scope.interval,
    _partition: scope.partition,
  }
  for (const [name, value] of Object.entries(hidden)) {
    if (!Object.hasOwn(slice, name)) Object.defineProperty(slice, name, { value, enumerable: false })
  }
  slices.set(scope.partition, { interval: scope.interval, slice })
  return slice
}
