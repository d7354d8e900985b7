/**
 * The cells of this process: finds Python, keeps one zygote process warm, replaces it after a number of forks (children
 * of one zygote share its memory layout) or when it dies, and proves at start that the sandbox works. If it does not,
 * every call fails with the reason why custom sources are disabled; only `sandbox: 'none'` overrides that.
 */

import type { Json } from '../json/json.ts'
import { type CellHandlers, type CellOutcome, runCall } from './call.ts'
import { CellFailure } from './failure.ts'
import { type CellLimits, DEFAULT_CELL_LIMITS } from './limits.ts'
import { findPython } from './python.ts'
import { runSelfTest, type SelfTestResult } from './self-test.ts'
import { ZygoteProcess } from './zygote-process.ts'

export interface ZygoteOptions {
  /** Default: the first suitable python3 on PATH. */
  python?: string
  limits?: Partial<CellLimits>
  /** `none` runs tenant code without isolation: for a private machine, and to prove that the attacks are real. */
  sandbox?: 'kernel' | 'none'
  forks_per_process?: number
  /** Cells that are sealed in advance, so that the next call does not wait for a fork. Default 1. */
  spares?: number
  /** Installed modules that authors may import beyond the standard ones. */
  modules?: readonly string[]
  /** Modules to load without allowing them: the attack suite gives its snippets more to work with. */
  preload?: readonly string[]
}

export interface Zygote {
  readonly limits: Readonly<CellLimits>
  readonly sandbox: 'kernel' | 'none'
  /** Rejects with a ConnectorError whose kind says what ended the call. */
  call(job: Json, handlers?: CellHandlers, limits?: Partial<CellLimits>): Promise<CellOutcome>
  /** The result of the self-test; calls wait for it. */
  selfTest(): Promise<SelfTestResult>
  close(): Promise<void>
}

const RETIRE_DELAY_MS = 1000

/** Returns at once; the first call waits until the zygote is up. */
export function startZygote(options: ZygoteOptions = {}): Zygote {
  return new WarmZygote(options)
}

class WarmZygote implements Zygote {
  readonly limits: Readonly<CellLimits>
  readonly sandbox: 'kernel' | 'none'
  readonly #options: ZygoteOptions
  readonly #forksPerProcess: number
  readonly #python: Promise<string>
  readonly #verdict: Promise<SelfTestResult>
  readonly #retiring = new Set<ZygoteProcess>()
  #current: Promise<ZygoteProcess>
  #next: Promise<ZygoteProcess> | null = null
  #closed = false

  constructor(options: ZygoteOptions) {
    this.#options = options
    this.limits = { ...DEFAULT_CELL_LIMITS, ...options.limits }
    this.sandbox = options.sandbox ?? 'kernel'
    this.#forksPerProcess = options.forks_per_process ?? 1000
    this.#python = findPython(options.python)
    this.#current = this.#launch()
    this.#verdict = this.#judge()
  }

  #launch(): Promise<ZygoteProcess> {
    const { memory_mb, cpu_seconds } = this.limits
    const { preload = [], modules = [], spares = 1 } = this.#options
    const settings = { memory_mb, cpu_seconds, sandbox: this.sandbox, preload, modules, spares }
    const starting = this.#python.then((python) => ZygoteProcess.start(python, settings))
    // The awaiting caller gets the failure; a process that was started ahead may have none.
    starting.catch(() => {})
    return starting
  }

  async #judge(): Promise<SelfTestResult> {
    try {
      const zygote = await this.#current
      if (this.sandbox === 'none') return { ok: true, reason: 'the sandbox is off' }
      return await runSelfTest((job, handlers) => runCall(zygote, job, handlers, this.limits))
    } catch (error) {
      return { ok: false, reason: error instanceof Error ? error.message : String(error) }
    }
  }

  selfTest(): Promise<SelfTestResult> {
    return this.#verdict
  }

  async call(job: Json, handlers: CellHandlers = {}, limits: Partial<CellLimits> = {}): Promise<CellOutcome> {
    const { ok, reason } = await this.#verdict
    if (!ok) throw new CellFailure('sandbox', `custom sources are disabled on this machine: ${reason}`)
    const zygote = await this.#pick()
    return runCall(zygote, job, handlers, { ...this.limits, ...limits })
  }

  async #pick(): Promise<ZygoteProcess> {
    if (this.#closed) throw new CellFailure('internal', 'the service is shutting down', { transient: true })
    const current = await this.#current
    if (current.alive && current.forks < this.#forksPerProcess) return current
    if (!current.alive) {
      this.#current = this.#next ?? this.#launch()
      this.#next = null
      return this.#current
    }
    // The old process serves until its replacement is ready.
    if (this.#next === null) {
      const next = this.#launch()
      this.#next = next
      next.then(
        () => {
          if (this.#next !== next) return
          this.#current = next
          this.#next = null
          this.#retire(current)
        },
        () => {
          this.#next = null
        },
      )
    }
    return current
  }

  /** A call that was just assigned to the old process may not have connected yet, hence the delay. */
  #retire(old: ZygoteProcess): void {
    this.#retiring.add(old)
    setTimeout(async () => {
      await old.drain()
      await old.close()
      this.#retiring.delete(old)
    }, RETIRE_DELAY_MS).unref()
  }

  async close(): Promise<void> {
    this.#closed = true
    const processes = await Promise.allSettled([this.#current, this.#next])
    const running = processes.flatMap((each) => (each.status === 'fulfilled' && each.value ? [each.value] : []))
    await Promise.all([...running, ...this.#retiring].map((each) => each.close()))
  }
}
