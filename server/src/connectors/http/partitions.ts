/**
 * The partitions of a stream, one after another. Each comes with a position, from which the same partition and all after it
 * can be found again: an index, or the place of its record in the parent stream.
 */
import type { Json } from '../../json/json.ts'
import { hashRecord } from './cursor-tracker.ts'
import type { Injected } from './outgoing.ts'
import type { ParentPlan, PartitionPlan } from './plan.ts'
import type { Fields, Scope } from './scope.ts'
import { partitionKey } from './stream-state.ts'

export interface Slice {
  partition: Fields
  extra: Fields
  injected: readonly Injected[]
  position: Json
  /** The body of the first page, if it is known already. */
  embedded?: Json
}

/** A record of a parent stream, with the cursor from which a read finds this record first. */
export interface ParentRecord {
  record: Fields
  scope: Scope
  cursor: Json
}

export interface PartitionContext {
  /** The scope of the stream, without a partition. */
  scope: Scope
  /** Reads a parent. `index` is its place among the parents. */
  readParent(parent: ParentPlan, from: Json): AsyncGenerator<ParentRecord>
}

export async function* iteratePartitions(
  plan: PartitionPlan | null,
  context: PartitionContext,
  from: Json,
): AsyncGenerator<Slice> {
  if (plan === null) yield { partition: {}, extra: {}, injected: [], position: null }
  else if (plan.kind === 'list') yield* iterateList(plan, context, from)
  else if (plan.kind === 'parents') yield* iterateParents(plan.parents, context, from)
  else if (plan.kind === 'product') yield* iterateProduct(plan.of, context, from)
  else if (plan.kind === 'union') yield* iterateUnion(plan.of, context, from)
  else yield* iterateGroups(plan, context, from)
}

/** Partitions of a product that are kept instead of being read again. */
const MOST_KEPT = 10_000

type Of<Kind extends PartitionPlan['kind']> = Extract<PartitionPlan, { kind: Kind }>

function* iterateList(
  { field, values, inject }: Of<'list'>,
  { scope }: PartitionContext,
  from: Json,
): Generator<Slice> {
  const all = values(scope)
  for (let index = indexOf(from); index < all.length; index++) {
    const value = all[index]!
    yield {
      partition: { [field]: value },
      extra: {},
      injected: inject === null ? [] : [{ at: inject, value }],
      position: index,
    }
  }
}

async function* iterateParents(
  parents: readonly ParentPlan[],
  context: PartitionContext,
  from: Json,
): AsyncGenerator<Slice> {
  const [first, cursor] = Array.isArray(from) ? from : [0, null]
  for (let index = indexOf(first ?? 0); index < parents.length; index++) {
    const parent = parents[index]!
    const start = index === first ? (cursor ?? null) : null
    for await (const { record, scope, cursor: at } of context.readParent(parent, start)) {
      const found = parent.partition(record, scope)
      if (found === null) continue
      const embedded = parent.embedded?.(record)
      yield {
        partition: found.partition,
        extra: found.extra ?? {},
        injected: parent.inject.map(({ field, at: target }) => ({ at: target, value: found.partition[field] ?? null })),
        position: [index, at],
        ...(embedded === undefined ? {} : { embedded }),
      }
    }
  }
}

/**
 * The first changes slowest. Its position is that of every factor. The partitions of the others are kept from the first
 * time that all of them were read, as long as they are not too many: a parent is not requested again for every partition.
 */
async function* iterateProduct(
  plans: readonly PartitionPlan[],
  context: PartitionContext,
  from: Json,
): AsyncGenerator<Slice> {
  const [first, ...rest] = plans
  if (first === undefined) {
    yield { partition: {}, extra: {}, injected: [], position: [] }
    return
  }
  const [start = null, ...inner] = Array.isArray(from) ? from : []
  let resumed: Json = inner.length > 0 ? inner : null
  let kept: Slice[] | null = null
  for await (const outer of iteratePartitions(first, context, start)) {
    let read: Slice[] | null = resumed === null && kept === null ? [] : null
    for await (const slice of kept ?? iterateProduct(rest, context, resumed)) {
      if (read !== null && read.push(slice) > MOST_KEPT) read = null
      const embedded = outer.embedded ?? slice.embedded
      yield {
        partition: { ...outer.partition, ...slice.partition },
        extra: { ...outer.extra, ...slice.extra },
        injected: [...outer.injected, ...slice.injected],
        position: [outer.position, ...(slice.position as Json[])],
        ...(embedded === undefined ? {} : { embedded }),
      }
    }
    resumed = null
    kept ??= read
  }
}

/** What came before the position is read again, to know what must not come twice. */
async function* iterateUnion(
  plans: readonly PartitionPlan[],
  context: PartitionContext,
  from: Json,
): AsyncGenerator<Slice> {
  const [first, start] = Array.isArray(from) ? from : [0, null]
  const wanted = start === null || start === undefined ? null : JSON.stringify(start)
  let reached = wanted === null
  const seen = new Set<string>()
  for (const [index, plan] of plans.entries()) {
    for await (const slice of iteratePartitions(plan, context, null)) {
      const key = hashRecord(partitionKey(slice.partition))
      if (seen.has(key)) continue
      seen.add(key)
      reached ||= index > indexOf(first ?? 0) || (index === first && JSON.stringify(slice.position) === wanted)
      if (reached) yield { ...slice, position: [index, slice.position] }
    }
  }
}

async function* iterateGroups({ of, size, distinct }: Of<'group'>, context: PartitionContext, from: Json) {
  let group: Slice[] = []
  const seen = new Set<string>()
  for await (const slice of iteratePartitions(of, context, from)) {
    const key = partitionKey(slice.partition)
    if (distinct && seen.has(key)) continue
    if (distinct) seen.add(key)
    group.push(slice)
    if (group.length < size) continue
    yield joinSlices(group)
    group = []
  }
  if (group.length > 0) yield joinSlices(group)
}

function joinSlices(slices: readonly Slice[]): Slice {
  const collect = (pick: (slice: Slice) => Fields): Fields => {
    const joined: Record<string, Json[]> = {}
    for (const slice of slices)
      for (const [name, value] of Object.entries(pick(slice))) {
        joined[name] ??= []
        joined[name].push(value)
      }
    return joined
  }
  const [first] = slices as [Slice]
  return {
    partition: collect(({ partition }) => partition),
    extra: collect(({ extra }) => extra),
    injected: first.injected.map(({ at }, index) => ({
      at,
      value: slices.map((slice) => slice.injected[index]!.value),
    })),
    position: first.position,
  }
}

const indexOf = (value: Json): number =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0 ? value : 0
