/** A sleep that can be ended early. A signal while nothing sleeps ends the next sleep at once, so none is lost. */
export interface WakeSignal {
  wake(): void
  /** Resolves at the next signal, at the latest after the given time. */
  wait(atMostMs: number): Promise<void>
}

export function createWakeSignal(): WakeSignal {
  let woken = false
  let wakeUp = () => {}
  return {
    wake() {
      woken = true
      wakeUp()
    },
    async wait(atMostMs) {
      if (!woken)
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, Math.max(0, atMostMs))
          wakeUp = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      woken = false
    },
  }
}
