/**
 * Resolves names through the system, so that /etc/hosts and search domains apply. Each lookup occupies one of the
 * threads that Node shares between files, passwords and names until the DNS server answers, and tenants choose that
 * server. So every `Egress` has a few lanes, an organization uses one of them at a time, organizations take turns, and
 * an aborted lookup is not started.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { lookup as systemLookup } from 'node:dns/promises'
import { createGate } from '../gate.ts'
import { EgressFailed } from './refusal.ts'

export interface Answer {
  address: string
  family: number
}

/** All addresses of a name. Tests supply their own. */
export type Lookup = (host: string, signal?: AbortSignal) => Promise<readonly Answer[]>

const LANES = 2
const MAX_WAITING = 10_000

const organization = new AsyncLocalStorage<string>()

/** Attributes lookups made by the work to the organization. Other lookups count separately. */
export const lookUpAs = <T>(organizationId: string, work: () => T): T => organization.run(organizationId, work)

export function limitLookups(lookup: Lookup, lanes: number): Lookup {
  const gate = createGate({
    total: lanes,
    perKey: 1,
    waitingPerKey: MAX_WAITING,
    waitingTotal: MAX_WAITING,
    refuse: () => new EgressFailed('dns', 'too many names are being looked up; try again later'),
  })
  let unowned = 0
  return async (host, signal) => {
    const leave = await gate.enter(organization.getStore() ?? `unowned ${++unowned}`, signal)
    try {
      return await lookup(host)
    } finally {
      leave()
    }
  }
}

export const createSystemLookup = (): Lookup =>
  limitLookups((host) => systemLookup(host, { all: true, order: 'verbatim' }), LANES)
