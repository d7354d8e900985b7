/**
 * Which process does whose call. A process serves one organization from its first call to its end. Whatever a hostile
 * server or cell may have done to it (a changed prototype, a forgotten timer, worse), the next organization gets a process
 * that has never seen a foreign byte. One such fresh process is kept warm, with a sealed cell waiting in it, so that the
 * first call of an organization finds it at once. Those of an organization that calls no more go after a few seconds.
 *
 *   fresh ──first call──► busy ──clean end──► idle, of that organization ──its next call──► busy
 *                           │                   │
 *                           ▼                   ▼
 *                         killed              killed after some time, or when another organization needs the room
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
  /** It has told that it is up. */
  ready: boolean
  calls: number
  idleTimer: NodeJS.Timeout | undefined
}

export interface CallProcessOptions {
  settings: () => CallSettings
  memoryMb: number
  /** Calls of all organizations at a time: there are so many processes, and a fresh one, at most. */
  concurrency: number
  /** Told about a process that was thrown away for cause. */
  warn(complaint: string): void
  /** The program; tests put a hostile one here. */
  entry?: string
}

const KEPT_IDLE_MS = 10_000
const CALLS_PER_PROCESS = 500
/** How long a call waits for another of its organization to end before it gets one more process. Most calls are shorter. */
const GROW_AFTER_MS = 100
const WARM_AFTER_MS = 100
const SEMI_SPACE_MB = 1

export class CallProcesses {
  readonly #options: CallProcessOptions
  readonly #all = new Set<CallProcess>()
  /** Calls that wait for a process of their own organization to become free. */
  readonly #hopeful = new Map<string, Set<(found: CallProcess | null) => void>>()
  readonly #tidying = new Set<Promise<void>>()
  #warming: NodeJS.Timeout | undefined
  #closed = false

  constructor(options: CallProcessOptions) {
    this.#options = options
  }

  /** Of one's own organization, if there is one soon; else a fresh one, which from now on is. */
  async acquire(organization: string): Promise<CallProcess> {
    const own = this.#findIdle(organization) ?? (await this.#waitForOwn(organization))
    if (own) return take(own)
    const fresh = this.acquireFresh()
    fresh.organization = organization
    this.#keepWarm()
    return fresh
  }

  /** For a call that handles nothing of a tenant, so that it stays fresh. */
  acquireFresh(): CallProcess {
    if (this.#closed) throw new AppError('unavailable', 'The service is shutting down', { 'Retry-After': '5' })
    return take(this.#findIdle(null) ?? this.#spawn())
  }

  release(released: CallProcess, clean: boolean): void {
    if (!clean || this.#closed || released.calls >= CALLS_PER_PROCESS || released.process.gone) {
      this.#end(released)
      this.#keepWarm()
      return
    }
    const [next] = this.#hopeful.get(released.organization ?? '') ?? []
    if (next) {
      // It stays busy, so that nobody else takes it before this one wakes.
      next(released)
      return
    }
    released.state = 'idle'
    if (released.organization !== null) released.idleTimer = setTimeout(() => this.#end(released), KEPT_IDLE_MS).unref()
  }

  async close(): Promise<void> {
    this.#closed = true
    clearTimeout(this.#warming)
    for (const each of this.#all) this.#end(each)
    await Promise.all(this.#tidying)
  }

  #findIdle(organization: string | null): CallProcess | undefined {
    return [...this.#all].find((each) => each.state === 'idle' && each.organization === organization)
  }

  async #waitForOwn(organization: string): Promise<CallProcess | null> {
    if (![...this.#all].some((each) => each.state === 'busy' && each.organization === organization)) return null
    const waiting = this.#hopeful.get(organization) ?? new Set()
    this.#hopeful.set(organization, waiting)
    return new Promise((resolve) => {
      const hear = (found: CallProcess | null) => {
        clearTimeout(timer)
        waiting.delete(hear)
        if (waiting.size === 0) this.#hopeful.delete(organization)
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
    if (this.#tidying.size === 0 && this.#all.size === 0) this.#remember(sweepScratch())
    this.#makeRoom()
    const spawned = launch(this.#options, (reason) => {
      // What it still says while it is being killed is no news.
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
    this.#tidying.add(work)
    void work.then(() => this.#tidying.delete(work))
  }
}

function take(taken: CallProcess): CallProcess {
  taken.state = 'busy'
  taken.calls++
  clearTimeout(taken.idleTimer)
  return taken
}

function launch(options: CallProcessOptions, giveUp: (reason: string) => void): CallProcess {
  const { memoryMb, entry, settings } = options
  const process = launchExecutor(
    { memoryMb, semiSpaceMb: SEMI_SPACE_MB, limits: CALL_FRAME_LIMITS, ...(entry && { entry }) },
    {
      message(message, body) {
        if (!launched.ready && (message as { type?: unknown } | null)?.type === 'ready') launched.ready = true
        else if (launched.listener) launched.listener(message, body)
        else giveUp('an executor spoke without being asked')
      },
      broken: () => giveUp('an executor broke the format of its channel'),
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
