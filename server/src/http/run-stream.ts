/** Changes of the runs that the caller may see, as server-sent events, until the reader goes. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import type { Services } from '../services.ts'
import { visibleDomain } from '../tenancy/visibility.ts'
import { actorOf } from './authenticate.ts'
import type { EventStream } from './event-streams.ts'
import { isStillAllowed } from './log-stream.ts'

/** A console takes a stream that is silent for twice as long for dead. */
const HEARTBEAT_MS = 10_000
/** How long after a session ended, or a role changed, events may still be sent. */
const TRUSTED_MS = 2000

export async function followRuns(
  services: Services,
  request: FastifyRequest,
  reply: FastifyReply,
  seconds: number | undefined,
): Promise<void> {
  const { organization_id, user_id } = actorOf(request)
  await request.server.eventStreams.serve(
    organization_id,
    async (begin) => {
      const stream = begin(reply)
      try {
        await sendEvents(services, request, stream, seconds)
      } catch (error) {
        request.log.warn({ err: error }, 'following runs failed')
      }
    },
    user_id,
  )
}

async function sendEvents(
  services: Services,
  request: FastifyRequest,
  stream: EventStream,
  seconds: number | undefined,
): Promise<void> {
  const watcher = services.runEvents.watch(actorOf(request).organization_id)
  stream.signal.addEventListener('abort', () => watcher.stop(), { once: true })
  const ends = seconds === undefined ? Number.POSITIVE_INFINITY : Date.now() + seconds * 1000
  let spokeAt = 0
  let checkedAt = Date.now()
  try {
    while (!stream.signal.aborted && Date.now() < ends) {
      if (Date.now() - spokeAt >= HEARTBEAT_MS) {
        await stream.send('event: heartbeat\ndata: {}\n\n')
        spokeAt = Date.now()
      }
      const events = await watcher.next(Math.min(spokeAt + HEARTBEAT_MS, ends) - Date.now())
      if (stream.signal.aborted) break
      if (Date.now() - checkedAt > TRUSTED_MS) {
        if (!(await isStillAllowed(services, request))) break
        checkedAt = Date.now()
      }
      // What an API key sees may have changed with the last check, or where a pipeline is.
      const domain = visibleDomain(actorOf(request))
      for (const { type, run } of events) {
        if (domain !== null && run.domain_id !== domain) continue
        const data = type === 'run' ? run : { id: run.id, pipeline_id: run.pipeline_id }
        await stream.send(`event: ${type}\ndata: ${JSON.stringify(data)}\n\n`)
      }
    }
  } finally {
    watcher.stop()
  }
}
