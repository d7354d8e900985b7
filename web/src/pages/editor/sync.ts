/** How a pipeline reads and writes: what its connectors allow, and which defaults the server applies. */
import { textsOf } from './columns.ts'
import { type Fields, isObject } from './fields.ts'

export type Mode = 'full_refresh' | 'incremental'
export type Write = 'append' | 'replace' | 'upsert'

export interface Abilities {
  incremental: boolean
  /** An incremental read needs no cursor field. */
  own_cursor: boolean
  write: Write[]
  quarantine: boolean
}

export interface Sync {
  mode: Mode
  write: Write
  cursor_field: string | null
  primary_key: string[]
}

type Capable = { capabilities: Fields } | undefined

/** Nothing is ruled out for a connector that is not in the catalogue: the server decides. */
export function abilitiesOf(source: Capable, destination: Capable): Abilities {
  const write = destination?.capabilities.write
  return {
    incremental: source?.capabilities.incremental !== false,
    own_cursor: source?.capabilities.own_cursor === true,
    write: Array.isArray(write) ? (write as Write[]) : ['append', 'replace', 'upsert'],
    quarantine: destination?.capabilities.quarantine === true,
  }
}

/** As a run applies it (pipelines/config.ts of the server). Of many streams each brings its own key. */
export function syncOf(config: Fields, { write: offered }: Abilities, many: boolean): Sync {
  const given = isObject(config.sync) ? config.sync : {}
  const mode: Mode = given.mode === 'incremental' ? 'incremental' : 'full_refresh'
  const primary_key = textsOf(given.primary_key)
  const wanted: Write[] =
    mode === 'full_refresh' ? ['replace', 'append'] : primary_key.length > 0 || many ? ['upsert', 'append'] : ['append']
  const byDefault = wanted.find((write) => offered.includes(write)) ?? offered[0] ?? 'append'
  return {
    mode,
    write: isWrite(given.write) ? given.write : byDefault,
    cursor_field: typeof given.cursor_field === 'string' && given.cursor_field !== '' ? given.cursor_field : null,
    primary_key,
  }
}

/** An incremental run has only new records: replacing the rest with them would lose it. */
export function writesFor(mode: Mode, { write }: Abilities): Write[] {
  return mode === 'incremental' ? write.filter((way) => way !== 'replace') : write
}

/** What is missing, in a sentence, or null. Many streams get their keys from their descriptions. */
export function findSyncFault(sync: Sync, abilities: Abilities, many: boolean): string | null {
  if (sync.mode === 'incremental' && !abilities.incremental) return 'This source can only be read whole.'
  if (!abilities.write.includes(sync.write)) return `This destination cannot ${sync.write}.`
  if (many) return null
  if (sync.mode === 'incremental' && sync.cursor_field === null && !abilities.own_cursor)
    return 'Name the column by which new rows are found.'
  if (sync.write === 'upsert' && sync.primary_key.length === 0) return 'Name the columns that identify a row.'
  return null
}

function isWrite(value: unknown): value is Write {
  return value === 'append' || value === 'replace' || value === 'upsert'
}
