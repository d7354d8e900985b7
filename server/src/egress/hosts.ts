import { parseAddress } from './addresses.ts'
import { EgressRefused } from './refusal.ts'

const hostName = /^[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*$/

/**
 * The canonical form of a host: lower case, no brackets, no final dot, international names in ASCII, and every number
 * that a resolver would accept as an IPv4 address (`2130706433`, `0x7f.1`, `0177.0.0.1`) in dotted form. Null if it is
 * not a host.
 */
export function normalizeHost(host: string): string | null {
  const bare = host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
  if (parseAddress(bare)) return bare.toLowerCase()
  if (/[\s/\\@?#%:[\]]/.test(bare)) return null
  const url = URL.parse(`http://${bare}/`)
  if (!url) return null
  const name = url.hostname.replace(/\.$/, '')
  return parseAddress(name) || (name.length <= 253 && hostName.test(name)) ? name : null
}

export function normalizeTarget(host: string, port: number): { host: string; port: number } {
  if (host.startsWith('/') || host.startsWith('@')) {
    throw new EgressRefused('unix_socket', 'the host names a unix socket; give a host name or an IP address')
  }
  const normalized = normalizeHost(host)
  if (normalized === null) {
    const shown = host === '' ? 'an empty host' : JSON.stringify(host.slice(0, 100))
    throw new EgressRefused('host', `${shown} is not a host; give a host name or an IP address`)
  }
  if (!Number.isInteger(port) || port < 1 || port > 65535) {
    throw new EgressRefused('port', `${port} is not a port; it must be between 1 and 65535`)
  }
  return { host: normalized, port }
}
