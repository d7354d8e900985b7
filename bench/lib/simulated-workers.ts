/**
 * A process with some workers that are real except for their executors: each run succeeds at once. They share a bounded
 * pool of connections, and take runs until they are told to stop.
 */

import { readConfig } from '../../server/src/config/config.ts'
import { type ConnectionSettings, connectDatabase } from '../../server/src/database/database.ts'
import { createSecretBox } from '../../server/src/database/secret-box.ts'
import type { FromExecutor, ToExecutor } from '../../server/src/executors/messages.ts'
import type { Executor, ExecutorPool } from '../../server/src/executors/pool.ts'
import type { ExecutorEnd } from '../../server/src/executors/process.ts'
import { openSlots } from '../../server/src/runs/slots.ts'
import { listenForRuns } from '../../server/src/runs/wake-ups.ts'
import type { WorkerServices } from '../../server/src/runs/worker-services.ts'

export interface SimulatedWorkers {
  connection: ConnectionSettings
  key: string
  workers: number
  connections: number
}

const POLL_MS = 2000

function createIdleExecutor(): Executor {
  let listener: (message: FromExecutor) => void = () => {}
  const ended = Promise.withResolvers<ExecutorEnd>()
  const outcome = { records_read: 1, records_written: 1, bytes_written: 10, output: null, cursor: null }
  return {
    pid: 0,
    send(message: ToExecutor) {
      if (message.type === 'run') setImmediate(() => listener({ type: 'success', outcome, reusable: true }))
    },
    onMessage(handler) {
      listener = handler
    },
    ended: ended.promise,
    residentMb: () => 0,
    spaceFault: () => null,
    kill: () => ended.resolve({ code: null, signal: 'SIGKILL', stderr: '' }),
  }
}

const pool: ExecutorPool = { take: createIdleExecutor, give() {}, close: async () => {} }

async function work({ connection, key, workers, connections }: SimulatedWorkers): Promise<() => Promise<void>> {
  const db = connectDatabase(connection, connections, console.error)
  const log = { debug() {}, warn: console.error, error: console.error } as never
  const all = Array.from({ length: workers }, async () => {
    const services: WorkerServices = {
      config: readConfig({}),
      log,
      db: { ...db, control: db },
      box: createSecretBox([key]),
      blobs: {} as never,
      traces: null,
      ownAddresses: [],
      state: { failing: new Set() },
    }
    const slots = openSlots(services, pool)
    const ignore = () => {}
    const ready = () => {
      if (slots.free() <= 0) return false
      slots.fill()
      return true
    }
    const on = { ready, cancelled: ignore, followed: ignore, gap: slots.fill }
    const wakeUps = listenForRuns(services, slots.worker, on)
    await wakeUps.keepSeat(true)
    slots.fill()
    const polling = setInterval(slots.fill, POLL_MS)
    return async () => {
      clearInterval(polling)
      await slots.drain(AbortSignal.abort())
      await wakeUps.stop()
    }
  })
  const stops = await Promise.all(all)
  return async () => {
    await Promise.all(stops.map((stop) => stop()))
    await db.close()
  }
}

process.once('message', async (settings: SimulatedWorkers) => {
  const stop = await work(settings)
  process.send!('working')
  process.once('message', async () => {
    await stop()
    process.disconnect()
  })
})
