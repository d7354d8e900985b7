/** Lists on the wire: a plain array, its total in a header, and limits that are clamped rather than refused. */
import type { FastifyReply } from 'fastify'
import { COUNTED_AT_MOST, type Listed, type Paging } from '../database/lists.ts'
import { type Static, type TSchema, Type } from '../schema.ts'
import { MAX_LIMIT } from './schemas/common.ts'

/** What a query string asks for; without a limit in it or in its schema's default, everything. */
export const paging = (query: { limit?: number; offset?: number }): Paging => ({
  limit: query.limit === undefined ? null : Math.min(query.limit, MAX_LIMIT),
  offset: query.offset ?? 0,
})

/** Sets the total and hands the rows on, to be returned by the handler. */
export function withTotal<Row>(reply: FastifyReply, { rows, total }: Listed<Row>): Row[] {
  reply.header('X-Total-Count', total)
  return rows
}

/** The response schema of a list. */
export const ListOf = <T extends TSchema>(item: T) =>
  Object.assign(Type.Unsafe<Static<T>[]>({ ...Type.Array(item) }), { headers: totalHeader })

const totalHeader = {
  'X-Total-Count': {
    type: 'integer',
    description: `How many there are in all, counted to ${COUNTED_AT_MOST} at most`,
  },
}
