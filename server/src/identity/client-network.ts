import { parseAddress } from '../egress/addresses.ts'

const LONGEST = 100

/** What counts as one client. An IPv6 client has a whole /64 and could use a different address each time. */
export function networkOf(clientAddress: string): string {
  const address = parseAddress(clientAddress)
  return address?.family === 6 ? `${(address.value >> 64n).toString(16)}::/64` : clientAddress.slice(0, LONGEST)
}
