/** The messages between `sluice start` and its service process. */
export interface ToService {
  type: 'begin'
  /** The port of the previous service process, so that PORT=0 keeps its address. */
  port: number | null
}

export interface FromService {
  type: 'ready'
  port: number
}

/** The exit code of a service process that failed for a reason the operator has to fix, and has reported it. */
export const CANNOT_START = 78
