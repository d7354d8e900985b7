/**
 * Reads a part of a stream again: the records whose cursor is in a range. It is a run of the pipeline like any other, exactly
 * once and in turn with the others, but the pipeline's state and its mark in the destination are left alone: the next run
 * continues as if the back-fill had not been. Only rows that are merged by a key may be read twice, so it needs upsert.
 */
import { ConnectorError, type ReadRange } from '../connectors/contract.ts'
import { findSource } from '../connectors/registry.ts'
import { AppError } from '../errors.ts'
import type { ResolvedConfig } from '../pipelines/resolve.ts'
import type { Actor } from '../tenancy/actor.ts'
import { type TriggeredRun, type TriggerServices, triggerAs } from './trigger.ts'

export async function triggerBackfill(
  services: TriggerServices,
  actor: Actor,
  pipelineId: string,
  range: ReadRange,
): Promise<TriggeredRun> {
  requireOrder(range)
  return triggerAs(services, actor, pipelineId, {
    triggered_by: 'backfill',
    details: { from: String(range.from), to: String(range.to) },
    adapt: (config) => withRange(config, range),
  })
}

const refuse = (sentence: string) => new AppError('invalid_input', sentence)

/** The source alone knows the order of its values; only numbers and times of the usual form are compared here. */
function requireOrder({ from, to }: ReadRange): void {
  if (typeof from !== typeof to) throw refuse('to: must be of the same kind as from, both texts or both numbers')
  const [start, end] = [orderOf(from), orderOf(to)]
  const known = start !== null && end !== null
  if (from === to || (known && start >= end))
    throw refuse('to: must come after from; the range ends right before it, so that neighbouring ranges do not overlap')
}

const DAY_OR_TIME = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d{1,3})?)?Z?)?$/

function orderOf(value: string | number): number | null {
  if (typeof value === 'number') return value
  if (!DAY_OR_TIME.test(value)) return null
  const time = Date.parse(value.length > 10 && !value.endsWith('Z') ? `${value}Z` : value)
  return Number.isNaN(time) ? null : time
}

function withRange(config: ResolvedConfig, range: ReadRange): ResolvedConfig & { range: ReadRange } {
  const { source, sync } = config
  if (sync.mode !== 'incremental')
    throw refuse('A back-fill needs config.sync.mode incremental; a full refresh reads everything again in each run')
  if (sync.write !== 'upsert')
    throw refuse('A back-fill reads records again, so it needs config.sync.write upsert; append would load them twice')
  const isManifest = source.custom?.language === 'manifest'
  const found = findSource(isManifest ? 'manifest' : source.name)
  if (!found?.capabilities.ranges)
    throw refuse(
      found
        ? `${found.name} cannot be read by a range of its cursor; set the state of the pipeline to read a part again`
        : `${source.name} is a custom source, whose code alone knows its cursor; set the state of the pipeline to read a part again`,
    )
  try {
    found.checkRange?.(range)
  } catch (error) {
    if (error instanceof ConnectorError) throw refuse(error.message)
    throw error
  }
  return { ...config, range }
}
