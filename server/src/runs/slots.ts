/**
 * The slots of a worker and what runs in them. Free slots are filled by claims, one claim at a time. A run that ends
 * claims for its slot in the statement that ends it.
 *
 * A claim whose answer was lost may have taken runs that this worker does not know about. They carry its name, so it
 * releases them as soon as the database answers again; nothing counts against them.
 */
import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from '../database/database.ts'
import type { ExecutorPool } from '../executors/pool.ts'
import type { Attempt } from './attempt.ts'
import { type Claim, type ClaimedRun, type ClaimRequest, claim, loadClaimed } from './claim.ts'
import { handOver, type NextClaim, type RunLease } from './finish.ts'
import { type Moment, takeMoment } from './moment.ts'
import { createSuccessQueue, type FinishSuccess } from './success.ts'
import { type Supervised, superviseRun } from './supervise.ts'
import type { WorkerServices } from './worker-services.ts'

/** Back-off after claims that ran into other workers. */
const BUSY_MS = [5, 20, 50, 100, 200]

export interface Slots {
  /** The name under which runs are leased. */
  readonly worker: string
  /** Claims runs for free slots. */
  fill: () => void
  free(): number
  attempts: () => Attempt[]
  find(runId: string): Attempt | undefined
  /** Resolves when the one run of a worker that takes only one has ended. */
  readonly sawOneThrough: Promise<void>
  /** Whether that run has begun. */
  hasBegun(): boolean
  /** Claims nothing new, and at the deadline hands over what has not finished. */
  drain(deadline: AbortSignal): Promise<void>
}

/** What a worker takes. */
export interface Share {
  /** Only runs of this class; '' is what workers share. */
  podClass: string
  /** One run, and no more after it. */
  once: boolean
}

export const SHARED: Share = { podClass: '', once: false }

export const openSlots = (services: WorkerServices, pool: ExecutorPool, share = SHARED): Slots =>
  new WorkerSlots(services, pool, share)

class WorkerSlots implements Slots {
  readonly worker: string
  readonly #services: WorkerServices
  readonly #pool: ExecutorPool
  readonly #share: Share
  readonly #finishSuccess: FinishSuccess
  readonly #ended = Promise.withResolvers<void>()
  readonly sawOneThrough = this.#ended.promise
  #begun = false
  readonly #held = new Map<string, Supervised>()
  /** Claimed, and being read from the database. */
  readonly #claimed = new Set<string>()
  readonly #loading = new Set<Promise<void>>()
  readonly #fillSlots = coalesce(() => this.#claimUntilFull())
  #after: string = randomUUID()
  /** Answers of claims that were lost, and how many of them had been lost when runs were last released. */
  #lostAnswers = 0
  #releasedAfter = 0
  #stopping = false

  constructor(services: WorkerServices, pool: ExecutorPool, share: Share) {
    this.#services = services
    this.#pool = pool
    this.#share = share
    this.#finishSuccess = createSuccessQueue(services.db.control)
    // A restarted process may get the same process id, but never the same name.
    this.worker = `${services.config.instance}:${randomBytes(3).toString('hex')}`
  }

  fill = (): void => void this.#fillSlots().catch(this.#warn)

  hasBegun = (): boolean => this.#begun

