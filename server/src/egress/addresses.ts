/**
 * Parses and classifies IP addresses. Addresses are parsed into one number, so that every notation (short, octal,
 * mapped, compressed) is the same address before anything is decided about it. IPv4-mapped IPv6 is treated as IPv4,
 * because the kernel connects to the IPv4 address.
 */
import { isIPv4, isIPv6 } from 'node:net'

export interface Address {
  family: 4 | 6
  value: bigint
}

export interface Range extends Address {
  /** Length of the prefix in bits. */
  prefix: number
}

const bitsOf = { 4: 32n, 6: 128n } as const
const mappedPrefix = 0xffffn

/**
 * Parses an address in its plain form. Null for anything else, including zone ids, which name a link of this machine.
 */
export function parseAddress(text: string): Address | null {
  if (isIPv4(text)) return { family: 4, value: readIPv4(text) }
  if (!isIPv6(text) || text.includes('%')) return null
  const value = readIPv6(text)
  return value >> 32n === mappedPrefix ? { family: 4, value: value & 0xffffffffn } : { family: 6, value }
}

function readIPv4(text: string): bigint {
  return text.split('.').reduce((value, part) => (value << 8n) | BigInt(part), 0n)
}

function readIPv6(text: string): bigint {
  const dotted = /^(.*:)(\d+\.\d+\.\d+\.\d+)$/.exec(text)
  const groups = dotted ? `${dotted[1]}${asTwoGroups(readIPv4(dotted[2]!))}` : text
  const [head = '', tail] = groups.split('::')
  const before = head === '' ? [] : head.split(':')
  const after = tail === undefined || tail === '' ? [] : tail.split(':')
  const zeros = tail === undefined ? [] : new Array<string>(8 - before.length - after.length).fill('0')
  return [...before, ...zeros, ...after].reduce((value, group) => (value << 16n) | BigInt(`0x${group}`), 0n)
}

function asTwoGroups(value: bigint): string {
  return `${(value >> 16n).toString(16)}:${(value & 0xffffn).toString(16)}`
}

/** Parses `10.0.0.0/8` or a plain address, which is a range of one. */
export function parseRange(text: string): Range | null {
  const [base = '', length, ...rest] = text.split('/')
  const address = parseAddress(base)
  if (!address || rest.length > 0) return null
  const bits = Number(bitsOf[address.family])
  if (length === undefined) return { ...address, prefix: bits }
  if (!/^\d{1,3}$/.test(length)) return null
  // The prefix of a mapped address counts from the IPv6 form: ::ffff:10.0.0.0/104 is 10.0.0.0/8.
  const prefix = address.family === 4 && base.includes(':') ? Number(length) - 96 : Number(length)
  return prefix >= 0 && prefix <= bits ? { ...address, prefix } : null
}

export function inRange(address: Address, range: Range): boolean {
  if (address.family !== range.family) return false
  const shift = bitsOf[address.family] - BigInt(range.prefix)
  return address.value >> shift === range.value >> shift
}

export function sameAddress(a: Address, b: Address): boolean {
  return a.family === b.family && a.value === b.value
}

export type AddressKind =
  | 'loopback'
  | 'private network'
  | 'link-local'
  | 'cloud metadata'
  | 'carrier-grade NAT'
  | 'this network'
  | 'multicast'
  | 'broadcast'
  | 'documentation'
  | 'benchmark'
  | 'tunnel'
  | 'reserved'

/** The first match counts, so single addresses come before the ranges that contain them. */
const specialRanges: readonly (readonly [AddressKind, readonly string[]])[] = [
  [
    'cloud metadata',
    [
      '169.254.169.254',
      '169.254.170.2',
      '169.254.170.23',
      '100.100.100.200',
      '168.63.129.16',
      '192.0.0.192',
      'fd00:ec2::254',
      'fd00:ec2::23',
      'fd20:ce::254',
    ],
  ],
  ['loopback', ['127.0.0.0/8', '::1']],
  ['this network', ['0.0.0.0/8', '::']],
  ['private network', ['10.0.0.0/8', '172.16.0.0/12', '192.168.0.0/16', 'fc00::/7', 'fec0::/10']],
  ['carrier-grade NAT', ['100.64.0.0/10']],
  ['link-local', ['169.254.0.0/16', 'fe80::/10']],
  ['documentation', ['192.0.2.0/24', '198.51.100.0/24', '203.0.113.0/24', '2001:db8::/32', '3fff::/20']],
  ['benchmark', ['198.18.0.0/15', '2001:2::/48']],
  ['broadcast', ['255.255.255.255']],
  ['multicast', ['224.0.0.0/4', 'ff00::/8']],
  // 6to4, Teredo, their relay and local NAT64 carry an IPv4 address to wherever a gateway takes it.
  ['tunnel', ['192.88.99.0/24', '2001::/32', '2002::/16', '64:ff9b:1::/48']],
  ['reserved', ['192.0.0.0/24', '240.0.0.0/4', '2001::/23']],
]

const special = specialRanges.map(([kind, ranges]) => [kind, ranges.map((text) => parseRange(text)!)] as const)
const globalUnicast = parseRange('2000::/3')!
const nat64 = parseRange('64:ff9b::/96')!

/** Null for a public address, otherwise its special kind. IPv6 is closed unless known to be public. */
export function classifyAddress(address: Address): AddressKind | null {
  if (inRange(address, nat64)) return classifyAddress({ family: 4, value: address.value & 0xffffffffn })
  for (const [kind, ranges] of special) {
    if (ranges.some((range) => inRange(address, range))) return kind
  }
  return address.family === 6 && !inRange(address, globalUnicast) ? 'reserved' : null
}
