/** Why a run failed, in one sentence, and what to do next. The kinds are those of docs/runs.md. */
import type { LinkProps } from '@tanstack/react-router'

const KINDS = {
  config: 'Settings',
  auth: 'Access refused',
  source: 'Source',
  destination: 'Destination',
  sandbox: 'Sandbox',
  timeout: 'Timeout',
  memory: 'Memory',
  limit: 'Limit',
  rate_limited: 'Rate limit',
  internal: 'Internal',
} as const

type Kind = keyof typeof KINDS

interface Reason {
  kind: Kind | null
  /** The kind in words. */
  label: string | null
  sentence: string
}

export function reasonOf(error: string): Reason {
  const [, kind, sentence] = /^([a-z_]+): (.*)$/s.exec(error) ?? []
  if (kind === undefined || !Object.hasOwn(KINDS, kind)) return { kind: null, label: null, sentence: error }
  return { kind: kind as Kind, label: KINDS[kind as Kind], sentence: sentence! }
}

export interface Step {
  words: string
  link: LinkProps
}

interface Ends {
  pipeline_id: string
  saved_source_id: string | null
  saved_destination_id: string | null
}

/** Where to mend it; none if running it again is what is left to try. */
export function stepsFor(error: string, ends: Ends): Step[] {
  const { kind } = reasonOf(error)
  if (kind === 'auth') {
    const connections = [
      ['source', ends.saved_source_id],
      ['destination', ends.saved_destination_id],
    ] as const
    const saved = connections.filter(([, id]) => id !== null)
    if (saved.length > 0)
      return saved.map(([side, id]) => ({
        words: saved.length === 1 ? 'Fix connection' : `Fix ${side} connection`,
        link: { to: '/connections/$kind/$id', params: { kind: side, id: id! } },
      }))
  }
  return kind !== null && IN_SETTINGS.has(kind)
    ? [{ words: 'Edit pipeline', link: { to: '/pipelines/$id/edit', params: { id: ends.pipeline_id } } }]
    : []
}

const IN_SETTINGS = new Set<Kind>(['auth', 'config', 'timeout', 'memory', 'limit'])
