/**
 * Looking names up by the system, so that /etc/hosts and search domains count. Each look-up holds one of the few threads
 * that Node has for files, passwords and names together, for as long as a DNS server of anybody's choice is silent: so
 * only some of them are used for it, and a look-up that nobody waits for any more is not begun.
 */
import { lookup as systemLookup } from 'node:dns/promises'

export interface Answer {
  address: string
  family: number
}

/** All addresses of a name. Tests give one of their own. */
export type Lookup = (host: string, signal?: AbortSignal) => Promise<readonly Answer[]>

const AT_ONCE = 2

export function limitLookups(lookup: Lookup, atOnce: number): Lookup {
  const waiting: { start(): void; signal: AbortSignal | undefined }[] = []
  let busy = 0
  const leave = (): void => {
    let next = waiting.shift()
    while (next?.signal?.aborted) next = waiting.shift()
    if (next) next.start()
    else busy--
  }
  return async (host, signal) => {
    if (busy < atOnce) busy++
    else await new Promise<void>((resolve) => waiting.push({ start: resolve, signal }))
    try {
      return await lookup(host)
    } finally {
      leave()
    }
  }
}

export const resolveBySystem: Lookup = limitLookups(
  (host) => systemLookup(host, { all: true, order: 'verbatim' }),
  AT_ONCE,
)
