/**
 * Sends what is queued for webhooks and alerts. One loop claims due deliveries and sleeps until it is notified, something falls due, or a slot
 * becomes free; it also polls occasionally in case a notification was lost. Any number of processes may run it.
 */

import type { Logger } from 'pino'
import { removeOldIncidents } from '../alerts/incidents.ts'
import { type AlertServices, sendAlert } from '../alerts/send.ts'
import type { Unsent } from '../alerts/waiting.ts'
import type { Database } from '../database/database.ts'
import { CHANNEL, readMessage } from '../database/notifications.ts'
import { retryWhileUnavailable } from '../database/retry-while-unavailable.ts'
import { type SecretBox, SecretLost } from '../database/secret-box.ts'
import { lookUpAs } from '../egress/lookup.ts'
import type { Egress } from '../egress/policy.ts'
import { type Answer, unanswered } from '../egress/post-notice.ts'
import { createWakeSignal } from '../wake-signal.ts'
import {
  type ClaimedDelivery,
  type ClaimedEvent,
  claimDeliveries,
  holdDelivery,
  nextDueMs,
  noteDelivered,
  noteDropped,
  noteFailed,
  noteRetry,
  releaseDelivery,
  removeOldDeliveries,
} from './queue.ts'
import { sendDelivery } from './request.ts'
import { secretPlace } from './webhooks.ts'

const IN_FLIGHT = 32
const IN_FLIGHT_PER_ORGANIZATION = 4
const LOOK_MS = 15_000
const AFTER_FAULT_MS = 1000
const CLEANUP_MS = 60 * 60 * 1000

const SECOND = 1000
const MINUTE = 60 * SECOND
/** Back-off after the first, the second, … failed attempt; after the last one the delivery is given up. */
export const BACK_OFF_MS = [10 * SECOND, MINUTE, 5 * MINUTE, 30 * MINUTE, 120 * MINUTE] as const
export const MAX_ATTEMPTS = BACK_OFF_MS.length + 1

export interface WebhookDeliveries {
  /** Lets requests in flight finish; at the deadline they are aborted and fall due again. */
  stop(deadline?: AbortSignal): Promise<void>
}

interface DeliveryServices {
  db: Database
  box: SecretBox
  egress: Egress
  config: AlertServices['config']
  log: Logger
}

export async function startWebhookDeliveries(services: DeliveryServices): Promise<WebhookDeliveries> {
  const { db, log } = services
  const wakeSignal = createWakeSignal()
  const aborting = new AbortController()
  const inFlight = new Set<Promise<void>>()
  const busy = new Map<string, number>()
  let stopping = false
  let cleanedUpAt = Number.NEGATIVE_INFINITY

  const start = (delivery: ClaimedDelivery) => {
    const organization = delivery.organization_id
    busy.set(organization, (busy.get(organization) ?? 0) + 1)
    const done = deliver(services, delivery, aborting.signal)
      .catch((error: Error) =>
        log.warn(
          { err: error, delivery_id: delivery.id },
          'the result of a delivery could not be saved; it will be sent again',
        ),
      )
      .then(() => {
        inFlight.delete(done)
        const left = busy.get(organization)! - 1
        if (left === 0) busy.delete(organization)
        else busy.set(organization, left)
        wakeSignal.wake()
      })
    inFlight.add(done)
  }

  /** Returns the time until the next poll. */
  const look = async (): Promise<number> => {
    const free = IN_FLIGHT - inFlight.size
    if (free > 0) {
      const claimed = await claimDeliveries(db, { free, perOrganization: IN_FLIGHT_PER_ORGANIZATION, busy })
      for (const delivery of claimed) start(delivery)
    }
    if (performance.now() - cleanedUpAt > CLEANUP_MS) {
      cleanedUpAt = performance.now()
      const removed = await removeOldDeliveries(db)
      if (removed > 0) log.info({ removed }, 'removed old deliveries')
      await removeOldIncidents(db)
    }
    return Math.min((await nextDueMs(db)) ?? LOOK_MS, LOOK_MS)
  }

  const loop = async () => {
    while (!stopping) {
      const waitMs = await look().catch((error: Error) => {
        log.warn({ err: error }, 'looking for deliveries failed; trying again soon')
        return AFTER_FAULT_MS
      })
      await wakeSignal.wait(waitMs)
    }
  }

  const stopListening = await db.listen(
    CHANNEL,
    (payload) => {
      if (readMessage(payload).message === 'delivery') wakeSignal.wake()
    },
    wakeSignal.wake,
  )
  const looping = loop()

  return {
    async stop(deadline) {
      stopping = true
      wakeSignal.wake()
      const abort = () => aborting.abort()
      if (deadline?.aborted) abort()
      deadline?.addEventListener('abort', abort, { once: true })
      await looping
      await stopListening()
      await Promise.all(inFlight)
      deadline?.removeEventListener('abort', abort)
    },
  }
}

async function deliver(services: DeliveryServices, delivery: ClaimedDelivery, signal: AbortSignal): Promise<void> {
  const { db, log } = services
  const note = (act: () => Promise<number>) => retryWhileUnavailable(act)
  const isAlert = delivery.alert_id !== null
  if (!delivery.enabled) {
    const reason = `The ${isAlert ? 'alert' : 'webhook'} was disabled before this was sent`
    return void (await note(() => noteDropped(db, delivery, reason)))
  }
  let answer: Answer | Unsent | null
  try {
    answer = await (isAlert ? sendAlert(services, delivery, signal) : sendEvent(services, delivery, signal))
  } catch (error) {
    if (signal.aborted) return void (await note(() => releaseDelivery(db, delivery)))
    log.error({ err: error, delivery_id: delivery.id }, 'a delivery could not be sent')
    const lost = isAlert ? 'Where it is sent' : 'The signing secret'
    answer = unanswered(error instanceof SecretLost ? `${lost} cannot be decrypted. ${error.message}` : FAULT, true)
  }
  if (answer === null) return
  if ('dropped' in answer) await note(() => noteDropped(db, delivery, answer.dropped))
  else if ('held_ms' in answer) await note(() => holdDelivery(db, delivery, answer))
  else if (answer.arrived) await note(() => noteDelivered(db, delivery, answer.response_status))
  else if (answer.again && delivery.attempts < MAX_ATTEMPTS)
    await note(() => noteRetry(db, delivery, answer, delayAfter(delivery.attempts, answer.retryAfterMs)))
  else await note(() => noteFailed(db, delivery, answer))
}

function sendEvent({ box, egress }: DeliveryServices, delivery: ClaimedEvent, signal: AbortSignal): Promise<Answer> {
  const { organization_id, webhook_id, secret_box } = delivery
  const secret = box.open<string>(secretPlace(organization_id, webhook_id), secret_box)
  return lookUpAs(organization_id, () => sendDelivery(egress, { ...delivery, secret }, signal))
}

const FAULT = 'It was not sent because of an internal error; the service log has the cause'

/** With ±20% jitter, so that what failed together is not retried together; never before the receiver's Retry-After. */
export function delayAfter(attempts: number, retryAfterMs: number): number {
  const backOff = BACK_OFF_MS[Math.min(attempts, BACK_OFF_MS.length) - 1]!
  return Math.round(Math.max(backOff * (0.8 + 0.4 * Math.random()), retryAfterMs * (1 + 0.1 * Math.random())))
}
