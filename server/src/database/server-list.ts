/**
 * The servers that DATABASE_URL names. Like libpq it may list several, of which one is the primary:
 * `postgres://user@a:5432,b:5432/db` or `postgres:///db?host=a,b&port=5432`. URL parsers refuse such a list, so it is
 * taken apart here into one address per server.
 */
const ADDRESS = /^(postgres(?:ql)?:\/\/)((?:[^@/?#]*@)?)([^/?#]*)([^?#]*)(.*)$/s

export interface ServerName {
  host: string
  port: number
}

const USUAL_PORT = 5432

/** One address per server, in order; null if it is not an address at all. */
export function splitServers(address: string): string[] | null {
  const [, scheme, account, list, path, rest] = ADDRESS.exec(address) ?? []
  if (list === undefined) return null
  const servers = list.split(',')
  if (servers.length > 1 && servers.includes('')) return null
  const each = servers.map((server) => `${scheme}${account}${server}${path}${rest}`)
  if (!each.every((one) => URL.canParse(one))) return null
  return servers.length > 1 ? each : splitParameters(each[0]!)
}

/** `?host=a,b`: a port for each host, or one for all. */
function splitParameters(address: string): string[] | null {
  const url = new URL(address)
  const hosts = url.searchParams.get('host')?.split(',') ?? []
  if (hosts.length < 2) return [address]
  const ports = url.searchParams.get('port')?.split(',') ?? ['']
  if (hosts.includes('') || (ports.length > 1 && ports.length !== hosts.length)) return null
  return hosts.map((host, index) => {
    const one = new URL(address)
    one.searchParams.set('host', host)
    const port = ports[ports.length > 1 ? index : 0]!
    if (port === '') one.searchParams.delete('port')
    else one.searchParams.set('port', port)
    return one.href
  })
}

/** Host and port of each server; a socket's folder is not one. */
export function namesOfServers(address: string): ServerName[] {
  return (splitServers(address) ?? []).flatMap((one) => {
    const url = new URL(one)
    const host = url.searchParams.get('host') ?? decodeURIComponent(url.hostname)
    const port = Number(url.searchParams.get('port') ?? url.port) || USUAL_PORT
    return host === '' || host.startsWith('/') ? [] : [{ host, port }]
  })
}
