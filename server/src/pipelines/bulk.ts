/** Creates one pipeline per selected stream of a source, in one transaction: all of them or none. */
import { randomUUID } from 'node:crypto'
import { restoreMasks } from '../connections/masks.ts'
import { isObject } from '../connectors/settings/settings.ts'
import { AppError } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { checkConfig } from './config.ts'
import {
  enterDomain,
  insertPipeline,
  type Pipeline,
  readTiming,
  requireReadableRuns,
  requireRoom,
  type Stores,
  type Timing,
} from './pipelines.ts'
import { forgetTotal } from './totals.ts'

export interface BulkInput extends Timing {
  /** Contains {stream}, and optionally {source}. */
  name_pattern?: string
  streams: string[]
  /** A pipeline's config whose source has no stream. */
  config: unknown
  domain_id?: string | null
}

const DEFAULT_PATTERN = '{source} {stream}'
const MAX_NAME = 200

export async function createPipelines(stores: Stores, actor: Actor, input: BulkInput): Promise<Pipeline[]> {
  const { db, box } = stores
  const pattern = input.name_pattern ?? DEFAULT_PATTERN
  if (input.streams.length > 1 && !pattern.includes('{stream}'))
    throw new AppError('invalid_input', "name_pattern: must contain {stream}, as in '{source} {stream}'")
  const source = isObject(input.config) && isObject(input.config.source) ? input.config.source : null
  if (source && Object.hasOwn(source, 'stream'))
    throw new AppError('invalid_input', 'config.source.stream: leave it out; each of the streams gets a pipeline')
  const made = await db.transaction(async (tx) => {
    const references = await enterDomain(tx, actor, input.config, input.domain_id ?? null)
    await requireRoom(tx, stores, actor, input.streams.length)
    const timing = readTiming(input, references.now)
    const given = restoreMasks(input.config, undefined, 'config') as object
    const rows: Pipeline[] = []
    for (const stream of input.streams) {
      const { config, summary } = checkConfig(
        source ? { ...given, source: { ...source, stream } } : given,
        references,
        box,
        stores.config,
      )
      // All of them have the same settings.
      if (rows.length === 0) await requireReadableRuns({ db: tx, box }, actor, config, references)
      const name = pattern.replace(/\{(stream|source)\}/g, (_, word: string) =>
        word === 'stream' ? stream : summary.source_name,
      )
      const row = { ...timing, id: randomUUID(), name: name.slice(0, MAX_NAME), domain_id: input.domain_id ?? null }
      rows.push(await insertPipeline(tx, box, actor, { ...row, config, summary }))
    }
    return rows
  })
  forgetTotal(actor.organization_id)
  return made
}
