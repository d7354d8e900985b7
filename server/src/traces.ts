/**
 * Traces for an OpenTelemetry collector: a span for every request and for every attempt of a run, sent as OTLP over
 * HTTP. A span holds routes, statuses and ids, never a URL with parameters, a name or tenant text.
 *
 * Hand-written because it is one POST of JSON, for which the libraries need eleven packages and 27 MB. Spans are
 * buffered in memory; if the collector is unavailable they are dropped, and the log says so at most once a minute.
 */
import { randomBytes } from 'node:crypto'
import type { Logger } from 'pino'

export interface Span {
  name: string
  kind: 'server' | 'internal'
  /** In milliseconds since 1970. */
  started: number
  ended: number
  attributes: Record<string, string | number>
  failed: boolean
  /** 32 hexadecimal digits; generated unless given. */
  trace_id?: string
  parent_id?: string
}

export interface Traces {
  add(span: Span): void
  /** Sends what is buffered, with a short timeout. */
  close(): Promise<void>
}

const SEND_EVERY_MS = 5000
const BATCH = 512
const MAX_WAITING = 4096
const TIMEOUT_MS = 10_000
const SAY_EVERY_MS = 60_000
const LAST_TIMEOUT_MS = 1000
const KINDS = { internal: 1, server: 2 } as const
const FAILED = 2

export function createTraces(endpoint: string, log: Logger): Traces {
  const url = `${endpoint.replace(/\/+$/, '')}/v1/traces`
  const waiting: Span[] = []
  let lost = 0
  let saidAt = Number.NEGATIVE_INFINITY
  let sending: Promise<void> | null = null

  const send = async (timeoutMs: number): Promise<void> => {
    const batch = waiting.splice(0, BATCH)
    if (batch.length === 0) return
    try {
      const response = await fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(toOtlp(batch)),
        signal: AbortSignal.timeout(timeoutMs),
      })
      await response.arrayBuffer()
      if (!response.ok) throw new Error(`it answered ${response.status}`)
    } catch (error) {
      lost += batch.length
      if (performance.now() - saidAt < SAY_EVERY_MS) return
      saidAt = performance.now()
      log.warn(`${lost} spans lost so far: the collector at OTEL_EXPORTER_OTLP_ENDPOINT failed (${explain(error)})`)
    }
  }
  const sendAll = (timeoutMs: number): Promise<void> => {
    sending ??= (async () => {
      while (waiting.length > 0) await send(timeoutMs)
    })().finally(() => {
      sending = null
    })
    return sending
  }
  const timer = setInterval(() => void sendAll(TIMEOUT_MS), SEND_EVERY_MS)
  timer.unref()

  return {
    add(span) {
      if (waiting.length === MAX_WAITING) {
        waiting.shift()
        lost++
      }
      waiting.push(span)
      if (waiting.length >= BATCH) void sendAll(TIMEOUT_MS)
    },
    async close() {
      clearInterval(timer)
      await Promise.race([
        sendAll(LAST_TIMEOUT_MS),
        new Promise((resolve) => setTimeout(resolve, LAST_TIMEOUT_MS).unref()),
      ])
    },
  }
}

function explain(error: unknown): string {
  const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
  return cause instanceof Error ? cause.message : String(cause)
}

/** The trace of a caller's `traceparent`, if valid. */
export function readTraceParent(header: unknown): Pick<Span, 'trace_id' | 'parent_id'> {
  const [, trace_id, parent_id] = /^[\da-f]{2}-([\da-f]{32})-([\da-f]{16})-[\da-f]{2}/.exec(String(header)) ?? []
  return trace_id && parent_id && /[^0]/.test(trace_id) && /[^0]/.test(parent_id) ? { trace_id, parent_id } : {}
}

function toOtlp(spans: Span[]): object {
  const resource = { attributes: toAttributes({ 'service.name': 'sluice' }) }
  return { resourceSpans: [{ resource, scopeSpans: [{ scope: { name: 'sluice' }, spans: spans.map(toOtlpSpan) }] }] }
}

const toOtlpSpan = (span: Span) => ({
  traceId: span.trace_id ?? randomBytes(16).toString('hex'),
  spanId: randomBytes(8).toString('hex'),
  ...(span.parent_id && { parentSpanId: span.parent_id }),
  name: span.name,
  kind: KINDS[span.kind],
  startTimeUnixNano: nanoseconds(span.started),
  endTimeUnixNano: nanoseconds(span.ended),
  attributes: toAttributes(span.attributes),
  ...(span.failed && { status: { code: FAILED } }),
})

const nanoseconds = (ms: number): string => String(BigInt(Math.round(ms * 1000)) * 1000n)

const toAttributes = (attributes: Span['attributes']) =>
  Object.entries(attributes).map(([key, value]) => ({
    key,
    value: typeof value === 'number' ? { intValue: String(value) } : { stringValue: value },
  }))
