/**
 * A fair semaphore with a limit overall and one per key, which is an organization or a client. A caller that finds no
 * room waits in the queue of its key, and the queues are served round robin, so a flood from one key costs another at
 * most one place. Queues and waiting times are limited; beyond that the caller is refused.
 */
export interface Gate {
  /**
   * Resolves when it is the caller's turn; call the returned function at the end. Rejects if refused, or by the signal.
   */
  enter(key: string, signal?: AbortSignal): Promise<() => void>
}

export interface GateOptions {
  total: number
  perKey: number
  /** Waiting callers per key. */
  waitingPerKey: number
  /** Waiting callers overall. */
  waitingTotal: number
  /** Without it there is no limit. */
  waitMs?: number
  /** The error for a refused caller. `inside` is how many of the same key are running or waiting. */
  refuse(reason: 'key' | 'total' | 'time', inside: number): Error
}

export function createGate(options: GateOptions): Gate {
  const running = new Map<string, number>()
  // A Map keeps insertion order: a key that was served moves to the end.
  const lines = new Map<string, Set<() => void>>()
  let busy = 0
  let waiting = 0

  const isOpen = (key: string) => busy < options.total && (running.get(key) ?? 0) < options.perKey

  const admit = (key: string): (() => void) => {
    busy++
    running.set(key, (running.get(key) ?? 0) + 1)
    let left = false
    return () => {
      if (left) return
      left = true
      busy--
      const rest = running.get(key)! - 1
      if (rest === 0) running.delete(key)
      else running.set(key, rest)
      serveNext()
    }
  }

  const serveNext = (): void => {
    for (const [key, line] of lines) {
      if (!isOpen(key)) continue
      const [start] = line
      // To the end of the round.
      lines.delete(key)
      if (line.size > 1) lines.set(key, line)
      start!()
      return
    }
  }

  const countInside = (key: string) => (running.get(key) ?? 0) + (lines.get(key)?.size ?? 0)

  const wait = (key: string, signal?: AbortSignal) =>
    new Promise<() => void>((resolve, reject) => {
      const line = lines.get(key) ?? new Set()
      const leaveLine = () => {
        clearTimeout(timer)
        signal?.removeEventListener('abort', abort)
        waiting--
        line.delete(start)
        if (line.size === 0 && lines.get(key) === line) lines.delete(key)
      }
      const start = () => {
        leaveLine()
        resolve(admit(key))
      }
      const abort = () => {
        leaveLine()
        reject(signal!.reason)
      }
      const giveUp = () => {
        const inside = countInside(key)
        leaveLine()
        reject(options.refuse('time', inside))
      }
      const timer = options.waitMs === undefined ? undefined : setTimeout(giveUp, options.waitMs)
      signal?.addEventListener('abort', abort, { once: true })
      line.add(start)
      lines.set(key, line)
      waiting++
    })

  return {
    async enter(key, signal) {
      signal?.throwIfAborted()
      if (isOpen(key)) return admit(key)
      const inLine = lines.get(key)?.size ?? 0
      if (inLine >= options.waitingPerKey) throw options.refuse('key', countInside(key))
      if (waiting >= options.waitingTotal) throw options.refuse('total', countInside(key))
      return wait(key, signal)
    },
  }
}
