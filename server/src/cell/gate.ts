/**
 * Turns for calls that somebody waits for. At most `total` run at once and at most `perKey` of one organization; the
 * others wait in a line of their own, and the lines are served in turn, so a flood of one organization's previews costs
 * another at most one place. A line that grows too long is refused at once.
 */
export class GateFull extends Error {}

export interface Gate {
  run<T>(key: string, task: () => Promise<T>): Promise<T>
}

interface GateOptions {
  total: number
  perKey: number
  maxWaiting: number
}

export function createGate({ total, perKey, maxWaiting }: GateOptions): Gate {
  const running = new Map<string, number>()
  // A Map keeps the order of insertion: a key that was served goes to the end.
  const waiting = new Map<string, (() => void)[]>()
  let busy = 0

  const enter = (key: string): void => {
    busy++
    running.set(key, (running.get(key) ?? 0) + 1)
  }

  const leave = (key: string): void => {
    busy--
    const left = running.get(key)! - 1
    if (left === 0) running.delete(key)
    else running.set(key, left)
    serveNext()
  }

  const serveNext = (): void => {
    if (busy >= total) return
    for (const [key, line] of waiting) {
      if ((running.get(key) ?? 0) >= perKey) continue
      const start = line.shift()!
      waiting.delete(key)
      if (line.length > 0) waiting.set(key, line)
      enter(key)
      start()
      return
    }
  }

  return {
    async run(key, task) {
      if (busy < total && (running.get(key) ?? 0) < perKey) enter(key)
      else {
        const line = waiting.get(key) ?? []
        if (line.length >= maxWaiting)
          throw new GateFull(`${line.length} calls of this organization are waiting already`)
        await new Promise<void>((resolve) => {
          line.push(resolve)
          waiting.set(key, line)
        })
      }
      try {
        return await task()
      } finally {
        leave(key)
      }
    },
  }
}
