/** The kinds of settings: how each is parsed, and what is allowed. */

import { splitServers } from '../database/server-list.ts'
import { parseRange } from '../egress/addresses.ts'
import { parseAllow } from '../egress/allow-list.ts'

/** Thrown by a parser; `allowed` completes the sentence "… is not allowed; it must be". */
export class Refused extends Error {}

export interface Setting<T> {
  parse: (text: string) => T
  /** Undefined means no value unless set. */
  default: T
  /** How the default is shown in the documentation, if it is computed. */
  shown?: string
  allowed: string
  about: string
  secret?: boolean
}

export const text = (allowed = 'text'): Pick<Setting<string>, 'parse' | 'allowed'> => ({
  parse: (value) => value,
  allowed,
})

export function integer(min: number, max: number): Pick<Setting<number>, 'parse' | 'allowed'> {
  const allowed = `a whole number from ${min} to ${max}`
  return {
    allowed,
    parse(value) {
      const number = Number(value)
      if (!/^-?\d+$/.test(value) || number < min || number > max) throw new Refused(allowed)
      return number
    },
  }
}

export function oneOf<T extends string>(...values: T[]): Pick<Setting<T>, 'parse' | 'allowed'> {
  const allowed = values.length === 1 ? `${values[0]}` : `one of ${values.join(', ')}`
  return {
    allowed,
    parse(value) {
      if (!(values as string[]).includes(value)) throw new Refused(allowed)
      return value as T
    },
  }
}

export function url(...protocols: string[]): Pick<Setting<string>, 'parse' | 'allowed'> {
  const allowed = `an address that begins with ${protocols.map((p) => `${p}//`).join(' or ')}`
  return {
    allowed,
    parse(value) {
      if (!URL.canParse(value) || !protocols.includes(new URL(value).protocol)) throw new Refused(allowed)
      return value.replace(/\/+$/, '')
    },
  }
}

/** Like libpq it may list several servers. */
export const databaseUrl: Pick<Setting<string>, 'parse' | 'allowed'> = {
  allowed: 'an address that begins with postgres:// or postgresql://',
  parse(value) {
    if (splitServers(value) === null)
      throw new Refused(`${databaseUrl.allowed}, such as postgres://user:password@host:5432/database`)
    return value.replace(/\/+$/, '')
  },
}

export const optional = <T>(setting: Pick<Setting<T>, 'parse' | 'allowed'>) =>
  ({ ...setting, default: undefined }) as Pick<Setting<T | undefined>, 'parse' | 'allowed' | 'default'>

export const atLeast = (length: number): Pick<Setting<string>, 'parse' | 'allowed'> => {
  const allowed = `at least ${length} characters`
  return {
    allowed,
    parse(value) {
      if (value.length < length) throw new Refused(allowed)
      return value
    },
  }
}

const list: Pick<Setting<string[]>, 'parse' | 'allowed'> = {
  allowed: 'a comma separated list',
  parse: (value) =>
    value
      .split(',')
      .map((item) => item.trim())
      .filter((item) => item !== ''),
}

const MODULE = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/

export const moduleList: Pick<Setting<string[]>, 'parse' | 'allowed'> = {
  allowed: 'a comma separated list of Python modules',
  parse(value) {
    const names = list.parse(value)
    const wrong = names.filter((name) => !MODULE.test(name))
    if (wrong.length > 0)
      throw new Refused(`${moduleList.allowed} (${wrong.map((name) => `"${name}"`).join(', ')} is not a module name)`)
    return [...new Set(names)]
  },
}

/** A class is a label of Kubernetes objects too. `shared` is what has none. */
const CLASS = /^[a-z]([a-z0-9-]{0,28}[a-z0-9])?$/

export const classList: Pick<Setting<string[]>, 'parse' | 'allowed'> = {
  allowed: 'a comma separated list of names of lower-case letters, digits and hyphens, at most 30 characters each',
  parse(value) {
    const names = list.parse(value)
    const wrong = names.filter((name) => !CLASS.test(name) || name === 'shared')
    if (wrong.length > 0)
      throw new Refused(`${classList.allowed} (${wrong.map((name) => `"${name}"`).join(', ')} cannot be one)`)
    return [...new Set(names)]
  },
}

export const allowList: Pick<Setting<string[]>, 'parse' | 'allowed'> = {
  allowed: 'a comma separated list of CIDRs, addresses, host names and host:port',
  parse(value) {
    const parsed = parseAllow(value)
    if ('problem' in parsed)
      throw new Refused(`a comma separated list of CIDRs, addresses, host names and host:port (${parsed.problem})`)
    return parsed.allow
  },
}

const DOMAIN = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/

export const domainList: Pick<Setting<string[]>, 'parse' | 'allowed'> = {
  allowed: 'a comma separated list of domains',
  parse(value) {
    const domains = list.parse(value.toLowerCase())
    const wrong = domains.filter((domain) => !DOMAIN.test(domain))
    if (wrong.length > 0)
      throw new Refused(`${domainList.allowed} (${wrong.map((domain) => `"${domain}"`).join(', ')} is not a domain)`)
    return domains
  },
}

const ADDRESS = '[^\\s@<>,;:"()]+@[^\\s@<>,;:"()]+'
const SENDER = new RegExp(`^([^<>\\p{Cc}]*<${ADDRESS}>|${ADDRESS})$`, 'u')

export const sender: Pick<Setting<string>, 'parse' | 'allowed'> = {
  allowed: 'an address, alone or as Name <address>',
  parse(value) {
    if (!SENDER.test(value)) throw new Refused(sender.allowed)
    return value
  },
}

/** A key is 32 bytes in hex or base64, or a long text that is hashed to one. */
export const keyRing: Pick<Setting<string[]>, 'parse' | 'allowed'> = {
  allowed: 'a comma separated list of keys of at least 32 characters; the first one encrypts, all of them decrypt',
  parse(value) {
    const keys = list.parse(value)
    if (keys.length === 0 || keys.some((key) => key.length < 32)) throw new Refused(keyRing.allowed)
    return keys
  },
}

export const addressList: Pick<Setting<string[]>, 'parse' | 'allowed'> = {
  allowed: 'a comma separated list of addresses and CIDRs',
  parse(value) {
    const addresses = list.parse(value)
    if (addresses.some((address) => parseRange(address) === null)) throw new Refused(addressList.allowed)
    return addresses
  },
}
