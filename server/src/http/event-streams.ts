/**
 * Server-sent events. Every stream takes a slot before anything is awaited and releases it when it ends. Slots are limited
 * in all and per organization. A stream ends when the sender is done, the reader leaves, the service stops, or the reader
 * does not read for some time: without that limit a reader who never reads would keep a slot forever.
 */
import type { FastifyReply } from 'fastify'
import { AppError } from '../errors.ts'

export interface StreamLimits {
  inAll: number
  perOrganization: number
  /** Of streams that a browser needs only once. */
  perPerson: number
  /** How long a reader may take to make room for more. */
  writeMs: number
}

/** Each stream queries the database every two seconds. */
const LIMITS: StreamLimits = { inAll: 1000, perOrganization: 200, perPerson: 20, writeMs: 30_000 }

export interface EventStream {
  /** Aborted when the reader has gone or the service stops. */
  signal: AbortSignal
  /** Resolves when the reader has room for more, or has gone. */
  send(text: string): Promise<void>
}

/** Starts the response. An error that is thrown before is an ordinary error response. */
export type Begin = (reply: FastifyReply) => EventStream

export interface EventStreams {
  /** Throws 429 if no slot is left. */
  serve(organizationId: string, work: (begin: Begin) => Promise<void>, person?: string): Promise<void>
  /** Ends all streams. */
  end(): void
}

export function createEventStreams(limits: StreamLimits = LIMITS): EventStreams {
  const open = new Map<AbortController, { organization: string; person: string | undefined }>()
  const takeSlot = (organizationId: string, person: string | undefined): AbortController => {
    const ofOrganization = [...open.values()].filter(({ organization }) => organization === organizationId).length
    const ofPerson = person === undefined ? 0 : [...open.values()].filter((each) => each.person === person).length
    if (ofPerson >= limits.perPerson)
      throw tooMany(`You have ${ofPerson} of these event streams open; close some of them`)
    if (ofOrganization >= limits.perOrganization)
      throw tooMany(`Your organization has ${ofOrganization} event streams open; close some of them`)
    if (open.size >= limits.inAll) throw tooMany('Too many event streams are open; try again later')
    const slot = new AbortController()
    open.set(slot, { organization: organizationId, person })
    return slot
  }
  return {
    async serve(organizationId, work, person) {
      const slot = takeSlot(organizationId, person)
      try {
        await work((reply) => beginStream(reply, slot, limits.writeMs))
      } finally {
        open.delete(slot)
        slot.abort()
      }
    },
    end() {
      for (const slot of open.keys()) slot.abort()
    },
  }
}

const tooMany = (detail: string) => new AppError('too_many_requests', detail, { 'Retry-After': '10' })

function beginStream(reply: FastifyReply, slot: AbortController, writeMs: number): EventStream {
  reply.hijack()
  const out = reply.raw
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) out.setHeader(name, value)
  out.writeHead(200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-store',
    'X-Accel-Buffering': 'no',
  })
  const { signal } = slot
  const close = () => {
    out.end()
    // What was sent last may still be unread.
    const late = setTimeout(() => out.destroy(), writeMs).unref()
    out.once('close', () => clearTimeout(late))
  }
  signal.addEventListener('abort', close, { once: true })
  out.once('close', () => slot.abort())
  // The reader may have left before this point, and then there is no event for it.
  if (out.destroyed || signal.aborted) slot.abort()
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
          slot.abort()
        }, writeMs)
        out.once('drain', stop)
        signal.addEventListener('abort', stop, { once: true })
      }),
  }
}
