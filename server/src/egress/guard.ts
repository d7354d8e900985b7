/**
 * The policy decision. It is made twice: by name before anything is resolved, and by address for every DNS answer at
 * connect time. Only the second one matters for security; the first gives a better message.
 */
import { networkInterfaces } from 'node:os'
import { type Address, type AddressKind, classifyAddress, parseAddress, sameAddress } from './addresses.ts'
import { type AllowList, allowsAddress, allowsName, compileAllow, namesAddress } from './allow-list.ts'
import { normalizeHost } from './hosts.ts'
import { EgressRefused } from './refusal.ts'

export interface Listener {
  host: string
  port: number
  /** Also closed under the addresses of its name. Not for a public name, whose addresses may be shared. */
  by_address?: boolean
}

export interface Guard {
  /** Throws if the host is a literal address that is refused, or a name of the service itself. */
  checkTarget(host: string, port: number): void
  /** Names of ours whose addresses must be known before this port is dialled. */
  ownNames(port: number): string[]
  /** The answers that may be dialled; throws if none is left. `own` are the addresses of our own names. */
  permitted<Answer extends { address: string }>(
    host: string,
    port: number,
    answers: readonly Answer[],
    own?: readonly { address: string }[],
  ): Answer[]
}

type Verdict = { refused: null } | { refused: AddressKind | 'self' }

export function createGuard(allow: readonly string[], self: readonly Listener[]): Guard {
  const list = compileAllow(allow)

  function judge(host: string, port: number, address: Address): Verdict {
    if (self.some((listener) => reaches(listener, port, address))) return { refused: 'self' }
    const kind = classifyAddress(address)
    return kind === null || isAllowed(list, kind, { host, port, address }) ? { refused: null } : { refused: kind }
  }

  return {
    checkTarget(host, port) {
      if (self.some((listener) => listener.port === port && normalizeHost(listener.host) === host)) throw refuseSelf()
      const address = parseAddress(host)
      if (!address) return
      const { refused } = judge(host, port, address)
      if (refused !== null) throw refuse(host, refused)
    },

    ownNames: (port) =>
      self.filter((own) => own.by_address && own.port === port && !parseAddress(own.host)).map(({ host }) => host),

    permitted(host, port, answers, own = []) {
      const ours = own.flatMap(({ address }) => parseAddress(address) ?? [])
      let last: AddressKind | 'self' = 'reserved'
      const good = answers.filter((answer) => {
        const address = parseAddress(answer.address)
        const isOurs = address !== null && ours.some((each) => sameAddress(each, address))
        const { refused } = isOurs
          ? { refused: 'self' as const }
          : address
            ? judge(host, port, address)
            : { refused: 'link-local' as const }
        if (refused !== null) last = refused
        return refused === null
      })
      if (good.length === 0) throw refuse(host, last)
      return good
    },
  }
}

/** Metadata services hand out the machine's credentials: neither a range nor a name opens them by accident. */
function isAllowed(
  list: AllowList,
  kind: AddressKind,
  { host, port, address }: { host: string; port: number; address: Address },
): boolean {
  if (kind === 'cloud metadata') return namesAddress(list, address, port)
  return allowsAddress(list, address, port) || allowsName(list, host, port)
}

function reaches(listener: Listener, port: number, target: Address): boolean {
  if (listener.port !== port) return false
  const bound = parseAddress(listener.host)
  if (!bound) return listener.host.toLowerCase() === 'localhost' && isThisMachine(target)
  if (isUnspecified(bound)) return isThisMachine(target)
  // The kernel treats 0.0.0.0 and :: as loopback targets.
  if (isUnspecified(target)) return classifyAddress(bound) === 'loopback'
  return sameAddress(bound, target)
}

function isUnspecified(address: Address): boolean {
  return address.value === 0n
}

function isThisMachine(address: Address): boolean {
  const kind = classifyAddress(address)
  if (kind === 'loopback' || kind === 'this network') return true
  return Object.values(networkInterfaces()).some((entries) =>
    entries?.some((entry) => {
      const own = parseAddress(entry.address)
      return own !== null && sameAddress(own, address)
    }),
  )
}

/** A name is refused without showing its addresses, otherwise anyone could probe the internal DNS. */
function refuse(host: string, kind: AddressKind | 'self'): EgressRefused {
  if (kind === 'self') return refuseSelf()
  if (kind === 'cloud metadata') {
    return new EgressRefused('address', `connections to ${host} (${kind}) are not allowed`)
  }
  return new EgressRefused(
    'address',
    `connections to ${host} (${kind}) are not allowed; an operator can add it to EGRESS_ALLOW`,
  )
}

function refuseSelf(): EgressRefused {
  return new EgressRefused('self', 'connections to this service itself are not allowed')
}
