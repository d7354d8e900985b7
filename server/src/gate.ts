/**
 * Turns for work that somebody waits for: a semaphore with a limit over all and one per key, which is an organization or a
 * client. Whoever finds no room waits in the line of their key, and the lines are served in turn (round robin), so a flood
 * of one key costs another at most one place. Lines have an end, and waiting may have one; beyond either it is refused.
 */
export interface Gate {
  /** Resolves when it is one's turn; call what it returns at the end. Rejects where it is refused, or by the signal. */
  enter(key: string, signal?: AbortSignal): Promise<() => void>
}

export interface GateOptions {
  total: number
  perKey: number
  /** Waiting of one key. */
  waitingPerKey: number
  /** Waiting of all. */
  waitingTotal: number
  /** Without it one waits as long as it takes. */
  waitMs?: number
  /** The error of who is refused. `inside` is how many of the same key are under way or waiting. */
  refuse(reason: 'key' | 'total' | 'time', inside: number): Error
}

export function createGate(options: GateOptions): Gate {
  const running = new Map<string, number>()
  // A Map keeps the order of insertion: a key that was served goes to the end.
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
