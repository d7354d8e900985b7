/**
 * Types and parameters that a manifest leaves out. A component without a `type` gets the usual one of its place;
 * `$parameters` of a component reach all components inside of it, as fields where those are not given, and for templates.
 */
import type { Json } from '../../json/json.ts'
import { type Dict, isDict } from './component.ts'
import { ManifestError } from './problems.ts'

const MOST_VALUES = 3_000_000

const DEFAULT_TYPES: Record<string, string> = {
  'CompositeErrorHandler.error_handlers': 'DefaultErrorHandler',
  'CursorPagination.decoder': 'JsonDecoder',
  'DatetimeBasedCursor.end_datetime': 'MinMaxDatetime',
  'DatetimeBasedCursor.end_time_option': 'RequestOption',
  'DatetimeBasedCursor.start_datetime': 'MinMaxDatetime',
  'DatetimeBasedCursor.start_time_option': 'RequestOption',
  'DeclarativeSource.check': 'CheckStream',
  'DeclarativeSource.spec': 'Spec',
  'DeclarativeSource.streams': 'DeclarativeStream',
  'DeclarativeStream.retriever': 'SimpleRetriever',
  'DeclarativeStream.schema_loader': 'JsonFileSchemaLoader',
  'DynamicDeclarativeStream.stream_template': 'DeclarativeStream',
  'DynamicDeclarativeStream.components_resolver': 'ConfigComponentsResolver',
  'HttpComponentsResolver.retriever': 'SimpleRetriever',
  'HttpComponentsResolver.components_mapping': 'ComponentMappingDefinition',
  'ConfigComponentsResolver.stream_config': 'StreamConfig',
  'ConfigComponentsResolver.components_mapping': 'ComponentMappingDefinition',
  'DefaultErrorHandler.response_filters': 'HttpResponseFilter',
  'DefaultPaginator.decoder': 'JsonDecoder',
  'DefaultPaginator.page_size_option': 'RequestOption',
  'DpathExtractor.decoder': 'JsonDecoder',
  'DpathExtractor.record_expander': 'RecordExpander',
  'HttpRequester.error_handler': 'DefaultErrorHandler',
  'ListPartitionRouter.request_option': 'RequestOption',
  'ParentStreamConfig.request_option': 'RequestOption',
  'ParentStreamConfig.stream': 'DeclarativeStream',
  'RecordSelector.extractor': 'DpathExtractor',
  'RecordSelector.record_filter': 'RecordFilter',
  'SimpleRetriever.paginator': 'NoPagination',
  'SimpleRetriever.record_selector': 'RecordSelector',
  'SimpleRetriever.requester': 'HttpRequester',
  'SubstreamPartitionRouter.parent_stream_configs': 'ParentStreamConfig',
  'AddFields.fields': 'AddedFieldDefinition',
  'CustomPartitionRouter.parent_stream_configs': 'ParentStreamConfig',
  'DynamicSchemaLoader.retriever': 'SimpleRetriever',
  'SchemaTypeIdentifier.types_map': 'TypesMap',
}

const CUSTOM_TYPES: Record<string, string> = {
  'CompositeErrorHandler.backoff_strategies': 'CustomBackoffStrategy',
  'DeclarativeStream.retriever': 'CustomRetriever',
  'DeclarativeStream.transformations': 'CustomTransformation',
  'DefaultErrorHandler.backoff_strategies': 'CustomBackoffStrategy',
  'DefaultPaginator.pagination_strategy': 'CustomPaginationStrategy',
  'HttpRequester.authenticator': 'CustomAuthenticator',
  'HttpRequester.error_handler': 'CustomErrorHandler',
  'RecordSelector.extractor': 'CustomRecordExtractor',
  'SimpleRetriever.partition_router': 'CustomPartitionRouter',
}

/** A copy in which every component has its type, and its parameters in `$parameters`. */
export function propagateParameters(root: Dict, place = '', parentsWin = false): Dict {
  const propagation = new Propagation(parentsWin)
  return propagation.visit(place, root, {})
}

class Propagation {
  readonly #parentsWin: boolean
  #values = 0

  constructor(parentsWin: boolean) {
    this.#parentsWin = parentsWin
  }

  visit(place: string, node: Dict, inherited: Dict): Dict {
    if (++this.#values > MOST_VALUES) throw new ManifestError('the components of the manifest add up to too much')
    const { $parameters, ...made } = node
    const own = isDict($parameters) ? $parameters : {}
    const parameters = this.#parentsWin ? { ...own, ...inherited } : { ...inherited, ...own }
    if (!Object.hasOwn(made, 'type')) {
      const type = Object.hasOwn(made, 'class_name') ? CUSTOM_TYPES[place] : DEFAULT_TYPES[place]
      if (type !== undefined) made.type = type
    }
    if (isJsonSchema(made)) return made
    if (!Object.hasOwn(made, 'type')) return this.#visitUntyped(place, made, parameters)
    for (const [key, value] of Object.entries(parameters)) if (isEmpty(made[key])) made[key] = value
    for (const [field, value] of Object.entries(made)) {
      if (typeof value !== 'object' || value === null) continue
      // A parameter is not passed into the field of its own name, which it may have filled.
      const { [field]: _, ...passed } = parameters
      made[field] = this.#visitField(`${made.type}.${field}`, value, passed)
    }
    if (Object.keys(parameters).length > 0) made.$parameters = parameters
    return made
  }

  #visitField(place: string, value: Json, parameters: Dict): Json {
    if (Array.isArray(value)) return value.map((item) => (isDict(item) ? this.visit(place, item, parameters) : item))
    return isDict(value) ? this.visit(place, value, parameters) : value
  }

  /** A plain mapping, such as request parameters, may hold components as values. */
  #visitUntyped(place: string, node: Dict, parameters: Dict): Dict {
    if (!Object.values(node).some((value) => isDict(value) && Boolean(value.type))) return node
    const entries = Object.entries(node).map(([key, value]): [string, Json] => {
      return [key, isDict(value) && value.type ? this.visit(place, value, parameters) : value]
    })
    return Object.fromEntries(entries)
  }
}

function isJsonSchema({ type }: Dict): boolean {
  return type === 'object' || (Array.isArray(type) && type.length === 2 && type[0] === 'null' && type[1] === 'object')
}

/** What Python takes as false: a parameter fills it. */
function isEmpty(value: Json | undefined): boolean {
  if (value === undefined || value === null || value === false || value === '' || value === 0) return true
  return Array.isArray(value) ? value.length === 0 : isDict(value) && Object.keys(value).length === 0
}
