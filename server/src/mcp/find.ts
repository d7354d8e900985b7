/** Pipelines are named by their name as well as by their id. */

import { UsageError } from '../errors.ts'
import { Type } from '../schema.ts'
import { type Ask, withQuery } from './ask.ts'

const UUID = /^[0-9A-Fa-f]{8}(-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}$/

export const PipelineRef = Type.String({
  minLength: 1,
  maxLength: 200,
  description: 'The name or the id of a pipeline',
})
export const Id = (description: string) => Type.String({ pattern: UUID.source, description })

interface Found {
  id: string
  name: string
}

/** Its id. A name in another case is accepted if only one pipeline has it. */
export async function findPipeline(ask: Ask, given: string): Promise<string> {
  if (UUID.test(given)) return given
  const found = await ask<Found[]>('GET', withQuery('/api/pipelines', { q: given, limit: 100, sort: 'name' }))
  const exact = found.filter(({ name }) => name === given)
  const same = exact.length > 0 ? exact : found.filter(({ name }) => name.toLowerCase() === given.toLowerCase())
  if (same.length === 1) return same[0]!.id
  if (same.length > 1)
    throw new UsageError(
      `There are ${same.length} pipelines '${given}'; use the id of one: ${same.map(({ id }) => id).join(', ')}`,
    )
  throw new UsageError(`There is no pipeline '${given}'; list_pipelines shows those that there are`)
}
