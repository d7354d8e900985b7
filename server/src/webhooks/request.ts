/** One attempt of one delivery to a webhook: the signed request. */
import type { Egress } from '../egress/policy.ts'
import { type Answer, postNotice } from '../egress/post-notice.ts'
import { sign } from '../egress/signature.ts'
import type { Json } from '../json/json.ts'

export interface SignedDelivery {
  id: string
  event: string
  payload: Record<string, Json>
  attempts: number
  created_at: string
  url: string
  secret: string
  /** Seconds since 1970, by the database's clock. */
  timestamp: number
}

/** The same bytes for every attempt. */
const bodyOf = ({ id, event, payload, created_at }: SignedDelivery): string =>
  JSON.stringify({ id, event, created_at, ...payload })

/** Throws if the signal was aborted, and for internal errors. */
export function sendDelivery(
  egress: Pick<Egress, 'stream'>,
  delivery: SignedDelivery,
  signal: AbortSignal,
): Promise<Answer> {
  const { url, secret, timestamp } = delivery
  const body = bodyOf(delivery)
  const headers = {
    'x-sluice-event': delivery.event,
    'x-sluice-delivery': delivery.id,
    'x-sluice-attempt': String(delivery.attempts),
    'x-sluice-timestamp': String(timestamp),
    'x-sluice-signature': sign(secret, timestamp, body),
  }
  return postNotice(egress, { url, headers, body, secrets: [secret] }, signal)
}
