/** The configuration of a run, resolved and pinned when it is triggered. */
import type { ResolvedSource } from '../connections/resolve.ts'
import { ConnectorError } from '../connectors/contract.ts'
import type { ResolvedConfig } from '../pipelines/resolve.ts'

/** A custom source by its version. Runs created by an earlier release contain its code as well. */
type PinnedSource = Omit<ResolvedSource, 'custom'> & { custom?: { id: string; version: number; code?: string } }
export type UsableConfig = Omit<ResolvedConfig, 'source'> & { source: PinnedSource }
export type PinnedConfig = { config: UsableConfig } | { problem: string }

/**
 * The code of a custom source is not copied from its version: it may be half a megabyte, and a thousand runs may be
 * pending.
 */
export async function pinConfig(resolve: () => ResolvedConfig | Promise<ResolvedConfig>): Promise<PinnedConfig> {
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

export const versionOf = (pinned: PinnedConfig): number | null =>
  'config' in pinned ? (pinned.config.source.custom?.version ?? null) : null
