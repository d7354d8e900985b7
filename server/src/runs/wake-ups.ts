/**
 * How workers learn about runs. Up to eight workers with free slots listen (table `listening_workers`), and a message wakes
 * as many of them as there are runs: it names their seats. One that has no free slot left passes it on, but not more than
 * ten times a second: while runs are short, all are full and each claims with the end of its own. The others
 * look a little later, and once for many messages, in case one that was named has died. A worker without a seat polls every two
 * seconds, and checks its own runs every second: with hundreds of them there is still a poll every few milliseconds.
 */
import { sql } from '../database/database.ts'
import { CHANNEL, readMessage, readSeats, wakeWorkers } from '../database/notifications.ts'
import type { WorkerServices } from './worker-services.ts'

/** A seat is renewed with every poll; the seat of a dead worker is free after this time. */
const SEAT_SECONDS = 20
/** When those look that a message did not name. */
const OTHERS_LOOK_MS = 500
/** What follows a message that was passed on within this time is passed on together. */
const PASS_ON_MS = 100

export interface WakeUps {
  listening(): boolean
  /** Takes, keeps or leaves the seat. Called with every poll. */
  keepSeat(wanted: boolean): Promise<void>
  stop(): Promise<void>
}

export interface WakeUpHandlers {
  /** Runs are waiting. False if this worker has no room for one. */
  ready(): boolean
  cancelled(runId: string): void
  /** A reader is following the log of this run. */
  followed(runId: string): void
  /** Messages may have been missed. */
  gap(): void
}

export function listenForRuns({ db }: WorkerServices, worker: string, on: WakeUpHandlers): WakeUps {
  let stopListening: (() => Promise<void>) | null = null
  let seat: number | null = null
  let later: NodeJS.Timeout | undefined
  let passing: { runs: number; tried: Set<number>; timer: NodeJS.Timeout } | null = null

  // If it cannot be passed on, the others look by themselves.
  const wakeOthers = (runs: number, tried: Iterable<number>) =>
    void db.control.execute(wakeWorkers(runs, [...tried])).catch(() => {})
  const passOn = (tried: readonly number[]) => {
    if (passing) {
      passing.runs++
      for (const seat of tried) passing.tried.add(seat)
      return
    }
    wakeOthers(1, tried)
    passing = { runs: 0, tried: new Set(), timer: setTimeout(passOnTheRest, PASS_ON_MS) }
  }
  const passOnTheRest = () => {
    const { runs, tried } = passing!
    passing = null
    if (runs > 0 && !on.ready()) wakeOthers(runs, tried)
  }
  const lookLater = () => {
    later ??= setTimeout(() => {
      later = undefined
      on.ready()
    }, OTHERS_LOOK_MS)
  }
  const beReady = (payload: string) => {
    const { seats, tried } = readSeats(payload)
    if (seats !== null && (seat === null || !seats.includes(seat))) lookLater()
    else if (!on.ready() && seats !== null) passOn([...tried, ...seats])
  }
  const handle = (payload: string) => {
    const { message, run_id } = readMessage(payload)
    if (message === 'ready') beReady(payload)
    if (message === 'cancel') on.cancelled(run_id)
    if (message === 'follow') on.followed(run_id)
  }
  const leave = async () => {
    const stop = stopListening
    stopListening = null
    clearTimeout(later)
    later = undefined
    clearTimeout(passing?.timer)
    passing = null
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
      seat = await takeSeat(db.control, worker)
      if (seat === null) return leave()
      stopListening ??= await db.listen(CHANNEL, handle, on.gap)
    },
    async stop() {
      if (stopListening) await leaveSeat().catch(() => 0)
      await leave()
    },
  }
}

/** The seat that this worker already has, or a free one. */
async function takeSeat(db: WorkerServices['db']['control'], worker: string): Promise<number | null> {
  const until = sql`now() + make_interval(secs => ${SEAT_SECONDS})`
  const kept = await db.first<{ seat: number }>(
    sql`UPDATE listening_workers SET until = ${until} WHERE worker = ${worker} RETURNING seat`,
  )
  if (kept) return kept.seat
  const taken = await db.first<{ seat: number }>(sql`
    UPDATE listening_workers SET worker = ${worker}, until = ${until}
     WHERE seat = (SELECT seat FROM listening_workers WHERE until < now() ORDER BY seat LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING seat`)
  return taken?.seat ?? null
}
