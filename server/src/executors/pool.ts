/**
 * The executors of a worker, some of them warm: starting a process takes 150 ms, using a waiting one takes none. An
 * executor is reused after a clean success, discarded after anything else, and replaced after a number of runs.
 */
import type { FromExecutor, RunSettings } from './messages.ts'
import { type Executor, type ExecutorProcess, launchExecutor } from './process.ts'
import { removeScratch, sweepScratch } from './scratch.ts'

export type { Executor } from './process.ts'

/** Each draws its own from the upper half: on a busy worker all would end at once, and every run wait for a start. */
const RUNS_PER_EXECUTOR = 2000
const KEPT_IDLE_MS = 10_000
const SPAWN_AFTER_MS = 100
const SEMI_SPACE_MB = 8
const MIB = 1024 * 1024
/** A checkpoint carries a cursor of up to 8 MB and the list of all parts; log lines are batched. */
const FRAME_LIMITS = { head: 48 * MIB, body: 0, perSecond: { frames: 20_000, bytes: 96 * MIB } }

interface Pooled extends Executor {
  process: ExecutorProcess
  runs: number
  lastRun: number
  idle: boolean
  idleSince: number
}

export interface ExecutorPool {
  take(): Executor
  give(executor: Executor, reusable: boolean): void
  close(): Promise<void>
}

export interface PoolOptions {
  settings: () => RunSettings
  memoryMb: number
  /** Idle executors that are kept ready. */
  warm: number
  /** The maximum number of concurrent runs: beyond that none is started ahead of time. */
  most: number
  /** The program; tests use another one. */
  entry?: string
  keepFreeBytes?: number
}

export function createExecutorPool(options: PoolOptions): ExecutorPool {
  const all = new Set<Pooled>()
  const cleanups = new Set([sweepScratch()])
  let closed = false

  const spawnOne = (): Pooled => {
    const executor = launch(options)
    all.add(executor)
    const cleanup = executor.ended.then(() => {
      all.delete(executor)
      return removeScratch(executor.process.scratch)
    })
    cleanups.add(cleanup)
    void cleanup.then(() => cleanups.delete(cleanup))
    return executor
  }
  const idle = () => [...all].filter((executor) => executor.idle && !executor.process.gone)
  const keepWarm = () => {
    if (closed) return
    for (let count = idle().length; count < options.warm && all.size < options.most; count++) spawnOne()
  }
  // After a burst the surplus is ended, but not while bursts follow each other.
  const shrinking = setInterval(() => {
    const spare = idle().slice(options.warm)
    for (const executor of spare) if (Date.now() - executor.idleSince > KEPT_IDLE_MS) executor.kill()
  }, KEPT_IDLE_MS / 4).unref()
  keepWarm()

  return {
    take() {
      const executor = idle()[0] ?? spawnOne()
      executor.idle = false
      executor.runs++
      // Not in this tick: the waiting run goes first.
      setTimeout(keepWarm, SPAWN_AFTER_MS).unref()
      return executor
    },
    give(executor, reusable) {
      const pooled = executor as Pooled
      pooled.onMessage(() => {})
      if (reusable && pooled.runs < pooled.lastRun && !closed && !pooled.process.gone) {
        pooled.idle = true
        pooled.idleSince = Date.now()
      } else pooled.kill()
      setTimeout(keepWarm, SPAWN_AFTER_MS).unref()
    },
    async close() {
      closed = true
      clearInterval(shrinking)
      for (const executor of all) executor.kill()
      await Promise.all([...all].map((executor) => executor.ended))
      await Promise.all(cleanups)
    },
  }
}

function launch({ memoryMb, settings, entry, keepFreeBytes }: PoolOptions): Pooled {
  let listener: (message: FromExecutor) => void = () => {}
  const child = launchExecutor(
    {
      memoryMb,
      semiSpaceMb: SEMI_SPACE_MB,
      limits: FRAME_LIMITS,
      ...(entry && { entry }),
      ...(keepFreeBytes && { keepFreeBytes }),
    },
    { message: (message) => listener(message as FromExecutor), broken() {} },
  )
  const executor: Pooled = {
    process: child,
    pid: child.pid,
    runs: 0,
    lastRun: Math.ceil(RUNS_PER_EXECUTOR * (0.5 + Math.random() / 2)),
    idle: !child.gone,
    idleSince: Date.now(),
    ended: child.ended,
    send: child.send,
    residentMb: child.residentMb,
    spaceFault: child.spaceFault,
    onMessage(handler) {
      listener = handler
    },
    kill() {
      executor.idle = false
      child.kill()
    },
  }
  void child.ended.then(() => {
    executor.idle = false
  })
  executor.send({ type: 'settings', settings: settings() })
  return executor
}
