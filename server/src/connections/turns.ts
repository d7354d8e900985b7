/** So many calls of one organization at a time and no more: beyond that one is told to come back rather than to wait. */
import { lookUpAs } from '../egress/lookup.ts'
import { AppError } from '../errors.ts'

const RETRY_SECONDS = 2

export type Turns = <T>(organizationId: string, call: () => Promise<T>) => Promise<T>

export function createTurns(atOnce: number, what: string): Turns {
  const underWay = new Map<string, number>()
  return async (organizationId, call) => {
    const count = underWay.get(organizationId) ?? 0
    if (count >= atOnce)
      throw new AppError(
        'too_many_requests',
        `${count} ${what} of your organization are under way; try again in ${RETRY_SECONDS} seconds`,
        { 'Retry-After': String(RETRY_SECONDS) },
      )
    underWay.set(organizationId, count + 1)
    try {
      return await lookUpAs(organizationId, call)
    } finally {
      const left = underWay.get(organizationId)! - 1
      if (left === 0) underWay.delete(organizationId)
      else underWay.set(organizationId, left)
    }
  }
}
