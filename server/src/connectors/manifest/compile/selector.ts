/** RecordSelector: where records are, which of them count, and what happens to them. */
import type { Json } from '../../../json/json.ts'
import type { DecoderPlan, ExpandPlan, ExtractPlan, RecordsPlan, Transform } from '../../http/records-plan.ts'
import type { Scope } from '../../http/scope.ts'
import { type Component, component, flag, given, optionalComponent, optionalText } from '../component.ts'
import { itemsAt } from '../paths.ts'
import { Unsupported } from '../problems.ts'
import { compileNormalization } from '../schema/normalize.ts'
import type { Environment, Place } from './environment.ts'
import { compilePath } from './selector-paths.ts'
import { condition, type Site } from './templates.ts'
import { compileTransformation } from './transformations.ts'

export interface Selection {
  selector: Component
  transformations: readonly Component[]
  decoder: DecoderPlan
  /** The JSON schema of the stream, where it is known. */
  schema: Json | null
}

export function compileSelector(selection: Selection, environment: Environment, place: Place): RecordsPlan {
  const { selector, decoder, schema } = selection
  if (selector.type !== 'RecordSelector') throw new Unsupported(`${selector.type} is not supported`)
  const site: Site = { environment, owner: selector, known: 'record', also: place.extra }
  const filter = optionalComponent(selector, 'record_filter')
  const transforms: Transform[] = selection.transformations.map((part) =>
    compileTransformation(part, environment, place),
  )
  const normalize = compileNormalization(given(selector, 'schema_normalization'), schema)
  if (normalize !== null) transforms.push(normalize)
  return {
    decoder,
    extract: compileExtractor(component(selector, 'extractor'), environment),
    ...(flag(selector, 'transform_before_filtering') && { transformFirst: true }),
    filter: filter === null ? null : compileFilter(filter, site),
    transforms,
    add: null,
  }
}

export function compileFilter(filter: Component, site: Site): (scope: Scope) => boolean {
  if (filter.type !== 'RecordFilter') throw new Unsupported(`${filter.type} is not supported`)
  const source = given(filter, 'condition')
  if (source === undefined || source === '') return () => true
  return condition(source, { ...site, owner: filter })
}

export function compileExtractor(extractor: Component, environment: Environment): ExtractPlan {
  if (extractor.type === 'ResponseToFileExtractor') return { path: [] }
  if (extractor.type === 'KeyValueExtractor') return compileKeyValue(extractor, environment)
  if (extractor.type !== 'DpathExtractor') throw new Unsupported(`${extractor.type} is not supported`)
  const expander = optionalComponent(extractor, 'record_expander')
  return {
    path: compilePath(extractor, 'field_path', environment),
    ...(expander !== null && { expand: compileExpander(expander, environment) }),
  }
}

function compileExpander(expander: Component, environment: Environment): ExpandPlan {
  return {
    path: compilePath(expander, 'expand_records_from_field', environment),
    keepOriginal: flag(expander, 'remain_original_record'),
    onNone: optionalText(expander, 'on_no_records') === 'emit_parent' ? 'keep' : 'skip',
  }
}

/** One record from a list of keys and a list of values. */
function compileKeyValue(extractor: Component, environment: Environment): ExtractPlan {
  const keys = compilePath(component(extractor, 'keys_extractor'), 'field_path', environment)
  const values = compilePath(component(extractor, 'values_extractor'), 'field_path', environment)
  return {
    compute: ({ answer }) => {
      const names = itemsAt(answer?.body ?? null, keys)
      const rows = itemsAt(answer?.body ?? null, values)
      const made: Json[] = []
      for (let at = 0; at + names.length <= rows.length && names.length > 0; at += names.length) {
        made.push(Object.fromEntries(names.map((name, index) => [String(name), rows[at + index]!])))
      }
      return made
    },
  }
}
