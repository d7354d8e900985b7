import { timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { sha256 } from '../sha256.ts'

/** Whether a request carries METRICS_TOKEN. False for all requests if it is not set. */
export function createTokenCheck(token: string | undefined): (request: FastifyRequest) => boolean {
  if (token === undefined) return () => false
  // Hashes have the same length for every input, so the comparison always takes the same time.
  const expected = sha256(token)
  return (request) => {
    const given = /^Bearer +(.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? ''
    return timingSafeEqual(sha256(given), expected)
  }
}
