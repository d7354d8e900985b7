/** What a pending run waits for, in a sentence for whoever looks at it. */

export interface Waiting {
  /** Its turn has come: no run of the same pipeline is before it. */
  ready: boolean
  /** From when on a worker may take it, as a time that has come or will. */
  available_at: string
  waits_seconds: number
  /** '' if any worker may take it. */
  pod_class: string
}

/** By then whatever starts workers for a class should have started one. */
const OVERDUE_SECONDS = 120

export function describeWaiting({ ready, available_at, waits_seconds, pod_class }: Waiting): string {
  if (!ready) return 'The previous run of this pipeline has to end first.'
  if (waits_seconds < 0) return `The next attempt begins at ${available_at.slice(0, 19)}Z.`
  if (pod_class === '') return 'It waits for a free worker.'
  const waits = `It waits for a worker of the class '${pod_class}'`
  if (waits_seconds < OVERDUE_SECONDS) return `${waits}, which is started for it.`
  return `${waits}, and none has taken it for ${Math.floor(waits_seconds / 60)} minutes: ask the operator whether workers of this class are started.`
}
