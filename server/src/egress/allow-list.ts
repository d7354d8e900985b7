/** The grammar of EGRESS_ALLOW: addresses, CIDRs, host names and `*.` patterns, each with an optional port. */
import { type Address, inRange, parseRange, type Range } from './addresses.ts'
import { normalizeHost } from './hosts.ts'

interface AddressRule {
  range: Range
  port: number | null
}

interface NameRule {
  /** `db.internal`, or `.corp.example` for everything below it. */
  name: string
  port: number | null
}

export interface AllowList {
  addresses: AddressRule[]
  names: NameRule[]
}

/** The entries of EGRESS_ALLOW, or which of them are invalid. */
export function parseAllow(text: string): { allow: string[] } | { problem: string } {
  const allow = text
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
  const wrong = allow.filter((entry) => parseRule(entry) === null)
  if (wrong.length === 0) return { allow }
  return { problem: `${wrong.map((entry) => `"${entry}"`).join(', ')} cannot be parsed` }
}

export function compileAllow(entries: readonly string[]): AllowList {
  const list: AllowList = { addresses: [], names: [] }
  for (const entry of entries) {
    const rule = parseRule(entry.trim())
    if (rule === null) throw new Error(`EGRESS_ALLOW: "${entry}" cannot be parsed`)
    if ('range' in rule) list.addresses.push(rule)
    else list.names.push(rule)
  }
  return list
}

function parseRule(entry: string): AddressRule | NameRule | null {
  const { host, port } = splitPort(entry)
  if (port === undefined) return null
  const range = parseRange(host)
  if (range) return { range, port }
  const below = host.startsWith('*.')
  const name = normalizeHost(below ? host.slice(2) : host)
  if (name === null || host.includes('[')) return null
  const literal = parseRange(name)
  if (literal) return below ? null : { range: literal, port }
  return { name: below ? `.${name}` : name, port }
}

/** A bare IPv6 address contains colons, so a port after it requires brackets. Undefined: invalid port. */
function splitPort(entry: string): { host: string; port: number | null | undefined } {
  const match = /^\[([^\]]+)\](?::(\d+))?$/.exec(entry) ?? /^([^:]+)(?::(\d+))?$/.exec(entry)
  if (!match) return { host: entry, port: null }
  if (match[2] === undefined) return { host: match[1]!, port: null }
  const port = Number(match[2])
  return { host: match[1]!, port: port >= 1 && port <= 65535 ? port : undefined }
}

export function allowsName(list: AllowList, host: string, port: number): boolean {
  return list.names.some(
    (rule) => matchesPort(rule, port) && (rule.name.startsWith('.') ? host.endsWith(rule.name) : host === rule.name),
  )
}

export function allowsAddress(list: AllowList, address: Address, port: number): boolean {
  return list.addresses.some((rule) => matchesPort(rule, port) && inRange(address, rule.range))
}

/** Whether this exact address is listed, not just a range that contains it. */
export function namesAddress(list: AllowList, address: Address, port: number): boolean {
  const whole = address.family === 4 ? 32 : 128
  return list.addresses.some(
    (rule) => rule.range.prefix === whole && matchesPort(rule, port) && inRange(address, rule.range),
  )
}

function matchesPort(rule: { port: number | null }, port: number): boolean {
  return rule.port === null || rule.port === port
}
