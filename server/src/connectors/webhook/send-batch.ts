/** Sends one request until the receiver has taken or refused it. Nothing that a receiver does takes unbounded time or memory. */
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import type { StreamAnswer } from '../../egress/policy.ts'
import { retryAfterMs } from '../../egress/retry-after.ts'
import { sign } from '../../egress/signature.ts'
import { ConnectorError, type Context } from '../contract.ts'
import { explainRequest, explainStatus } from '../http-failures.ts'
import type { Settings } from './settings.ts'

const FIRST_PAUSE_MS = 1000
const LONGEST_PAUSE_MS = 60_000
/** A receiver that asks for more gets the request earlier, or the run fails. */
const LONGEST_RETRY_AFTER_MS = 300_000
const EXCERPT_BYTES = 16 * 1024
const EXCERPT_CHARACTERS = 200
const passing = new Set([408, 425, 429])
/** Whatever the records are, this address or these credentials do not take them. */
const unusable = new Set([401, 403, 404, 405, 407, 410])

export interface Batch {
  /** The same for the same bytes, and for no others. */
  key: string
  body: Buffer
}

/** Null if the receiver took the batch, else why it refuses these records. */
export async function sendBatch(context: Context<Settings>, batch: Batch): Promise<string | null> {
  const { config, log, signal } = context
  for (let attempt = 1; ; attempt++) {
    const last = attempt >= config.max_attempts
    const answer = await request(context, batch, attempt).catch((error: unknown) => {
      signal.throwIfAborted()
      const failure = explainRequest(error, 'destination', 'The batch cannot be sent')
      if (last || !(failure instanceof ConnectorError) || !failure.transient) throw failure
      return failure
    })
    if (!(answer instanceof ConnectorError)) {
      const { status } = answer
      const excerpt = readExcerpt(answer.body)
      // Not waited for: the receiver has the batch.
      if (status >= 200 && status < 300) return null
      if (!passing.has(status) && status < 500) return refuse(config, status, await excerpt)
      answer.body.destroy()
      if (last) throw explainStatus(status, hostOf(config), 'destination')
    }
    const pause = pauseBefore(attempt, answer)
    log.debug(`The receiver did not take a batch; it is sent again in ${Math.ceil(pause / 1000)} s.`)
    await delay(pause, undefined, { signal })
  }
}

function request({ config, egress, signal }: Context<Settings>, { key, body }: Batch, attempt: number) {
  const timestamp = Math.floor(Date.now() / 1000)
  return egress.stream(config.url, {
    method: config.method,
    headers: {
      ...config.headers,
      'content-type': config.format === 'json' ? 'application/json' : 'application/x-ndjson',
      'idempotency-key': key,
      'x-sluice-attempt': String(attempt),
      'x-sluice-timestamp': String(timestamp),
      ...(config.secret === undefined ? {} : { 'x-sluice-signature': sign(config.secret, timestamp, body) }),
    },
    body,
    signal,
    timeoutMs: config.timeout_seconds * 1000,
    maxRedirects: 0,
  })
}

const hostOf = ({ url }: Settings): string => new URL(url).host

function refuse(config: Settings, status: number, excerpt: string): string {
  if (status >= 300 && status < 400)
    throw new ConnectorError(
      'config',
      `${hostOf(config)} answered ${status}: redirects are not followed, give the final address`,
    )
  if (unusable.has(status)) throw explainStatus(status, hostOf(config), 'destination')
  return `The receiver answered ${status}${excerpt === '' ? '' : `: ${excerpt}`}`
}

/** A receiver may ask for any time. */
export function pauseBefore(attempt: number, answer: Pick<StreamAnswer, 'headers'> | ConnectorError): number {
  const backOff = Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS)
  const asked = answer instanceof ConnectorError ? null : retryAfterMs(answer)
  return asked === null ? backOff : Math.min(asked, LONGEST_RETRY_AFTER_MS)
}

/** The status decides; what cannot be read changes nothing. */
async function readExcerpt(body: Readable): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes >= EXCERPT_BYTES) break
    }
  } catch {
    // Cut off or too slow.
  }
  return Buffer.concat(chunks)
    .toString('utf8')
    .replace(/[\s\p{Cc}\p{Cf}\ufffd]+/gu, ' ')
    .trim()
    .slice(0, EXCERPT_CHARACTERS)
    .toWellFormed()
}
