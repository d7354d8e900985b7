/** The log of a run as server-sent events, until the run has ended or the reader goes. */
import type { FastifyReply, FastifyRequest } from 'fastify'
import { AppError } from '../errors.ts'
import { type LogTail, readLog } from '../runs/log-reading.ts'
import { readRun } from '../runs/runs.ts'
import type { Services } from '../services.ts'
import type { Actor } from '../tenancy/actor.ts'
import { authenticate } from './authenticate.ts'

const QUIET_MS = 15_000
/** Looked at even when nothing was heard, for a message may be lost with a connection. */
const LOOK_MS = 2000

/** Each asks the database every other second. */
const AT_ONCE = 200

/** Streams that are open, by what ends them when the service stops, with the organization they are of. */
export type OpenStreams = Map<() => void, string>

export async function followLog(
  services: Services,
  streams: OpenStreams,
  actor: Actor,
  runId: string,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<void> {
  const { db, blobs, runMessages } = services
  if ([...streams.values()].filter((organization) => organization === actor.organization_id).length >= AT_ONCE)
    throw new AppError('too_many_requests', `Your organization follows ${AT_ONCE} logs already; close some of them`, {
      'Retry-After': '10',
    })
  let after = Number(/^\d{1,9}$/.exec(String(request.headers['last-event-id'] ?? ''))?.[0] ?? 0)
  // Everything that can be refused is refused before the stream begins.
  let tail: LogTail = await readLog(db, blobs, actor, runId, after)
  reply.hijack()
  const out = reply.raw
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) out.setHeader(name, value)
  out.writeHead(200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
  })
  const gone = new AbortController()
  out.on('close', () => gone.abort())
  const heard = runMessages.follow(runId)
  const end = () => {
    gone.abort()
    heard.stop()
  }
  streams.set(end, actor.organization_id)
  let spokeAt = Date.now()
  try {
    for (;;) {
      for (const { number, text } of tail.lines) {
        after = number
        await write(out, `id: ${number}\nevent: line\ndata: ${text}\n\n`)
        spokeAt = Date.now()
      }
      if (tail.finished || gone.signal.aborted) break
      await heard.next(LOOK_MS)
      if (gone.signal.aborted) break
      if (Date.now() - spokeAt > QUIET_MS) {
        await write(out, ': still here\n\n')
        spokeAt = Date.now()
      }
      if (!(await stillMay(services, request))) break
      tail = await readLog(db, blobs, actor, runId, after)
    }
    if (tail.finished)
      await write(out, `event: end\ndata: ${JSON.stringify({ status: (await readRun(db, actor, runId)).status })}\n\n`)
  } catch (error) {
    request.log.warn({ err: error }, 'following a log failed')
  } finally {
    streams.delete(end)
    heard.stop()
    out.end()
  }
}

/** A stream may last for hours, and a session, a key or a membership may end before it does. */
const stillMay = (services: Services, request: FastifyRequest): Promise<boolean> =>
  authenticate(services, request).then(
    () => true,
    (error: unknown) => {
      if (error instanceof AppError) return false
      throw error
    },
  )

const write = (out: NodeJS.WritableStream, text: string): Promise<void> =>
  new Promise((resolve) => {
    if (out.write(text)) return resolve()
    const done = () => {
      out.off('drain', done)
      out.off('close', done)
      resolve()
    }
    out.on('drain', done)
    out.on('close', done)
  })
