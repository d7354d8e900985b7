/** What every section of the editor works with. */
import type { Known } from './connectors.ts'
import type { Abilities, Sync } from './sync.ts'
import type { DraftState } from './use-draft.ts'

export interface Editor extends DraftState {
  known: Known
  /** Null while it does not exist yet. */
  pipelineId: string | null
  /** The name of a new pipeline, unless another one is given. */
  suggestedName: string
  abilities: Abilities
  sync: Sync
  /** The source whose streams may be listed, as JSON: its settings are complete, and the person asked for it. */
  listed: string | null
  setListed(source: string | null): void
}

/** The problems below a path, without it: `under('config.source.', …)`. */
export function under(prefix: string, problems: Record<string, string>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(problems).flatMap(([path, problem]) =>
      path.startsWith(prefix) ? [[path.slice(prefix.length), problem]] : [],
    ),
  )
}
