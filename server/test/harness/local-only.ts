/**
 * Part of the preload of every test process: resolving a name or connecting to an address outside this machine throws,
 * so that a test has the same result wherever it runs. Programs that are started without the preload are not watched.
 */
import dns from 'node:dns'
import { syncBuiltinESMExports } from 'node:module'
import { BlockList, isIP, Socket } from 'node:net'
import { hostname } from 'node:os'

const local = new BlockList()
local.addSubnet('127.0.0.0', 8)
// The kernel treats the unspecified address as loopback.
local.addAddress('0.0.0.0')
local.addAddress('::', 'ipv6')
local.addAddress('::1', 'ipv6')

export class OutsideAddress extends Error {}

export function requireLocalAddress(address: string): void {
  const bare = address.replace(/%.*$/, '')
  // Anything else is the path of a unix socket.
  if (isIP(bare) === 0) return
  if (!local.check(bare, bare.includes(':') ? 'ipv6' : 'ipv4'))
    throw new OutsideAddress(`a test connects to ${address}; tests use only addresses of this machine`)
}

export function requireLocalName(name: string): void {
  const plain = name.toLowerCase().replace(/\.$/, '')
  if (plain === '' || isIP(plain) !== 0 || plain === hostname().toLowerCase()) return
  if (plain !== 'localhost' && !plain.endsWith('.localhost'))
    throw new OutsideAddress(`a test looks up ${name}; give it a lookup of its own`)
}

export function keepTestsLocal(): void {
  for (const module of [dns, dns.promises] as { lookup: (name: string, ...rest: unknown[]) => unknown }[]) {
    const { lookup } = module
    module.lookup = (name, ...rest) => {
      requireLocalName(name ?? '')
      return lookup(name, ...rest)
    }
  }
  syncBuiltinESMExports()
  const connect = Socket.prototype.connect as (this: Socket, ...rest: unknown[]) => Socket
  Socket.prototype.connect = function watched(this: Socket, ...rest: unknown[]) {
    this.on('connectionAttempt', requireLocalAddress)
    return connect.apply(this, rest)
  } as typeof Socket.prototype.connect
}
