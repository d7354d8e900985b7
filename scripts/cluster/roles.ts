/** The processes of the platform: each on a machine of its own, started again whenever it ends, as a process manager would. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, openSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { MAIN } from '../../server/test/harness/service.ts'
import type { Machine } from './network.ts'

export interface Role {
  kind: 'api' | 'worker' | 'scheduler'
  machine: Machine
  pid(): number
  /** Ends it; it is started again `afterMs` later. */
  end(signal: 'SIGKILL' | 'SIGTERM', afterMs: number): Promise<void>
  /** Stops it for good. */
  stop(): Promise<void>
  /** Ends that nobody asked for, with their exit codes. */
  readonly crashes: string[]
}

const RESTART_MS = 500

export function startRole(kind: Role['kind'], machine: Machine, folder: string, env: Record<string, string>): Role {
  const temporary = path.join(folder, `${machine.name}.tmp`)
  mkdirSync(temporary)
  const log = openSync(path.join(folder, `${machine.name}.log`), 'a')
  const own = kind === 'api' ? { HOST: machine.address, PORT: '8080' } : {}
  const crashes: string[] = []
  let child: ChildProcess
  let asked = false
  let stopped = false
  const start = () => {
    const [command, ...args] = [...machine.enter, process.execPath, MAIN, kind]
    asked = false
    child = spawn(command!, args, {
      env: { ...env, ...own, PATH: process.env.PATH, HOME: temporary, TMPDIR: temporary },
      cwd: temporary,
      stdio: ['ignore', log, log],
    })
    const started = child
    started.once('exit', (code, signal) => {
      if (asked || stopped) return
      crashes.push(`${machine.name} ended with ${signal ?? code}`)
      setTimeout(() => !stopped && child === started && start(), RESTART_MS)
    })
  }
  const end = async (signal: NodeJS.Signals) => {
    asked = true
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = once(child, 'exit')
    child.kill('SIGCONT')
    child.kill(signal)
    await ended
  }
  start()
  return {
    kind,
    machine,
    crashes,
    pid: () => child.pid!,
    async end(signal, afterMs) {
      await end(signal)
      await delay(afterMs)
      start()
    },
    async stop() {
      stopped = true
      await end('SIGTERM')
    },
  }
}

/** The processes that execute runs for this worker. */
export function findExecutors(worker: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => parentOf(pid) === worker && read(pid, 'cmdline').includes('executors/executor.ts'))
}

const parentOf = (pid: number): number => Number(read(pid, 'stat').split(') ').at(-1)!.split(' ')[1])

function read(pid: number, file: string): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8')
  } catch {
    return ''
  }
}

export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // Gone already.
  }
}
