/** Addresses are put together by strangers; a regular expression would take quadratic time on many slashes. */
const SLASH = 47

export function trimSlashes(address: string): string {
  let end = address.length
  while (end > 0 && address.charCodeAt(end - 1) === SLASH) end -= 1
  return address.slice(0, end)
}
