/**
 * Assigns processes to calls. A process serves one organization from its first call to its end. Whatever a hostile
 * server or cell may have done to it (a changed prototype, a leftover timer, worse), the next organization gets a
 * process that has never seen foreign bytes. One such fresh process is kept warm, with a sealed cell waiting in it, so
 * that the first call of an organization starts at once. The processes of an organization that makes no more calls are
 * ended after a few seconds.
 *
 * fresh ──first call──► busy ──clean end──► idle, for that organization ──its next call──► busy
 * │                   │
 * ▼                   ▼
 * killed              killed after some time, or when another organization needs the room
 */
import { AppError } from '../errors.ts'
import { CALL_FRAME_LIMITS } from './answers.ts'
import type { CallExecutor } from './call.ts'
import type { CallSettings } from './messages.ts'
import { launchExecutor } from './process.ts'
import { removeScratch, sweepScratch } from './scratch.ts'

export interface CallProcess extends CallExecutor {
  /** Null while it is fresh. */
  organization: string | null
  state: 'idle' | 'busy' | 'ending'
  /** It has reported that it is up. */
  ready: boolean
  calls: number
  idleTimer: NodeJS.Timeout | undefined
}

export interface CallProcessOptions {
  settings: () => CallSettings
  memoryMb: number
  /** Concurrent calls of all organizations: there are at most this many processes, plus a fresh one. */
  concurrency: number
  /** Called when a process was discarded for cause. */
  warn(complaint: string): void
  /** The program; tests use a hostile one. */
  entry?: string
  keepFreeBytes?: number
}

const KEPT_IDLE_MS = 10_000
const CALLS_PER_PROCESS = 500
/**
 * How long a call waits for another call of its organization to end before it gets another process. Most calls are
 * shorter.
 */
const GROW_AFTER_MS = 100
const WARM_AFTER_MS = 100
const SEMI_SPACE_MB = 1

export class CallProcesses {
  readonly #options: CallProcessOptions
  readonly #all = new Set<CallProcess>()
  /** Calls that wait for a process of their own organization. */
  readonly #waiting = new Map<string, Set<(found: CallProcess | null) => void>>()
  readonly #cleanups = new Set<Promise<void>>()
  #warming: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: CallProcessOptions) {
    this.#options = options
  }

  /**
   * A process of the same organization, if one is available soon; otherwise a fresh one, which is then assigned to it.
   */
  async acquire(organization: string): Promise<CallProcess> {
    const own = this.#findIdle(organization) ?? (await this.#waitForOwn(organization))
    if (own) return take(own)
    const fresh = this.acquireFresh()
    fresh.organization = organization
    this.#keepWarm()
    return fresh
  }

  /** For a call that handles no tenant data, so the process stays fresh. */
  acquireFresh(): CallProcess {
    if (this.#closed) throw new AppError('unavailable', 'The service is shutting down', { 'Retry-After': '5' })
    return take(this.#findIdle(null) ?? this.#spawn())
  }

  release(released: CallProcess, clean: boolean): void {
    const usable = released.state !== 'ending' && !released.process.gone && released.calls < CALLS_PER_PROCESS
    if (!clean || this.#closed || !usable) {
      this.#end(released)
      this.#keepWarm()
      return
    }
    const [next] = this.#waiting.get(released.organization ?? '') ?? []
    if (next) {
      // It stays busy, so that no other call takes it before the waiting one resumes.
      next(released)
      return
    }
    released.state = 'idle'
    if (released.organization !== null) released.idleTimer = setTimeout(() => this.#end(released), KEPT_IDLE_MS).unref()
  }

  /** After `close` every process is killed, even in the middle of a call. */
  get closed(): boolean {
    return this.#closed
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#warming)
    for (const each of this.#all) this.#end(each)
    await Promise.all(this.#cleanups)
  }

  #findIdle(organization: string | null): CallProcess | undefined {
    const isIdle = (each: CallProcess) => each.state === 'idle' && !each.process.gone
    return [...this.#all].find((each) => isIdle(each) && each.organization === organization)
  }

  async #waitForOwn(organization: string): Promise<CallProcess | null> {
    if (![...this.#all].some((each) => each.state === 'busy' && each.organization === organization)) return null
    const waiting = this.#waiting.get(organization) ?? new Set()
    this.#waiting.set(organization, waiting)
    return new Promise((resolve) => {
      const hear = (found: CallProcess | null) => {
        clearTimeout(timer)
        waiting.delete(hear)
        if (waiting.size === 0) this.#waiting.delete(organization)
        resolve(found)
      }
      const timer = setTimeout(hear, GROW_AFTER_MS, null)
      waiting.add(hear)
    })
  }

  #keepWarm(): void {
    this.#warming ??= setTimeout(() => {
      this.#warming = undefined
      if (!this.#closed && !this.#findIdle(null)) this.#spawn()
    }, WARM_AFTER_MS).unref()
  }

  #spawn(): CallProcess {
    if (this.#cleanups.size === 0 && this.#all.size === 0) this.#remember(sweepScratch())
    this.#makeRoom()
    const spawned = launch(this.#options, (reason) => {
      // Messages of a process that is being killed do not matter.
      if (spawned.state === 'ending') return
      this.#end(spawned)
      this.#options.warn(reason)
    })
    this.#all.add(spawned)
    this.#remember(
      spawned.process.ended.then(() => {
        this.#end(spawned)
        this.#all.delete(spawned)
        return removeScratch(spawned.process.scratch)
      }),
    )
    return spawned
  }

  #makeRoom(): void {
    if (this.#all.size <= this.#options.concurrency) return
    const oldest = [...this.#all].find((each) => each.state === 'idle' && each.organization !== null)
    if (oldest) this.#end(oldest)
  }

  #end(ended: CallProcess): void {
    ended.state = 'ending'
    clearTimeout(ended.idleTimer)
    ended.process.kill()
  }

  #remember(work: Promise<void>): void {
    this.#cleanups.add(work)
    void work.then(() => this.#cleanups.delete(work))
  }
}

function take(taken: CallProcess): CallProcess {
  taken.state = 'busy'
  taken.calls++
  clearTimeout(taken.idleTimer)
  return taken
}

function launch(options: CallProcessOptions, giveUp: (reason: string) => void): CallProcess {
  const { memoryMb, entry, settings, keepFreeBytes } = options
  const process = launchExecutor(
    {
      memoryMb,
      semiSpaceMb: SEMI_SPACE_MB,
      limits: CALL_FRAME_LIMITS,
      ...(entry && { entry }),
      ...(keepFreeBytes && { keepFreeBytes }),
    },
    {
      message(message, body) {
        if (!launched.ready && (message as { type?: unknown } | null)?.type === 'ready') launched.ready = true
        else if (launched.listener) launched.listener(message, body)
        else giveUp('an executor sent an unsolicited message')
      },
      broken: () => giveUp('an executor violated the frame format of its channel'),
    },
  )
  const launched: CallProcess = {
    process,
    listener: null,
    organization: null,
    state: 'idle',
    ready: false,
    calls: 0,
    idleTimer: undefined,
  }
  process.send({ type: 'settings', settings: settings() })
  return launched
}
