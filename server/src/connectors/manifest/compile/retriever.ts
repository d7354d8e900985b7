/** Retrievers: how the records of a stream are fetched. */
import type { Json } from '../../../json/json.ts'
import type { Cursor } from '../../http/cursor.ts'
import type { PagesPlan, PartitionPlan, PropertiesPlan, ReadPlan } from '../../http/plan.ts'
import type { RecordsPlan } from '../../http/records-plan.ts'
import type { Injection } from '../../http/scope.ts'
import { type Component, component, flag, given, isDict, optionalComponent, optionalText } from '../component.ts'
import { Unsupported } from '../problems.ts'
import { compileDecoder } from './decoder.ts'
import type { Environment, Place } from './environment.ts'
import { compilePaginator } from './paginator.ts'
import { compilePartitions, extraFields } from './partitions.ts'
import { compileProperties } from './properties.ts'
import { bodyFor, type CompiledRequest, compileRequester, injectable } from './requester.ts'
import { compileSelector } from './selector.ts'

/** What a stream adds to its retriever. */
export interface StreamParts {
  cursor: Cursor | null
  transformations: readonly Component[]
  schema: Json | null
}

const BARE: StreamParts = { cursor: null, transformations: [], schema: null }

export function compileSimpleRetriever(retriever: Component, parts: StreamParts, environment: Environment): ReadPlan {
  const place: Place = { extra: extraFields(retriever) }
  const compiled = compileRequester(component(retriever, 'requester'), environment, place)
  const partitions = compilePartitions(retriever, compiled.request, environment)
  const cursor = parts.cursor === null ? null : withoutBody(parts.cursor, compiled)
  const decoder = compileDecoder(optionalComponent(retriever, 'decoder'))
  const selector = component(retriever, 'record_selector')
  return {
    partitions,
    cursor,
    retrieval: compilePages(retriever, compiled, { partitions, cursor }, environment),
    records: compileSelector(
      { selector, decoder, transformations: parts.transformations, schema: parts.schema },
      environment,
      place,
    ),
    properties: compiled.properties === null ? null : properties(compiled.properties.component, environment),
  }
}

/** A retriever without a stream around it: schemas, components and properties that an API describes itself. */
export function compileBareRetriever(retriever: Component, environment: Environment): ReadPlan {
  if (retriever.type !== 'SimpleRetriever') throw new Unsupported(`${retriever.type} is not supported there`)
  return compileSimpleRetriever(retriever, BARE, environment)
}

function properties(source: Component, environment: Environment): PropertiesPlan {
  return compileProperties(source, environment, (retriever) => {
    const { retrieval, records } = compileBareRetriever(retriever, environment)
    return { retrieval: retrieval as PagesPlan, records: records as RecordsPlan }
  })
}

function withoutBody(cursor: Cursor, { request }: CompiledRequest): Cursor {
  return { ...cursor, inject: cursor.inject.filter(({ at }) => injectable(request, at) !== null) }
}

interface Slices {
  partitions: PartitionPlan | null
  cursor: Cursor | null
}

function compilePages(
  retriever: Component,
  compiled: CompiledRequest,
  slices: Slices,
  environment: Environment,
): PagesPlan {
  const paginator = compilePaginator(optionalComponent(retriever, 'paginator'), compiled, environment)
  const tokenPlaces = paginator === null || typeof paginator.inject === 'function' ? [] : paginator.inject
  const injections: Injection[] = [
    ...tokenPlaces.filter((place): place is Injection => place.into !== 'url'),
    ...(paginator?.size ? [paginator.size.inject] : []),
    ...(slices.cursor?.inject.map(({ at }) => at) ?? []),
    ...partitionInjections(slices.partitions),
  ]
  return {
    kind: 'pages',
    request: bodyFor(compiled.request, injections),
    paginator,
    ...(flag(retriever, 'ignore_stream_slicer_parameters_on_paginated_requests') && { tokenReplacesSlice: true }),
    ...resetOf(retriever),
  }
}

function partitionInjections(plan: PartitionPlan | null): Injection[] {
  if (plan === null) return []
  if (plan.kind === 'list') return plan.inject === null ? [] : [plan.inject]
  if (plan.kind === 'parents') return plan.parents.flatMap(({ inject }) => inject.map(({ at }) => at))
  return plan.kind === 'group' ? partitionInjections(plan.of) : plan.of.flatMap(partitionInjections)
}

function resetOf(retriever: Component): Pick<PagesPlan, 'reset'> {
  const reset = given(retriever, 'pagination_reset')
  if (!isDict(reset)) return {}
  const action = optionalText(reset, 'action')
  if (action !== 'SPLIT_USING_CURSOR' && action !== 'RESET')
    throw new Unsupported(`PaginationReset.action ${action} is unknown`)
  const limits = given(reset, 'limits')
  const most = isDict(limits) ? given(limits, 'number_of_records') : undefined
  return {
    reset: { how: action === 'RESET' ? 'again' : 'split', afterRecords: typeof most === 'number' ? most : null },
  }
}
