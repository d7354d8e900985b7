/** The configuration of a run, resolved and pinned when it is triggered. */
import type { ResolvedSource } from '../connections/resolve.ts'
import { ConnectorError, type ReadRange } from '../connectors/contract.ts'
import type { ResolvedConfig } from '../pipelines/resolve.ts'

/** A custom source by its version. Runs created by an earlier release contain its code as well. */
type PinnedSource = Omit<ResolvedSource, 'custom'> & { custom?: { id: string; version: number; code?: string } }
export type UsableConfig = Omit<ResolvedConfig, 'source'> & {
  source: PinnedSource
  /** The run whose quarantine is read instead of the source. */
  resends?: string
  /** The run whose output is read instead of the source. */
  replays?: string
  /** Of a replay: it does not write where its pipeline writes. */
  other_destination?: true
  /** What a back-fill reads. */
  range?: ReadRange
}
export type RunnableConfig = ResolvedConfig & Pick<UsableConfig, 'resends' | 'replays' | 'other_destination' | 'range'>
export type PinnedConfig = { config: UsableConfig } | { problem: string }

/**
 * The code of a custom source is not copied from its version: it may be half a megabyte, and a thousand runs may be
 * pending.
 */
export async function pinConfig(resolve: () => RunnableConfig | Promise<RunnableConfig>): Promise<PinnedConfig> {
  try {
    const config = await resolve()
    const { custom, ...source } = config.source
    if (!custom) return { config: { ...config, source } }
    return { config: { ...config, source: { ...source, custom: { id: custom.id, version: custom.version } } } }
  } catch (error) {
    if (error instanceof ConnectorError) return { problem: error.message }
    throw error
  }
}

/** '' for a run that shares a worker. A class that is no longer offered would wait for ever, so its run fails instead. */
export function placeRun(
  pinned: PinnedConfig,
  classes: readonly string[],
): { pinned: PinnedConfig; pod_class: string } {
  if (!('config' in pinned) || pinned.config.run.isolation !== 'pod') return { pinned, pod_class: '' }
  const { resources = classes[0] } = pinned.config.run
  if (resources !== undefined && classes.includes(resources)) return { pinned, pod_class: resources }
  return { pinned: { problem: explainMissingClass(resources, classes) }, pod_class: '' }
}

export function explainMissingClass(resources: string | undefined, classes: readonly string[]): string {
  const offered = classes.length === 0 ? 'pods of their own are not offered' : `there is ${classes.join(', ')}`
  return `The run wants a pod of ${resources === undefined ? 'its own' : `the class '${resources}'`}, but here ${offered}; change config.run, or ask the operator to set POD_CLASSES.`
}

export const versionOf = (pinned: PinnedConfig): number | null =>
  'config' in pinned ? (pinned.config.source.custom?.version ?? null) : null
