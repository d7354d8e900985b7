/** Scopes as the runtime makes them. */
import type { Fields, Scope } from './scope.ts'

export function createScope(started: Date, given: Partial<Scope> = {}): Scope {
  return {
    partition: NO_FIELDS,
    extra: NO_FIELDS,
    interval: NO_FIELDS,
    token: null,
    properties: [],
    state: null,
    answer: null,
    record: null,
    lastRecord: null,
    pageRecords: 0,
    job: null,
    started,
    ...given,
  }
}

const NO_FIELDS: Fields = Object.freeze({})
