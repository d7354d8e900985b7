/**
 * Looking names up by the system, so that /etc/hosts and search domains count. Each look-up occupies one of the threads
 * that Node has for files, passwords and names together, for as long as the DNS server does not answer, and tenants choose
 * the server. So every `Egress` has a few lanes of its own, an organization uses one of them at a time, organizations
 * take turns, and an aborted look-up is not started.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { lookup as systemLookup } from 'node:dns/promises'
import { createGate } from '../gate.ts'
import { EgressFailed } from './refusal.ts'

export interface Answer {
  address: string
  family: number
}

/** All addresses of a name. Tests give one of their own. */
export type Lookup = (host: string, signal?: AbortSignal) => Promise<readonly Answer[]>

const LANES = 2
const MOST_WAITING = 10_000

const organization = new AsyncLocalStorage<string>()

/** Look-ups that the work makes belong to the organization. Elsewhere each one stands for itself. */
export const lookUpAs = <T>(organizationId: string, work: () => T): T => organization.run(organizationId, work)

export function limitLookups(lookup: Lookup, lanes: number): Lookup {
  const gate = createGate({
    total: lanes,
    perKey: 1,
    waitingPerKey: MOST_WAITING,
    waitingTotal: MOST_WAITING,
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
