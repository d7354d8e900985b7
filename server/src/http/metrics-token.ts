import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'

/** Digests have the same length for every input, so the comparison always takes the same time. */
const digest = (text: string) => createHash('sha256').update(text).digest()

/** Whether a request carries METRICS_TOKEN. False for all requests if it is not set. */
export function createTokenCheck(token: string | undefined): (request: FastifyRequest) => boolean {
  if (token === undefined) return () => false
  const expected = digest(token)
  return (request) => {
    const given = /^Bearer +(.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? ''
    return timingSafeEqual(digest(given), expected)
  }
}