  free(): number {
    if (this.#share.once) return this.#begun || this.#claimed.size > 0 ? 0 : 1
    return this.#services.config.WORKER_CONCURRENCY - this.#held.size - this.#claimed.size
  }

  attempts = (): Attempt[] => [...this.#held.values()].map(({ attempt }) => attempt)

  find(runId: string): Attempt | undefined {
    return this.#held.get(runId)?.attempt
  }

  async drain(deadline: AbortSignal): Promise<void> {
    this.#stopping = true
    // A claim in flight may still return runs; they are handed over or finished like the others.
    await this.#fillSlots().catch(() => {})
    const handOverAll = () => {
      for (const attempt of this.attempts()) attempt.stop('handed over')
    }
    if (deadline.aborted) handOverAll()
    else deadline.addEventListener('abort', handOverAll)
    while (this.#held.size > 0 || this.#loading.size > 0) {
      if (deadline.aborted) handOverAll()
      await Promise.all([...this.#loading, ...[...this.#held.values()].map(({ done }) => done)])
    }
  }

  async #claimUntilFull(): Promise<void> {
    const { db, state } = this.#services
    let busy = 0
    if (this.free() <= 0) state.claimedAt = Date.now()
    while (!this.#stopping && this.free() > 0) {
      try {
        await this.#releaseUnknown()
        const sentAt = takeMoment()
        const claimed = await claim(db.control, this.#request(this.free()))
        await this.#begin(claimed, sentAt)
        if (claimed.run_ids.length > 0) busy = 0
        else if (!claimed.busy || busy === BUSY_MS.length) return
        else await delay(BUSY_MS[busy++])
      } catch (error) {
        this.#lostAnswers++
        throw error
      }
    }
  }

  /** Until this succeeds, ends of runs claim nothing. An answer that is lost meanwhile needs another release. */
  async #releaseUnknown(): Promise<void> {
    const lost = this.#lostAnswers
    if (lost === this.#releasedAfter) return
    const { control } = this.#services.db
    const runs = await control.query<RunLease>(sql`
      SELECT id, organization_id, pipeline_id, seq, attempt, worker FROM runs WHERE status = 'running' AND worker = ${this.worker}`)
    // Checked again for each: the answer to a claim may have arrived since the query.
    for (const run of runs)
      if (!this.#held.has(run.id) && !this.#claimed.has(run.id)) await handOver(control, run, { log: null })
    this.#releasedAfter = lost
  }

  #request(free: number): ClaimRequest {
    const { ORG_CONCURRENCY, RUN_LEASE_SECONDS } = this.#services.config
    return {
      worker: this.worker,
      free,
      perOrganization: ORG_CONCURRENCY,
      leaseSeconds: RUN_LEASE_SECONDS,
      after: this.#after,
      podClass: this.#share.podClass,
    }
  }

  /** Starts what was claimed. Its slots count as taken from here on. */
  async #begin(claimed: Claim, leasedAt: Moment): Promise<void> {
    this.#after = claimed.next_after
    this.#services.state.claimedAt = Date.now()
    if (claimed.run_ids.length === 0) return
    for (const id of claimed.run_ids) this.#claimed.add(id)
    try {
      for (const run of await loadClaimed(this.#services.db.control, claimed)) this.#supervise(run, leasedAt)
    } catch (error) {
      this.#lostAnswers++
      throw error
    } finally {
      for (const id of claimed.run_ids) this.#claimed.delete(id)
    }
  }

  #supervise(run: ClaimedRun, leasedAt: Moment): void {
    this.#begun = true
    const next = this.#prepareNext()
    const finishSuccess = this.#finishSuccess
    const supervised = superviseRun(this.#services, this.#pool, run, { leasedAt, claimNext: next.claim, finishSuccess })
    this.#held.set(run.id, supervised)
    void supervised.done.then(() => {
      this.#held.delete(run.id)
      this.#ended.resolve()
      if (!next.answered()) this.fill()
    })
  }

  /** The claim that is sent with the end of a run; once it is answered, that slot needs no other claim. */
  #prepareNext(): { claim: () => NextClaim | undefined; answered: () => boolean } {
    let answered = false
    const claim = (): NextClaim | undefined => {
      if (this.#stopping || this.#share.once || this.#lostAnswers !== this.#releasedAfter) return undefined
      return {
        request: this.#request(1),
        take: (claimed, sentAt) => {
          answered = !claimed.busy
          const begun = this.#begin(claimed, sentAt)
            .catch(this.#warn)
            .finally(() => this.#loading.delete(begun))
          this.#loading.add(begun)
        },
        lost: () => {
          this.#lostAnswers++
        },
      }
    }
    return { claim, answered: () => answered }
  }

  #warn = (error: Error): void => this.#services.log.warn({ err: error }, 'claiming runs failed; trying again soon')
}

/** Calls made while one is in progress are coalesced into one more call after it. */
function coalesce(work: () => Promise<void>): () => Promise<void> {
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
