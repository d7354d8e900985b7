/**
 * How workers learn about runs. Up to eight workers with free slots listen (table `listening_workers`). A worker
 * without a seat polls every two seconds, and checks its own runs every second. With hundreds of workers there is still
 * a poll every few milliseconds, and a trigger wakes eight workers instead of all.
 */
import { sql } from '../database/database.ts'
import { CHANNEL, readMessage } from '../database/notifications.ts'
import type { WorkerServices } from './worker-services.ts'

/** A seat is renewed with every poll; the seat of a dead worker is free after this time. */
const SEAT_SECONDS = 20

export interface WakeUps {
  listening(): boolean
  /** Takes, keeps or leaves the seat. Called with every poll. */
  keepSeat(wanted: boolean): Promise<void>
  stop(): Promise<void>
}

export interface WakeUpHandlers {
  ready(): void
  cancelled(runId: string): void
  /** A reader is following the log of this run. */
  followed(runId: string): void
  /** Messages may have been missed. */
  gap(): void
}

export function listenForRuns({ db }: WorkerServices, worker: string, on: WakeUpHandlers): WakeUps {
  let stopListening: (() => Promise<void>) | null = null

  const handle = (payload: string) => {
    const { message, run_id } = readMessage(payload)
    if (message === 'ready') on.ready()
    if (message === 'cancel') on.cancelled(run_id)
    if (message === 'follow') on.followed(run_id)
  }
  const leave = async () => {
    const stop = stopListening
    stopListening = null
    await stop?.()
  }
  const leaveSeat = () =>
    db.control.execute(sql`UPDATE listening_workers SET worker = NULL, until = '-infinity' WHERE worker = ${worker}`)
  return {
    listening: () => stopListening !== null,
    async keepSeat(wanted) {
      if (!wanted) {
        if (stopListening) await leaveSeat()
        return leave()
      }
      const seated = await takeSeat(db.control, worker)
      if (!seated) return leave()
      stopListening ??= await db.listen(CHANNEL, handle, on.gap)
    },
    async stop() {
      if (stopListening) await leaveSeat().catch(() => 0)
      await leave()
    },
  }
}

/** The seat that this worker already has, or a free one. */
async function takeSeat(db: WorkerServices['db']['control'], worker: string): Promise<boolean> {
  const kept = await db.execute(
    sql`UPDATE listening_workers SET until = now() + make_interval(secs => ${SEAT_SECONDS}) WHERE worker = ${worker}`,
  )
  if (kept > 0) return true
  const taken = await db.execute(sql`
    UPDATE listening_workers SET worker = ${worker}, until = now() + make_interval(secs => ${SEAT_SECONDS})
     WHERE seat = (SELECT seat FROM listening_workers WHERE until < now() ORDER BY seat LIMIT 1 FOR UPDATE SKIP LOCKED)`)
  return taken > 0
}
