/**
 * Server-sent events. Every stream has a place, counted over all and per organization, which it takes before anything is
 * awaited and gives back when it has ended, whoever ended it: the sender, the reader, the service, or the time within
 * which a reader has to take what was sent. Without that time a reader who never reads would keep its place for ever.
 */
import type { FastifyReply } from 'fastify'
import { AppError } from '../errors.ts'

export interface StreamLimits {
  inAll: number
  perOrganization: number
  /** How long a reader may take to read what is in front of it. */
  writeMs: number
}

/** Each stream asks the database every other second. */
const LIMITS: StreamLimits = { inAll: 1000, perOrganization: 200, writeMs: 30_000 }

export interface EventStream {
  /** Aborted once nobody reads any more, or the service stops. */
  signal: AbortSignal
  /** Resolves when the reader has room for more; at once where there is no reader any more. */
  send(text: string): Promise<void>
}

/** Begins the answer. What is thrown before is an ordinary error response. */
export type Begin = (reply: FastifyReply) => EventStream

export interface EventStreams {
  /** Throws 429 where no place is left. */
  serve(organizationId: string, work: (begin: Begin) => Promise<void>): Promise<void>
  /** Ends all streams. */
  end(): void
}

export function createEventStreams(limits: StreamLimits = LIMITS): EventStreams {
  const open = new Map<AbortController, string>()
  const takePlace = (organizationId: string): AbortController => {
    const ofOrganization = [...open.values()].filter((organization) => organization === organizationId).length
    if (ofOrganization >= limits.perOrganization)
      throw tooMany(`Your organization has ${ofOrganization} event streams open; close some of them`)
    if (open.size >= limits.inAll) throw tooMany('Too many event streams are open; try again in a while')
    const place = new AbortController()
    open.set(place, organizationId)
    return place
  }
  return {
    async serve(organizationId, work) {
      const place = takePlace(organizationId)
      try {
        await work((reply) => beginStream(reply, place, limits.writeMs))
      } finally {
        open.delete(place)
        place.abort()
      }
    },
    end() {
      for (const place of open.keys()) place.abort()
    },
  }
}

const tooMany = (detail: string) => new AppError('too_many_requests', detail, { 'Retry-After': '10' })

function beginStream(reply: FastifyReply, place: AbortController, writeMs: number): EventStream {
  reply.hijack()
  const out = reply.raw
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) out.setHeader(name, value)
  out.writeHead(200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
  })
  const { signal } = place
  const close = () => {
    out.end()
    // What was sent last may still be unread.
    const late = setTimeout(() => out.destroy(), writeMs).unref()
    out.once('close', () => clearTimeout(late))
  }
  signal.addEventListener('abort', close, { once: true })
  out.once('close', () => place.abort())
  // The reader may have gone while the answer was prepared; there is no event for that any more.
  if (out.destroyed || signal.aborted) place.abort()
  return {
    signal,
    send: (text) =>
      new Promise((resolve) => {
        if (signal.aborted || out.write(text)) return resolve()
        const stop = () => {
          clearTimeout(late)
          out.off('drain', stop)
          signal.removeEventListener('abort', stop)
          resolve()
        }
        const late = setTimeout(() => {
          out.destroy()
          place.abort()
        }, writeMs)
        out.once('drain', stop)
        signal.addEventListener('abort', stop, { once: true })
      }),
  }
}
