/**
 * The slots of a worker and what runs in them. Free slots are filled by claims, one claim at a time. A run that ends
 * claims for its own slot in the statement that ends it.
 *
 * A claim whose answer got lost may have taken runs that nobody attends to. They carry this worker's name, so the worker
 * gives them back as soon as the database answers again; nothing is counted against them.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from '../database/database.ts'
import type { ExecutorPool } from '../executors/pool.ts'
import type { Attempt } from './attempt.ts'
import { type Claim, type ClaimRequest, claim, loadClaimed } from './claim.ts'
import { handOver, type NextClaim } from './finish.ts'
import { type Moment, takeMoment } from './moment.ts'
import { type Supervised, superviseRun } from './supervise.ts'
import type { WorkerServices } from './worker-services.ts'

/** After claims that found others in their way. */
const BUSY_MS = [5, 20, 50, 100, 200]

export interface Slots {
  /** The name under which runs are held. */
  worker: string
  /** Claims for the slots that are free. */
  fill(): void
  free(): number
  attempts(): Attempt[]
  find(runId: string): Attempt | undefined
  /** Takes nothing new, and hands over at the deadline what has not ended. */
  drain(deadline: AbortSignal): Promise<void>
}

export function openSlots(services: WorkerServices, pool: ExecutorPool): Slots {
  const { db, config, log, state } = services
  // A process that is started again may get the same number; this name it does not get.
  const worker = `${config.instance}:${randomBytes(3).toString('hex')}`
  const held = new Map<string, Supervised>()
  const loading = new Set<Promise<void>>()
  const taken = new Set<string>()
  let after: string = randomUUID()
  let unsure = false
  let stopping = false

  const free = () => config.WORKER_CONCURRENCY - held.size - taken.size
  const request = (wanted: number): ClaimRequest => ({
    worker,
    free: wanted,
    perOrganization: config.ORG_CONCURRENCY,
    leaseSeconds: config.RUN_LEASE_SECONDS,
    after,
  })

  /** Begins what was claimed. Its slots count as taken from here on. */
  const begin = async (claimed: Claim, leasedAt: Moment): Promise<void> => {
    after = claimed.next_after
    state.claimedAt = Date.now()
    if (claimed.run_ids.length === 0) return
    for (const id of claimed.run_ids) taken.add(id)
    try {
      for (const run of await loadClaimed(db.control, claimed)) {
        const next = prepareNext()
        const supervised = superviseRun(services, pool, run, { leasedAt, claimNext: next.claim })
        held.set(run.id, supervised)
        void supervised.done.then(() => {
          held.delete(run.id)
          if (!next.answered()) fill()
        })
      }
    } catch (error) {
      unsure = true
      throw error
    } finally {
      for (const id of claimed.run_ids) taken.delete(id)
    }
  }
  /** The claim that goes with the end of a run; once it is answered there is nothing more to claim for that slot. */
  const prepareNext = () => {
    let answered = false
    const claim = (): NextClaim | undefined => {
      if (stopping || unsure) return undefined
      const sentAt = takeMoment()
      return {
        request: request(1),
        take(claimed) {
          answered = !claimed.busy
          const begun = begin(claimed, sentAt)
            .catch(warn)
            .finally(() => loading.delete(begun))
          loading.add(begun)
        },
        lost() {
          unsure = true
        },
      }
    }
    return { claim, answered: () => answered }
  }
  const fillSlots = oneAtATime(async () => {
    let busy = 0
    if (free() <= 0) state.claimedAt = Date.now()
    while (!stopping && free() > 0) {
      try {
        if (unsure) await releaseUnattended(services, worker, [...held.keys(), ...taken])
        unsure = false
        const sentAt = takeMoment()
        const claimed = await claim(db.control, request(free()))
        await begin(claimed, sentAt)
        if (claimed.run_ids.length > 0) busy = 0
        else if (!claimed.busy || busy === BUSY_MS.length) return
        else await delay(BUSY_MS[busy++])
      } catch (error) {
        unsure = true
        throw error
      }
    }
  })
  const warn = (error: Error) => log.warn({ err: error }, 'claiming runs failed; trying again soon')
  const fill = () => void fillSlots().catch(warn)

  return {
    worker,
    fill,
    free,
    attempts: () => [...held.values()].map(({ attempt }) => attempt),
    find: (runId) => held.get(runId)?.attempt,
    async drain(deadline) {
      stopping = true
      // A claim under way may still bring runs; they are handed over or finished like the others.
      await fillSlots().catch(() => {})
      const handOverAll = () => {
        for (const { attempt } of held.values()) attempt.stop('handed over')
      }
      if (deadline.aborted) handOverAll()
      else deadline.addEventListener('abort', handOverAll)
      while (held.size > 0 || loading.size > 0) {
        if (deadline.aborted) handOverAll()
        await Promise.all([...loading, ...[...held.values()].map(({ done }) => done)])
      }
    },
  }
}

async function releaseUnattended({ db }: WorkerServices, worker: string, attended: string[]): Promise<void> {
  const runs = await db.control.query<{
    id: string
    organization_id: string
    pipeline_id: string
    seq: number
    attempt: number
  }>(sql`
    SELECT id, organization_id, pipeline_id, seq, attempt FROM runs
     WHERE status = 'running' AND worker = ${worker} AND id <> ALL (${attended}::uuid[])`)
  for (const run of runs) await handOver(db.control, run, { log: null })
}

/** Calls made while one is under way are answered by one more call after it. */
function oneAtATime(work: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | null = null
  let again = false
  return () => {
    if (running) {
      again = true
      return running
    }
    running = (async () => {
      try {
        do {
          again = false
          await work()
        } while (again)
      } finally {
        running = null
      }
    })()
    return running
  }
}
