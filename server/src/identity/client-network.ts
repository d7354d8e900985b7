import { parseAddress } from '../egress/addresses.ts'

const LONGEST = 100

/** What counts as one client: whoever has an IPv6 address has all of its /64 and could use another one each time. */
export function networkOf(clientAddress: string): string {
  const address = parseAddress(clientAddress)
  return address?.family === 6 ? `${(address.value >> 64n).toString(16)}::/64` : clientAddress.slice(0, LONGEST)
}
