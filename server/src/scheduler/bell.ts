/** A sleep that can be ended early. A ring while nobody sleeps ends the next sleep at once, so none is missed. */
export interface Bell {
  ring(): void
  /** Resolves when the bell rings, at the latest after the given time. */
  wait(atMostMs: number): Promise<void>
}

export function createBell(): Bell {
  let rung = false
  let wakeUp = () => {}
  return {
    ring() {
      rung = true
      wakeUp()
    },
    async wait(atMostMs) {
      if (!rung)
        await new Promise<void>((resolve) => {
          const timer = setTimeout(resolve, Math.max(0, atMostMs))
          wakeUp = () => {
            clearTimeout(timer)
            resolve()
          }
        })
      rung = false
    },
  }
}
