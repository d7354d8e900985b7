/** Which streams of a source a bulk creation means, and what their descriptions say about keys and cursors. */
import { nameStreams } from '../connections/endpoint-faults.ts'
import { describeEach, listConnectorStreams, type ProbeServices } from '../connections/probes.ts'
import { ConnectorError } from '../connectors/contract.ts'
import { compileGlob, type Glob } from '../connectors/formats/glob.ts'
import { isObject } from '../connectors/settings/settings.ts'
import type { Actor } from '../tenancy/actor.ts'

/** Some by name, all, or those whose name matches a pattern with * and ?. */
export type StreamChoice = string[] | 'all' | { pattern: string }

/** What a description suggests for `config.sync`. */
export interface Suggestion {
  primary_key: string[]
  cursor_field: string | null
}

export interface ChosenStreams {
  streams: string[]
  /** Null if it was not needed. */
  suggestions: Map<string, Suggestion> | null
  /** Why they could not be found out. */
  problem: string | null
}

const MAX_CHOSEN = 500

interface Chooser {
  services: ProbeServices
  actor: Actor
  /** Without a stream. */
  source: Record<string, unknown>
  signal: AbortSignal
}

/** The source is only asked if the choice or a missing key or cursor needs it. */
export async function chooseStreams(chooser: Chooser, choice: StreamChoice, sync: unknown): Promise<ChosenStreams> {
  const failed = (problem: string): ChosenStreams => ({ streams: [], suggestions: null, problem })
  let streams: string[]
  if (Array.isArray(choice)) streams = choice
  else {
    const { services, actor, source, signal } = chooser
    const listed = await listConnectorStreams(services, actor, { source }, signal)
    if (!listed.success) return failed(`config.source: ${listed.message}`)
    const matches = choice === 'all' ? () => true : compilePattern(choice.pattern)
    if (matches === null) return failed('streams.pattern: has too many alternatives; use several requests')
    streams = listed.streams.filter(matches)
    if (streams.length === 0) return failed(describeNone(choice, listed.streams))
    if (streams.length > MAX_CHOSEN)
      return failed(
        `streams: ${streams.length} streams were found, and at most ${MAX_CHOSEN} pipelines are created at once; choose some with a pattern`,
      )
  }
  if (!needsSuggestions(sync)) return { streams, suggestions: null, problem: null }
  return suggest(chooser, streams)
}

/** Null if it stands for too many patterns. */
function compilePattern(pattern: string): Glob | null {
  try {
    return compileGlob(pattern)
  } catch (error) {
    if (error instanceof ConnectorError) return null
    throw error
  }
}

function describeNone(choice: 'all' | { pattern: string }, known: readonly string[]): string {
  if (choice === 'all' || known.length === 0) return 'streams: the source has no streams'
  return `streams: no stream matches '${choice.pattern}'; ${nameStreams(choice.pattern, known)}`
}

/** An incremental read needs a cursor, an upsert a key; and with a key, upsert is the default of an incremental read. */
function needsSuggestions(sync: unknown): boolean {
  const { mode, write, cursor_field, primary_key } = isObject(sync) ? sync : {}
  const isIncremental = mode === 'incremental'
  if (isIncremental && cursor_field === undefined) return true
  return primary_key === undefined && (write === 'upsert' || (isIncremental && write === undefined))
}

async function suggest({ services, actor, source, signal }: Chooser, streams: string[]): Promise<ChosenStreams> {
  const described = await describeEach(services, actor, { source, streams }, signal)
  if (!described.success) return { streams, suggestions: new Map(), problem: `config.source: ${described.message}` }
  const suggestions = (described.descriptions ?? []).map(({ stream, primary_key, cursor_fields }) => {
    const suggestion: Suggestion = { primary_key, cursor_field: cursor_fields[0] ?? null }
    return [stream, suggestion] as const
  })
  return { streams, suggestions: new Map(suggestions), problem: null }
}
