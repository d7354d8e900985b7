/** DeclarativeStream and StateDelegatingStream. */

import type { Json } from '../../../json/json.ts'
import type { Cursor } from '../../http/cursor.ts'
import type { ReadPlan, StreamPlan } from '../../http/plan.ts'
import { type Component, component, components, given, optionalComponent, optionalText, refuse } from '../component.ts'
import { Unsupported } from '../problems.ts'
import { columnsOf } from '../schema/columns.ts'
import { loadSchema } from '../schema/load.ts'
import { compileAsyncRetriever } from './async-retriever.ts'
import { compileCountCursor } from './count-cursor.ts'
import { compileDatetimeCursor } from './datetime-cursor.ts'
import type { Environment } from './environment.ts'
import { compileSimpleRetriever, type StreamParts } from './retriever.ts'
import { settingText } from './templates.ts'

export interface CompiledStream extends StreamPlan {
  /** Loaders that ask the API for the columns. */
  schemaLoaders: readonly Component[]
}

export function streamName(stream: Component, environment: Environment): string {
  const name = optionalText(stream, 'name')
  if (name === null || name === '') throw new Unsupported('a stream has no name')
  return settingText(name, { environment, owner: stream, known: 'config' })
}

export function compileStream(stream: Component, environment: Environment): CompiledStream {
  refuseCustom(stream)
  if (stream.type === 'StateDelegatingStream') return compileDelegating(stream, environment)
  if (stream.type !== 'DeclarativeStream') throw new Unsupported(`${stream.type} is not supported`)
  refuse(stream, ['file_uploader'])
  const { schema, dynamic } = loadSchema(stream)
  const sync = optionalComponent(stream, 'incremental_sync')
  const retriever = component(stream, 'retriever')
  const transformations = components(stream, 'transformations')
  const divided = sync !== null && dependsOnInterval(sync, [retriever, transformations])
  const cursor = sync === null ? null : compileCursor(sync, environment, divided)
  const plan = compileRetriever(retriever, { cursor, transformations, schema }, environment)
  return {
    name: streamName(stream, environment),
    primaryKey: primaryKey(given(stream, 'primary_key')),
    columns: dynamic.length > 0 ? null : columnsOf(schema),
    schemaLoaders: dynamic,
    choose: () => plan,
  }
}

function compileRetriever(retriever: Component, parts: StreamParts, environment: Environment): ReadPlan {
  if (retriever.type === 'SimpleRetriever') return compileSimpleRetriever(retriever, parts, environment)
  if (retriever.type === 'AsyncRetriever') return compileAsyncRetriever(retriever, parts, environment)
  throw new Unsupported(`${retriever.type} is not supported`)
}

/**
 * Whether requests and records differ from interval to interval. Where they do not, each interval would bring all records
 * again, so the range is read as one.
 */
function dependsOnInterval(sync: Component, parts: Json): boolean {
  if (['start_time_option', 'end_time_option', 'start_value_option'].some((name) => given(sync, name) !== undefined))
    return true
  const text = JSON.stringify(parts)
  const names = [
    optionalText(sync, 'partition_field_start') ?? 'start_time',
    optionalText(sync, 'partition_field_end') ?? 'end_time',
    'cursor_slice',
  ]
  return names.some((name) => text.includes(name)) || /stream_(?:slice|interval|partition)\s*[^\s[.\w]/.test(text)
}

/** `divided`: its range is read in pieces. */
function compileCursor(sync: Component, environment: Environment, divided: boolean): Cursor {
  if (sync.type === 'DatetimeBasedCursor') return compileDatetimeCursor(sync, environment, divided)
  if (sync.type === 'IncrementingCountCursor') return compileCountCursor(sync, environment)
  throw new Unsupported(`${sync.type} is not supported`)
}

/** Reads the whole stream one way the first time, and what is new another way later. */
function compileDelegating(stream: Component, environment: Environment): CompiledStream {
  refuse(stream, ['api_retention_period'])
  const full = compileStream(component(stream, 'full_refresh_stream'), environment)
  const incremental = compileStream(component(stream, 'incremental_stream'), environment)
  return {
    ...incremental,
    name: streamName(stream, environment),
    choose: (state) => (state === null ? full : incremental).choose(state),
  }
}

/** Names of top-level fields; a path into a record cannot be a key here. */
function primaryKey(key: Json | undefined): string[] {
  if (key === undefined || key === '') return []
  const keys = Array.isArray(key) ? key : [key]
  return keys.map((part) => {
    const path = Array.isArray(part) ? part : [part]
    return path.join('.')
  })
}

/** All classes that a stream needs and that only exist as Python code, named at once. */
function refuseCustom(stream: Component): void {
  const classes = new Set<string>()
  const visit = (value: Json): void => {
    if (Array.isArray(value)) for (const item of value) visit(item)
    else if (typeof value === 'object' && value !== null) {
      if (typeof value.class_name === 'string' && isCustom(value.type)) {
        classes.add(`${String(value.type ?? 'Custom')} ${value.class_name.split('.').at(-1)}`)
      }
      for (const [field, inner] of Object.entries(value)) {
        if (field !== '$parameters' && (field !== 'schema_loader' || hasClass(inner))) visit(inner)
      }
    }
  }
  visit(stream)
  if (classes.size > 0) throw new Unsupported(`it needs custom Python code: ${[...classes].sort().join(', ')}`)
}

/** A class beside a type that is not custom is never loaded. */
function isCustom(type: Json | undefined): boolean {
  return typeof type !== 'string' || type.startsWith('Custom')
}

/** Schemas are large and hold no components: only loaders themselves are looked at. */
function hasClass(loader: Json): boolean {
  const loaders = Array.isArray(loader) ? loader : [loader]
  return loaders.some(
    (part) => typeof part === 'object' && part !== null && !Array.isArray(part) && 'class_name' in part,
  )
}
