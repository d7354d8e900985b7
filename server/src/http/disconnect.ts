import type { FastifyReply } from 'fastify'

/** Aborted when the caller goes away before the answer: work that only they wait for can stop. */
export function signalOf(reply: FastifyReply): AbortSignal {
  const gone = new AbortController()
  reply.raw.once('close', () => {
    if (!reply.raw.writableFinished) gone.abort(new Error('The caller has gone away'))
  })
  return gone.signal
}
