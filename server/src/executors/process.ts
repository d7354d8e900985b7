/**
 * One executor process. It leads its own process group, so that killing it kills everything it started. The kernel ends
 * it when the service dies (PDEATHSIG), even if it is too busy to notice. It yields the CPU to the service and to
 * PostgreSQL (nice), and if memory runs out the kernel kills it before them (oom_score_adj).
 */
import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { setTimeout as delay } from 'node:timers/promises'
import { type FrameLimits, openChannel } from './channel.ts'
import type { FromExecutor, ToExecutor } from './messages.ts'
import { makeScratch } from './scratch.ts'
import { findSpaceFault } from './scratch-space.ts'

const EXECUTOR_ENTRY = new URL('./executor.ts', import.meta.url).pathname
const STDERR_KEPT = 4096
/** More than any crash report. A process that writes more is no longer read and gets an error. */
const STDERR_READ = 256 * 1024
/** How long the end of a process waits for its last output. Something that it started may keep the pipe open. */
const DRAIN_MS = 200
const NICE = '5'
const OOM_SCORE = 500

export interface Executor {
  pid: number
  send(message: ToExecutor): void
  onMessage(listener: (message: FromExecutor) => void): void
  /** Resolves when the process has exited and its output has been read, with its exit status and last output. */
  ended: Promise<ExecutorEnd>
  residentMb(): number
  /** Why it has to end for the sake of the disk; null if it may go on. */
  spaceFault(): string | null
  /** Kills the whole process group. */
  kill(): void
}

export interface ExecutorEnd {
  code: number | null
  signal: string | null
  stderr: string
}

export interface LaunchOptions {
  memoryMb: number
  /** The size of V8's young generation: larger is faster when moving much data. */
  semiSpaceMb: number
  /** The maximum size of a frame from the executor. */
  limits: FrameLimits
  /** The program; tests use a hostile one. */
  entry?: string
  /** An executor that fills the disk is ended when less than this is free; for tests. */
  keepFreeBytes?: number
}

export interface ProcessHandlers {
  message(message: unknown, body: Buffer): void
  /** It violated the frame format. It is being killed. */
  broken(reason: string): void
}

export interface ExecutorProcess {
  readonly pid: number
  /** The folder for its temporary files, removed by the process that launched it. Null if it could not be created. */
  readonly scratch: string | null
  readonly ended: Promise<ExecutorEnd>
  readonly gone: boolean
  send(message: ToExecutor): void
  residentMb(): number
  spaceFault(): string | null
  kill(): void
}

/** Never throws: a process that could not be started is reported as ended. */
export function launchExecutor(options: LaunchOptions, handlers: ProcessHandlers): ExecutorProcess {
  let scratch: string
  let child: Child
  try {
    scratch = makeScratch()
  } catch (error) {
    return neverStarted(null, (error as Error).message)
  }
  try {
    child = start(options, scratch)
  } catch (error) {
    return neverStarted(scratch, (error as Error).message)
  }
  const pid = child.pid ?? 0
  // A freed pid may soon belong to another process; and 0 would be the service's own process group.
  let gone = child.pid === undefined
  let stderr = ''
  let read = 0
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-STDERR_KEPT)
    read += text.length
    if (read > STDERR_READ) child.stderr.destroy()
  })
  const kill = (): void => {
    if (!gone) killGroup(pid)
  }
  const channel = openChannel(child.stdio[3] as Socket, options.limits, {
    message: handlers.message,
    broken(reason) {
      kill()
      handlers.broken(reason)
    },
  })
  const drained = new Promise<unknown>((resolve) => child.stderr.once('close', resolve))
  const ended = new Promise<ExecutorEnd>((resolve) => {
    child.once('exit', (code, signal) => {
      gone = true
      // What was written last may still be in the pipe, and it says why the process ended.
      void Promise.race([drained, delay(DRAIN_MS, null, { ref: false })]).then(() => resolve({ code, signal, stderr }))
    })
    child.once('error', (error) => resolve({ code: null, signal: null, stderr: error.message }))
  })
  return {
    pid,
    scratch,
    ended,
    get gone() {
      return gone
    },
    send: (message) => channel.send(message),
    residentMb: () => residentMb(pid),
    spaceFault: () => findSpaceFault(pid, scratch, options.keepFreeBytes),
    kill,
  }
}

function neverStarted(scratch: string | null, reason: string): ExecutorProcess {
  return {
    pid: 0,
    scratch,
    ended: Promise.resolve({ code: null, signal: null, stderr: reason }),
    gone: true,
    send() {},
    residentMb: () => 0,
    spaceFault: () => null,
    kill() {},
  }
}

type Child = ChildProcessByStdio<null, null, Readable>

function start({ memoryMb, semiSpaceMb, entry = EXECUTOR_ENTRY }: LaunchOptions, scratch: string): Child {
  const [command, ...args] = [
    ...prefixCommand(),
    process.execPath,
    `--max-old-space-size=${Math.max(64, memoryMb)}`,
    `--max-semi-space-size=${semiSpaceMb}`,
    '--disable-warning=ExperimentalWarning',
    entry,
  ]
  const child = spawn(command!, args, {
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    env: {
      PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin',
      TZ: 'UTC',
      // Otherwise every thread keeps freed memory for itself.
      MALLOC_ARENA_MAX: '1',
      LANG: 'C.UTF-8',
      // SQLite and DuckDB spill into it too.
      TMPDIR: scratch,
      // Half of an executor's start is spent compiling what another one has already compiled.
      ...(process.env.NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }),
    },
  })
  // If the machine has no file descriptors left there are no pipes, and the reason comes as an event.
  if (!child.stdio) {
    child.on('error', () => {})
    throw new Error('no process could be started')
  }
  if (child.pid !== undefined) lowerPriority(child.pid)
  return child as Child
}

let prefix: string[] | undefined

/** The command prefix: yield the CPU, and exit with the service. Leaves out what this machine does not have. */
function prefixCommand(): string[] {
  prefix ??= [
    ['nice', '-n', NICE],
    ['setpriv', '--pdeathsig', 'KILL'],
  ].flatMap((part) => (works(part) ? part : []))
  return prefix
}

function works([command, ...args]: string[]): boolean {
  try {
    execFileSync(command!, [...args, 'true'], { stdio: 'ignore' })
    return true
  } catch {
    // Without setpriv the executor still exits when its channel to the service closes.
    return false
  }
}

function lowerPriority(pid: number): void {
  // Raising it needs no privilege; lowering it would. So if the service itself has a higher value, that one is used.
  const own = attempt(() => Number(readFileSync('/proc/self/oom_score_adj', 'utf8')))
  if (own !== null && own < OOM_SCORE) attempt(() => writeFileSync(`/proc/${pid}/oom_score_adj`, String(OOM_SCORE)))
  // With autogroups, nice only applies within a session, and the executor is its own session.
  attempt(() => writeFileSync(`/proc/${pid}/autogroup`, NICE))
}

/** Null if this is not Linux, the kernel does not support it, or the process has already exited. */
function attempt<T>(act: () => T): T | null {
  try {
    return act()
  } catch {
    return null
  }
}

function killGroup(pid: number): void {
  for (const target of [-pid, pid]) {
    try {
      process.kill(target, 'SIGKILL')
    } catch {
      // Already exited.
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
