/** An invalid key. Keys are made by the service, so this is a defect or an attack, never a typo. */
export class InvalidBlobKey extends Error {}

/** Refuses keys that could name something outside the store, or one of its temporary files. */
export function checkKey(key: string): void {
  const fault = findKeyFault(key)
  if (fault !== null) throw new InvalidBlobKey(`The blob key ${JSON.stringify(key.slice(0, 200))} ${fault}.`)
}

function findKeyFault(key: string): string | null {
  if (key === '') return 'is empty'
  if (Buffer.byteLength(key) > 1000) return 'is longer than 1000 bytes'
  if (/[\0-\x1f\x7f\\]/.test(key)) return 'contains a control character or a backslash'
  for (const segment of key.split('/')) {
    if (segment === '') return 'is absolute or has an empty segment'
    if (segment.startsWith('.')) return 'has a segment that begins with a dot'
  }
  return null
}

/** A prefix may be empty, end with a slash or stop within a segment; otherwise it follows the rules for keys. */
export function checkPrefix(prefix: string): void {
  if (prefix !== '') checkKey(prefix.endsWith('/') ? `${prefix}x` : prefix)
}
