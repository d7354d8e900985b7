/**
 * Executors, some of them warm: a process takes 150 ms to start and a message to a waiting one none. An executor is used
 * again after a clean success and thrown away after anything else, and after a number of runs.
 *
 * Each leads a process group of its own, so that killing it kills whatever it started; the kernel ends it when the
 * worker dies (PDEATHSIG), also when it is too busy to notice by itself.
 */
import { type ChildProcess, execFileSync, fork } from 'node:child_process'
import { readFileSync } from 'node:fs'
import type { ExecutorSettings, FromExecutor, ToExecutor } from './messages.ts'
import { makeScratch, removeScratch, sweepScratch } from './scratch.ts'

const ENTRY = new URL('./executor.ts', import.meta.url).pathname
const RUNS_PER_EXECUTOR = 500
const STDERR_KEPT = 4096
const KEPT_IDLE_MS = 10_000
const SPAWN_AFTER_MS = 100

export interface Executor {
  pid: number
  send(message: ToExecutor): void
  onMessage(listener: (message: FromExecutor) => void): void
  /** Resolves when the process has gone, with how and what it said last. */
  ended: Promise<{ code: number | null; signal: string | null; stderr: string }>
  residentMb(): number
  /** Ends the whole process group at once. */
  kill(): void
}

interface Pooled extends Executor {
  scratch: string
  runs: number
  idle: boolean
  idleSince: number
  listener: ((message: FromExecutor) => void) | null
}

export interface ExecutorPool {
  take(): Executor
  give(executor: Executor, reusable: boolean): void
  close(): Promise<void>
}

export interface PoolOptions {
  settings: () => ExecutorSettings
  memoryMb: number
  /** Idle executors that are kept ready. */
  warm: number
  /** As many as runs may execute at a time: past that none is started ahead. */
  most: number
}

export function createExecutorPool(options: PoolOptions): ExecutorPool {
  const all = new Set<Pooled>()
  const tidying = new Set([sweepScratch()])
  let closed = false

  const spawnOne = (): Pooled => {
    const executor = launch(options)
    all.add(executor)
    const tidied = executor.ended.then(() => {
      all.delete(executor)
      return removeScratch(executor.scratch)
    })
    tidying.add(tidied)
    void tidied.then(() => tidying.delete(tidied))
    return executor
  }
  const idle = () => [...all].filter((executor) => executor.idle)
  const keepWarm = () => {
    if (closed) return
    for (let count = idle().length; count < options.warm && all.size < options.most; count++) spawnOne()
  }
  // After a burst the extra ones go, but not while one burst follows another.
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
      // Not in this turn: the run that waits goes first.
      setTimeout(keepWarm, SPAWN_AFTER_MS).unref()
      return executor
    },
    give(executor, reusable) {
      const pooled = executor as Pooled
      pooled.listener = null
      if (reusable && pooled.runs < RUNS_PER_EXECUTOR && !closed) {
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
      await Promise.all(tidying)
    },
  }
}

let parentGuard: string[] | undefined

/** What stands before the program so that the kernel ends it with us. Empty where there is no setpriv. */
function guardCommand(): string[] {
  if (parentGuard === undefined) {
    parentGuard = []
    try {
      execFileSync('setpriv', ['--pdeathsig', 'KILL', 'true'], { stdio: 'ignore' })
      parentGuard = ['setpriv', '--pdeathsig', 'KILL']
    } catch {
      // The executor still ends when its channel to us closes.
    }
  }
  return parentGuard
}

function launch(options: PoolOptions): Pooled {
  const node = [
    process.execPath,
    `--max-old-space-size=${Math.max(64, options.memoryMb)}`,
    '--max-semi-space-size=8',
    '--disable-warning=ExperimentalWarning',
  ]
  const [execPath, ...execArgv] = [...guardCommand(), ...node]
  const scratch = makeScratch()
  const child: ChildProcess = fork(ENTRY, [], {
    execPath: execPath!,
    execArgv,
    detached: true,
    serialization: 'advanced',
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    env: {
      PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin',
      TZ: 'UTC',
      LANG: 'C.UTF-8',
      TMPDIR: scratch,
      // Half of an executor's start is spent on compiling what another one has compiled before.
      ...(process.env.NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }),
    },
  })
  let stderr = ''
  child.stderr!.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-STDERR_KEPT)
  })
  const pid = child.pid ?? 0
  // A number that is free again may soon be another process's.
  let gone = false
  const executor: Pooled = {
    pid,
    scratch,
    runs: 0,
    idle: true,
    idleSince: Date.now(),
    listener: null,
    send: (message) => {
      child.send(message, () => {
        // A process that has gone is told by its end, not by this.
      })
    },
    onMessage(listener) {
      executor.listener = listener
    },
    ended: new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        gone = true
        executor.idle = false
        resolve({ code, signal, stderr })
      })
      child.once('error', (error) => {
        // One that never began has no number, and 0 would be the group of the worker itself.
        if (child.pid === undefined) {
          gone = true
          executor.idle = false
        }
        resolve({ code: null, signal: null, stderr: error.message })
      })
    }),
    residentMb: () => residentMb(pid),
    kill() {
      executor.idle = false
      if (!gone && pid > 0) killGroup(pid)
    },
  }
  child.on('message', (message: FromExecutor) => executor.listener?.(message))
  executor.send({ type: 'settings', settings: options.settings() })
  return executor
}

function killGroup(pid: number): void {
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, 'SIGKILL')
    } catch {
      // Gone already.
    }
  }
}

const PAGE_KB = 4

function residentMb(pid: number): number {
  try {
    return (Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * PAGE_KB) / 1024
  } catch {
    return 0
  }
}
