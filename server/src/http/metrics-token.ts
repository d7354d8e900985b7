import { createHash, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'

/** Of equal length whatever was given, so that the comparison takes the same time for all. */
const digest = (text: string) => createHash('sha256').update(text).digest()

/** Whether a request brings METRICS_TOKEN. Where none is set, none does. */
export function createTokenCheck(token: string | undefined): (request: FastifyRequest) => boolean {
  if (token === undefined) return () => false
  const expected = digest(token)
  return (request) => {
    const given = /^Bearer +(.+)$/i.exec(request.headers.authorization ?? '')?.[1] ?? ''
    return timingSafeEqual(digest(given), expected)
  }
}
