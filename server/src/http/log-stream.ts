/** The log of a run as server-sent events, until the run has ended or the reader goes. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import { type LogTail, readLog } from '../runs/log-reading.ts'
import { readRun } from '../runs/runs.ts'
import type { Services } from '../services.ts'
import { actorOf, authenticate } from './authenticate.ts'
import type { EventStream } from './event-streams.ts'

const QUIET_MS = 15_000
/** How often the log is read even without a notification, because one may be lost with a connection. */
const LOOK_MS = 2000

export function followLog(
  services: Services,
  runId: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const actor = actorOf(request)
  return request.server.eventStreams.serve(actor.organization_id, async (begin) => {
    const after = Number(/^\d{1,9}$/.exec(String(request.headers['last-event-id'] ?? ''))?.[0] ?? 0)
    // Everything that can be refused is refused before the stream begins.
    const tail = await readLog(services, actor, runId, after)
    const stream = begin(reply)
    try {
      await sendLog(services, request, stream, { runId, after, tail })
    } catch (error) {
      request.log.warn({ err: error }, 'following a log failed')
    }
  })
}

interface Position {
  runId: string
  after: number
  tail: LogTail
}

async function sendLog(
  services: Services,
  request: FastifyRequest,
  stream: EventStream,
  { runId, after, tail }: Position,
): Promise<void> {
  const { db, runMessages } = services
  const actor = actorOf(request)
  const follower = runMessages.follow(runId)
  stream.signal.addEventListener('abort', () => follower.stop(), { once: true })
  let spokeAt = Date.now()
  try {
    while (!stream.signal.aborted) {
      for (const { number, text } of tail.lines) {
        after = number
        await stream.send(`id: ${number}\nevent: line\ndata: ${text}\n\n`)
        spokeAt = Date.now()
      }
      if (tail.finished || stream.signal.aborted) break
      await follower.next(LOOK_MS)
      if (stream.signal.aborted) break
      if (Date.now() - spokeAt > QUIET_MS) {
        await stream.send(': still here\n\n')
        spokeAt = Date.now()
      }
      if (!(await isStillAllowed(services, request))) break
      tail = await readLog(services, actor, runId, after)
    }
    if (tail.finished) {
      const { status } = await readRun(db, actor, runId)
      await stream.send(`event: end\ndata: ${JSON.stringify({ status })}\n\n`)
    }
  } finally {
    follower.stop()
  }
}

/** A stream may last for hours, and the session, the key or the membership may end before it. */
export const isStillAllowed = (services: Services, request: FastifyRequest): Promise<boolean> =>
  authenticate(services, request).then(
    () => true,
    (error: unknown) => {
      if (error instanceof AppError) return false
      throw error
    },
  )
