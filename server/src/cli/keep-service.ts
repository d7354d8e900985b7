/**
 * Keeps the service process of `sluice start` running. Whenever it exits unexpectedly, it is restarted: at once after a
 * long life, otherwise with exponential backoff. Only a first start that fails for a reason the operator has to fix,
 * such as a port in use, is not repeated.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { setTimeout as delay } from 'node:timers/promises'
import { endWithParent } from '../database/postgres-launcher.ts'
import type { LineLog } from '../log-lines.ts'
import { CANNOT_START, type FromService, type ToService } from './service-messages.ts'

const ENTRY = new URL('./service-process.ts', import.meta.url).pathname
const FIRST_WAIT_MS = 500
const LONGEST_WAIT_MS = 30_000
/** A process that lived this long had no problem with its start. */
const STEADY_MS = 60_000

export interface KeptService {
  /** Resolves with an exit code when it has ended for good. */
  over: Promise<number>
  /** Asks it to shut down. */
  stop(): void
  kill(): void
}

export interface KeepOptions {
  log: LineLog
  /** Resolves when the service can use its database; meanwhile it loads its code. */
  whenDatabaseAnswers: () => Promise<void>
}

interface Ended {
  code: number | null
  signal: string | null
}

export function keepService({ log, whenDatabaseAnswers }: KeepOptions): KeptService {
  const stopping = new AbortController()
  let current: ChildProcess | undefined
  let port: number | null = null

  const runOnce = async (): Promise<Ended> => {
    const guard = await endWithParent('KILL')
    if (stopping.signal.aborted) return { code: 0, signal: null }
    const child = forkService(guard)
    current = child
    child.on('message', (message: FromService) => {
      if (message.type === 'ready') port = message.port
    })
    const ended = new Promise<Ended>((resolve) => {
      child.once('exit', (code, signal) => resolve({ code, signal }))
      child.once('error', (error) => {
        log.error({ err: error }, 'the service process cannot be started')
        if (child.pid === undefined) resolve({ code: 1, signal: null })
      })
    })
    whenDatabaseAnswers().then(
      () => child.send({ type: 'begin', port } satisfies ToService, () => {}),
      () => child.kill('SIGKILL'),
    )
    return ended
  }

  const keep = async (): Promise<number> => {
    for (let failures = 0; ; ) {
      const began = performance.now()
      const { code, signal } = await runOnce()
      if (stopping.signal.aborted) return code ?? (signal === 'SIGTERM' ? 0 : 1)
      const neverReady = port === null
      if (code === CANNOT_START && neverReady) return 1
      failures = performance.now() - began > STEADY_MS ? 0 : failures + 1
      const waitMs = backOffMs(failures)
      const how = signal === null ? `exited with code ${code}` : `was killed by ${signal}`
      log.error({}, `the service process ${how}; starting it again${waitMs > 0 ? ` in ${waitMs / 1000} s` : ''}`)
      await delay(waitMs, undefined, { signal: stopping.signal }).catch(() => {})
      if (stopping.signal.aborted) return 0
    }
  }

  return {
    over: keep(),
    stop() {
      stopping.abort()
      current?.kill('SIGTERM')
    },
    kill() {
      stopping.abort()
      current?.kill('SIGKILL')
    },
  }
}

export const backOffMs = (failures: number): number =>
  failures === 0 ? 0 : Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** (failures - 1))

/**
 * In its own session: Ctrl+C on a terminal then only reaches the parent, which forwards it once. The process may
 * request a garbage collection, which it does when its start is complete.
 */
function forkService(guard: string[]): ChildProcess {
  const [execPath, ...execArgv] = [...guard, process.execPath, ...process.execArgv, '--expose-gc']
  return fork(ENTRY, [], { execPath: execPath!, execArgv, detached: true })
}
