/** The steps of the editor: which of them are complete, and what the others lack. */
import type { Schemas } from '../../api/client.ts'
import { connectorOf, type Known, missingSettings, savedOf, settingsOf, titleOf } from './connectors.ts'
import { type Draft, type Side, sideOf, streamOf } from './draft.ts'
import { saySchedule } from './schedule-words.ts'
import { type Abilities, findSyncFault, type Sync } from './sync.ts'

export const STEPS = ['source', 'streams', 'destination', 'sync', 'schedule', 'review'] as const
export type Step = (typeof STEPS)[number]

export const TITLES: Record<Step, string> = {
  source: 'Source',
  streams: 'Streams',
  destination: 'Destination',
  sync: 'Sync',
  schedule: 'Schedule and name',
  review: 'Review',
}

interface Given {
  draft: Draft
  known: Known
  abilities: Abilities
  sync: Sync
  suggestedName: string
  /** The source was tested, so that its streams can be asked for; null: not yet. */
  listed: string | null
}

/** What is missing in each step, in words; null where nothing is. */
export function findGaps({ draft, known, abilities, sync, suggestedName, listed }: Given): Record<Step, string | null> {
  return {
    source:
      findEndpointGap(draft, known, 'source') ?? (isAskable(draft, known, listed) ? null : 'Test the connection.'),
    streams: draft.many || streamOf(draft) !== null ? null : 'Choose a stream.',
    destination: findEndpointGap(draft, known, 'destination'),
    sync: findSyncFault(sync, abilities, draft.many !== null),
    schedule: draft.many || (draft.name.trim() || suggestedName) !== '' ? null : 'Give it a name.',
    review: null,
  }
}

function findEndpointGap(draft: Draft, known: Known, side: Side): string | null {
  const endpoint = sideOf(draft, side)
  if (endpoint === null) return `Choose a ${side}.`
  if (endpoint.name === undefined) return null
  const missing = missingSettings(settingsOf(connectorOf(known, side, endpoint)), endpoint.config)
  return missing.length === 0 ? null : `Still needed: ${missing.join(', ')}.`
}

/** Its streams are known, or can be asked for, or one was named. */
function isAskable(draft: Draft, known: Known, listed: string | null): boolean {
  const source = sideOf(draft, 'source')
  const connector = connectorOf(known, 'source', source) as Schemas['SourceConnector'] | undefined
  if (savedOf(known, 'source', source) || draft.many || streamOf(draft) !== null || listed !== null) return true
  return connector === undefined || connector.stream_count !== null
}

/** What was chosen in a step, for its closed heading. */
export function briefOf(
  step: Step,
  { draft, known, sync, suggestedName }: Pick<Given, 'draft' | 'known' | 'sync' | 'suggestedName'>,
): string {
  switch (step) {
    case 'source':
    case 'destination':
      return titleOf(known, step, sideOf(draft, step)) ?? ''
    case 'streams':
      return draft.many ? `${draft.many.streams.length} streams` : (streamOf(draft) ?? '')
    case 'sync':
      return `${sync.mode === 'incremental' ? 'What is new' : 'Everything'}, ${sync.write}`
    case 'schedule':
      return [draft.many ? null : draft.name || suggestedName, inSentence(saySchedule(draft.schedule))]
        .filter(Boolean)
        .join(' · ')
    case 'review':
      return ''
  }
}

const inSentence = (words: string): string => words.charAt(0).toLowerCase() + words.slice(1)
