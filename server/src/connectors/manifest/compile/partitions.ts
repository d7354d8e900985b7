/** Partition routers: what each series of pages is about. */

import type { Json } from '../../../json/json.ts'
import { ConnectorError } from '../../contract.ts'
import type { ParentPlan, PartitionPlan } from '../../http/plan.ts'
import type { RequestPlan } from '../../http/request-plan.ts'
import type { Fields } from '../../http/scope.ts'
import { type Component, component, components, flag, given, isComponent, text, wholeNumber } from '../component.ts'
import { valueAt } from '../paths.ts'
import { Unsupported } from '../problems.ts'
import type { Environment } from './environment.ts'
import { optionalInjection } from './injection.ts'
import { injectable } from './requester.ts'
import { compilePath } from './selector-paths.ts'
import { anyValue, type Site, settingText } from './templates.ts'

/** Several routers give every combination. */
export function compilePartitions(
  owner: Component,
  request: Pick<RequestPlan, 'method'>,
  environment: Environment,
): PartitionPlan | null {
  const routers = routersOf(owner)
  const plans = routers.map((router) => compileRouter(router, request, environment))
  if (plans.length === 0) return null
  return plans.length === 1 ? plans[0]! : { kind: 'product', of: plans }
}

function routersOf(owner: Component): Component[] {
  const routers = components(owner, 'partition_router')
  return routers.filter((router) => router.type !== 'SinglePartitionRouter')
}

/** The names of extra fields that the partitions of a stream bring along. */
export function extraFields(owner: Component): Set<string> {
  const names = new Set<string>()
  const visit = (router: Component): void => {
    for (const parent of components(router, 'parent_stream_configs')) {
      const fields = given(parent, 'extra_fields')
      if (Array.isArray(fields))
        for (const path of fields) names.add(Array.isArray(path) ? path.join('.') : String(path))
    }
    const inner = given(router, 'underlying_partition_router')
    if (isComponent(inner)) visit(inner)
    for (const part of components(router, 'partition_routers')) visit(part)
  }
  for (const router of routersOf(owner)) visit(router)
  return names
}

function compileRouter(
  router: Component,
  request: Pick<RequestPlan, 'method'>,
  environment: Environment,
): PartitionPlan {
  if (router.type === 'ListPartitionRouter') return compileList(router, request, environment)
  if (router.type === 'SubstreamPartitionRouter') {
    const parents = components(router, 'parent_stream_configs').map((parent) =>
      compileParent(parent, request, environment),
    )
    if (parents.length === 0) throw new Unsupported('SubstreamPartitionRouter has no parent_stream_configs')
    return { kind: 'parents', parents }
  }
  if (router.type === 'GroupingPartitionRouter') {
    const inner = compileRouter(component(router, 'underlying_partition_router'), request, environment)
    const size = wholeNumber(router, 'group_size', 0)
    if (size < 1) throw new Unsupported('GroupingPartitionRouter.group_size is not a positive number')
    return { kind: 'group', of: inner, size, distinct: given(router, 'deduplicate') !== false }
  }
  if (router.type === 'UnionPartitionRouter') return compileUnion(router, request, environment)
  throw new Unsupported(`${router.type} is not supported`)
}

function compileList(router: Component, request: Pick<RequestPlan, 'method'>, environment: Environment): PartitionPlan {
  const site: Site = { environment, owner: router, known: 'config' }
  const source = given(router, 'values')
  const inject = injectable(request, optionalInjection(router, 'request_option', environment))
  const field = settingText(text(router, 'cursor_field'), site)
  if (Array.isArray(source)) return { kind: 'list', field, values: () => source, inject }
  const value = anyValue(text(router, 'values'), site)
  return { kind: 'list', field, inject, values: (scope) => listOf(value(scope)) }
}

function listOf(value: Json): Json[] {
  if (Array.isArray(value)) return value
  if (value === '' || value === null) return []
  throw new ConnectorError('config', 'the values of a ListPartitionRouter are not a list')
}

function compileParent(parent: Component, request: Pick<RequestPlan, 'method'>, environment: Environment): ParentPlan {
  const site: Site = { environment, owner: parent, known: 'config' }
  const key = settingText(text(parent, 'parent_key'), site).split('/')
  const field = settingText(text(parent, 'partition_field'), site)
  const at = injectable(request, optionalInjection(parent, 'request_option', environment))
  const extra = extraPaths(parent, site)
  const pointer = given(parent, 'lazy_read_pointer')
  const lazy = pointer === undefined ? null : compilePath(parent, 'lazy_read_pointer', environment)
  return {
    stream: environment.stream(component(parent, 'stream')),
    partition: (record, scope) => {
      const value = valueAt(record, key)
      if (value === undefined) return null
      const more = Object.fromEntries(extra.map((path) => [path.join('.'), valueAt(record, path) ?? null]))
      return { partition: { [field]: value, parent_slice: scope.partition }, extra: more as Fields }
    },
    inject: at === null ? [] : [{ field, at }],
    incremental: flag(parent, 'incremental_dependency'),
    ...(lazy !== null && lazy.length > 0 && { embedded: (record: Fields) => valueAt(record, lazy) }),
  }
}

function extraPaths(parent: Component, site: Site): string[][] {
  const fields = given(parent, 'extra_fields')
  if (fields === undefined) return []
  if (!Array.isArray(fields)) throw new Unsupported('ParentStreamConfig.extra_fields is not a list')
  return fields.map((path) => (Array.isArray(path) ? path : [path]).map((part) => settingText(String(part), site)))
}

/** Each value once: what else a partition holds is extra. */
function compileUnion(
  router: Component,
  request: Pick<RequestPlan, 'method'>,
  environment: Environment,
): PartitionPlan {
  const field = text(router, 'partition_field')
  const of = components(router, 'partition_routers').map((part) => compileRouter(part, request, environment))
  return { kind: 'union', of: of.map((part) => onlyField(part, field)) }
}

function onlyField(plan: PartitionPlan, field: string): PartitionPlan {
  if (plan.kind === 'list') return plan
  if (plan.kind !== 'parents')
    throw new Unsupported('UnionPartitionRouter holds a router that is neither a list nor a substream')
  const parents = plan.parents.map((parent): ParentPlan => {
    return {
      ...parent,
      partition: (record, scope) => {
        const made = parent.partition(record, scope)
        if (made === null) return null
        const { [field]: value, ...rest } = made.partition
        return value === undefined ? null : { partition: { [field]: value }, extra: { ...made.extra, ...rest } }
      },
    }
  })
  return { kind: 'parents', parents }
}
