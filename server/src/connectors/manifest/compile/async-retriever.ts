/** AsyncRetriever: an export that is created, waited for and downloaded. */

import type { Json } from '../../../json/json.ts'
import { ConnectorError } from '../../contract.ts'
import type { JobPlan, JobStatus, ReadPlan } from '../../http/plan.ts'
import type { RequestPlan } from '../../http/request-plan.ts'
import type { Value } from '../../http/scope.ts'
import { type Component, component, type Dict, given, isDict, optionalComponent, optionalText } from '../component.ts'
import { itemsAt } from '../paths.ts'
import { Unsupported } from '../problems.ts'
import { compileDecoder } from './decoder.ts'
import type { Environment, Place } from './environment.ts'
import { compilePaginator } from './paginator.ts'
import { compilePartitions, extraFields } from './partitions.ts'
import { bodyFor, compileRequester } from './requester.ts'
import type { StreamParts } from './retriever.ts'
import { compileExtractor, compileSelector } from './selector.ts'
import { compilePath } from './selector-paths.ts'
import { anyValue, type Site } from './templates.ts'

const ATTEMPTS = 3

export function compileAsyncRetriever(retriever: Component, parts: StreamParts, environment: Environment): ReadPlan {
  const place: Place = { extra: extraFields(retriever) }
  const request = (field: string): RequestPlan | null => {
    const requester = optionalComponent(retriever, field)
    return requester === null ? null : compileRequester(requester, environment, place).request
  }
  const needed = (field: string): RequestPlan => {
    const plan = request(field)
    if (plan === null) throw new Unsupported(`AsyncRetriever has no ${field}`)
    return plan
  }
  const create = needed('creation_requester')
  const partitions = compilePartitions(retriever, create, environment)
  return {
    partitions,
    cursor: parts.cursor,
    retrieval: {
      kind: 'job',
      create: bodyFor(create, parts.cursor?.inject.map(({ at }) => at) ?? []),
      poll: needed('polling_requester'),
      status: compileStatus(retriever, environment),
      targets: compileTargets(retriever, environment),
      targetRequest: request('download_target_requester'),
      download: compileDownload(retriever, environment, place),
      abort: request('abort_requester'),
      remove: request('delete_requester'),
      ...compileTimes(retriever, environment),
      attempts: ATTEMPTS,
    },
    records: compileRecords(retriever, parts, environment, place),
    properties: null,
  }
}

function compileTimes(retriever: Component, environment: Environment): Pick<JobPlan, 'timeoutMs' | 'retryWaitMs'> {
  const site: Site = { environment, owner: retriever, known: 'config' }
  const number = (field: string): number | null => {
    const source = optionalText(retriever, field)
    if (source === null) return null
    const value = anyValue(source, site)
    if (environment.checking) return null
    const read = Number(value(null))
    if (!Number.isFinite(read)) throw new ConnectorError('config', `AsyncRetriever.${field} does not give a number`)
    return read
  }
  return {
    timeoutMs: (number('polling_job_timeout') ?? 60) * 60_000,
    retryWaitMs: (number('failed_retry_wait_time_in_seconds') ?? 0) * 1000,
  }
}

function compileStatus(retriever: Component, environment: Environment): Value<JobStatus | null> {
  const path = answerPath(component(retriever, 'status_extractor'), environment)
  const mapping = given(retriever, 'status_mapping')
  if (!isDict(mapping)) throw new Unsupported('AsyncRetriever has no status_mapping')
  const statuses = statusesOf(mapping)
  return ({ answer }) => {
    const status = itemsAt(answer?.body ?? null, path)[0]
    return status === undefined ? null : (statuses.get(String(status)) ?? null)
  }
}

function statusesOf(mapping: Dict): Map<string, JobStatus> {
  const known = new Map<string, JobStatus>()
  for (const status of ['running', 'completed', 'failed', 'timeout', 'skipped'] as const) {
    const names = given(mapping, status)
    if (Array.isArray(names)) for (const name of names) known.set(String(name), status)
  }
  return known
}

function compileTargets(retriever: Component, environment: Environment): Value<Json[]> {
  const extractor = optionalComponent(retriever, 'download_target_extractor')
  if (extractor === null) return () => ['']
  const path = answerPath(extractor, environment)
  return ({ answer }) => itemsAt(answer?.body ?? null, path)
}

function answerPath(extractor: Component, environment: Environment): string[] {
  if (extractor.type !== 'DpathExtractor') throw new Unsupported(`${extractor.type} is not supported`)
  return compilePath(extractor, 'field_path', environment)
}

function compileDownload(retriever: Component, environment: Environment, place: Place): JobPlan['download'] {
  const compiled = compileRequester(component(retriever, 'download_requester'), environment, place)
  const paginator = compilePaginator(optionalComponent(retriever, 'download_paginator'), compiled, environment)
  return { kind: 'pages', request: compiled.request, paginator }
}

/** The downloaded records are extracted by the download's own extractor, and selected by the stream's. */
function compileRecords(
  retriever: Component,
  parts: StreamParts,
  environment: Environment,
  place: Place,
): ReadPlan['records'] {
  const decoder = compileDecoder(optionalComponent(retriever, 'download_decoder'))
  const selector = component(retriever, 'record_selector')
  const records = compileSelector(
    { selector, decoder, transformations: parts.transformations, schema: parts.schema },
    environment,
    place,
  )
  const extractor = optionalComponent(retriever, 'download_extractor')
  return { ...records, extract: extractor === null ? { path: [] } : compileExtractor(extractor, environment) }
}
