/** What `sluice start` and its service process say to each other. */
export interface ToService {
  type: 'begin'
  /** Where an earlier one listened, so that PORT=0 stays at one address. */
  port: number | null
}

export interface FromService {
  type: 'ready'
  port: number
}

/** The exit code of a service process that lacks something which only an operator can give, and has said what. */
export const CANNOT_START = 78
