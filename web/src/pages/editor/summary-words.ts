/** The pipeline in one sentence, as far as it is known. */
import { type Draft, streamOf } from './draft.ts'
import { getIn } from './fields.ts'
import { saySchedule } from './schedule-words.ts'
import type { Sync } from './sync.ts'

/** Text, or a name that is set apart from it. */
export type Word = string | { name: string }

interface Known {
  draft: Draft
  source: string | null
  destination: string | null
  sync: Sync
}

export function sayPipeline({ draft, source, destination, sync }: Known): Word[] {
  if (source === null) return ['Choose a source to begin.']
  const stream = streamOf(draft)
  const from = sayStreams(draft, source)
  if (from === null) return ['Read from ', { name: source }, '. Choose what to read.']
  const when = saySchedule(draft.schedule)
  const read: Word[] =
    sync.mode === 'incremental'
      ? ['take new rows of ', ...from, ...(sync.cursor_field ? [' by ', { name: sync.cursor_field }] : [])]
      : ['take all rows of ', ...from]
  if (destination === null) return [`${when}, `, ...read, '. Choose where they go.']
  return [`${when}, `, ...read, ...sayWrite(sync, sayTarget(draft, destination, stream)), '.']
}

function sayStreams(draft: Draft, source: string): Word[] | null {
  if (draft.many) return [{ name: String(draft.many.streams.length) }, ' streams of ', { name: source }]
  const stream = streamOf(draft)
  return stream === null ? null : [{ name: stream }, ' of ', { name: source }]
}

function sayWrite({ write, primary_key }: Sync, target: Word[]): Word[] {
  if (write === 'upsert')
    return [' and upsert them', ...(primary_key.length > 0 ? [' by ', ...list(primary_key)] : []), ' into ', ...target]
  if (write === 'replace') return [' and replace what is in ', ...target]
  return [' and add them to ', ...target]
}

/** The table where there is one, else the connection. */
function sayTarget(draft: Draft, destination: string, stream: string | null): Word[] {
  const table = draft.many ? draft.many.table_pattern : getIn(draft.config, ['destination', 'config', 'table'])
  const schema = getIn(draft.config, ['destination', 'config', 'schema'])
  if (typeof table === 'string' && table !== '') {
    const name = typeof schema === 'string' && schema !== '' ? `${schema}.${table}` : table
    return [{ name }, ' of ', { name: destination }]
  }
  return stream === null && draft.many ? ['tables of ', { name: destination }] : [{ name: destination }]
}

function list(names: readonly string[]): Word[] {
  return names.flatMap((name, index) => [
    ...(index === 0 ? [] : [index === names.length - 1 ? ' and ' : ', ']),
    { name },
  ])
}
