/**
 * One executor process. It leads a process group of its own, so that killing it kills whatever it started; the kernel ends
 * it when the service dies (PDEATHSIG), also when it is too busy to notice by itself. It yields the processor to the service
 * and to PostgreSQL (nice), and where memory runs out the kernel takes it before them (oom_score_adj).
 */
import { type ChildProcessByStdio, execFileSync, spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { type FrameLimits, openChannel } from './channel.ts'
import type { FromExecutor, ToExecutor } from './messages.ts'
import { makeScratch } from './scratch.ts'

const EXECUTOR_ENTRY = new URL('./executor.ts', import.meta.url).pathname
const STDERR_KEPT = 4096
/** More than any report of a crash. A process that writes on is no longer read and gets an error for it. */
const STDERR_READ = 256 * 1024
const NICE = '5'
const OOM_SCORE = 500

export interface Executor {
  pid: number
  send(message: ToExecutor): void
  onMessage(listener: (message: FromExecutor) => void): void
  /** Resolves when the process has gone, with how and what it said last. */
  ended: Promise<ExecutorEnd>
  residentMb(): number
  /** Ends the whole process group at once. */
  kill(): void
}

export interface ExecutorEnd {
  code: number | null
  signal: string | null
  stderr: string
}

export interface LaunchOptions {
  memoryMb: number
  /** Size of V8's young generation: larger is faster for those who move much data. */
  semiSpaceMb: number
  /** What one frame of the executor may hold. */
  limits: FrameLimits
  /** The program; tests put a hostile one here. */
  entry?: string
}

export interface ProcessHandlers {
  message(message: unknown, body: Buffer): void
  /** It sent what is not even a frame. It is being killed. */
  broken(reason: string): void
}

export interface ExecutorProcess {
  readonly pid: number
  /** The folder for its temporary files; whoever launched it removes it. Null where none could be made. */
  readonly scratch: string | null
  readonly ended: Promise<ExecutorEnd>
  readonly gone: boolean
  send(message: ToExecutor): void
  residentMb(): number
  kill(): void
}

/** Never throws: a process that could not be started has ended. */
export function launchExecutor(options: LaunchOptions, handlers: ProcessHandlers): ExecutorProcess {
  let scratch: string | null = null
  let child: Child
  try {
    scratch = makeScratch()
    child = start(options, scratch)
  } catch (error) {
    return neverStarted(scratch, (error as Error).message)
  }
  const pid = child.pid ?? 0
  // A number that is free again may soon be another process's; and 0 would be the group of the service itself.
  let gone = child.pid === undefined
  let stderr = ''
  let heard = 0
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr = (stderr + text).slice(-STDERR_KEPT)
    heard += text.length
    if (heard > STDERR_READ) child.stderr.destroy()
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
  const ended = new Promise<ExecutorEnd>((resolve) => {
    child.once('exit', (code, signal) => {
      gone = true
      resolve({ code, signal, stderr })
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
      LANG: 'C.UTF-8',
      TMPDIR: scratch,
      // Half of an executor's start is spent on compiling what another one has compiled before.
      ...(process.env.NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE }),
    },
  })
  // Where the machine has no descriptor left there are no pipes, and the reason comes as an event.
  if (!child.stdio) {
    child.on('error', () => {})
    throw new Error('no process could be started')
  }
  if (child.pid !== undefined) giveWay(child.pid)
  return child as Child
}

let prefix: string[] | undefined

/** What stands before the program: yield the processor, and end with us. Whatever of it this machine has. */
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
    // Without setpriv the executor still ends when its channel to us closes.
    return false
  }
}

function giveWay(pid: number): void {
  // Raising it needs no privilege; lowering it would, so a service that was given a higher one hands that on.
  const own = attempt(() => Number(readFileSync('/proc/self/oom_score_adj', 'utf8')))
  if (own !== null && own < OOM_SCORE) attempt(() => writeFileSync(`/proc/${pid}/oom_score_adj`, String(OOM_SCORE)))
  // Where the kernel shares the processor between sessions first, nice counts only within one, and this is a session.
  attempt(() => writeFileSync(`/proc/${pid}/autogroup`, NICE))
}

/** Null where this is not Linux, the kernel does not have it, or the process has gone already. */
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
