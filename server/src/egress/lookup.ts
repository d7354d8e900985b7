/**
 * Looking names up by the system, so that /etc/hosts and search domains count. Each look-up holds one of the threads that
 * Node has for files, passwords and names together, for as long as a DNS server of anybody's choice is silent. So every
 * `Egress` has a few lanes of its own, an organization uses one of them at a time, those that wait take turns by
 * organization, and a look-up that nobody waits for any more is not begun.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { lookup as systemLookup } from 'node:dns/promises'

export interface Answer {
  address: string
  family: number
}

/** All addresses of a name. Tests give one of their own. */
export type Lookup = (host: string, signal?: AbortSignal) => Promise<readonly Answer[]>

const LANES = 2
const LANES_OF_ONE = 1

const organization = new AsyncLocalStorage<string>()

/** What is looked up by the work counts as the organization's. Elsewhere nobody is told apart from anybody else. */
export const lookUpAs = <T>(organizationId: string, work: () => T): T => organization.run(organizationId, work)

interface Waiting {
  start(): void
  signal: AbortSignal | undefined
}

export function limitLookups(lookup: Lookup, lanes: number): Lookup {
  const busy = new Map<string, number>()
  // A Map keeps the order of insertion: an organization that was served goes to the end.
  const waiting = new Map<string, Waiting[]>()
  let inAll = 0

  const hasRoom = (key: string) => inAll < lanes && (key === '' || (busy.get(key) ?? 0) < LANES_OF_ONE)
  const enter = (key: string): void => {
    inAll++
    busy.set(key, (busy.get(key) ?? 0) + 1)
  }
  const leave = (key: string): void => {
    inAll--
    const left = busy.get(key)! - 1
    if (left === 0) busy.delete(key)
    else busy.set(key, left)
    for (const [next, line] of waiting) if (hasRoom(next)) serve(next, line)
  }
  const serve = (key: string, line: Waiting[]): void => {
    waiting.delete(key)
    const first = line.find(({ signal }) => !signal?.aborted)
    if (!first) return
    const rest = line.slice(line.indexOf(first) + 1)
    if (rest.length > 0) waiting.set(key, rest)
    enter(key)
    first.start()
  }

  return async (host, signal) => {
    const key = organization.getStore() ?? ''
    if (hasRoom(key)) enter(key)
    else
      await new Promise<void>((start) => {
        const line = waiting.get(key) ?? []
        line.push({ start, signal })
        waiting.set(key, line)
      })
    try {
      return await lookup(host)
    } finally {
      leave(key)
    }
  }
}

export const createSystemLookup = (): Lookup =>
  limitLookups((host) => systemLookup(host, { all: true, order: 'verbatim' }), LANES)
