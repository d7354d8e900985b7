/** "Firefox on Windows" out of a User-Agent header, which claims to be many browsers at once: the most special comes first. */
const CLIENTS = [
  [/\bEdg\//, 'Edge'],
  [/\bOPR\//, 'Opera'],
  [/\bFirefox\//, 'Firefox'],
  [/\b(HeadlessChrome|Chrome|Chromium)\//, 'Chrome'],
  [/\bSafari\//, 'Safari'],
  [/^curl\//, 'curl'],
  [/\bpython-requests\b|\bpython-httpx\b|\bPython\b/i, 'Python'],
  [/^node\b|\bundici\b/i, 'Node.js'],
] as const

const SYSTEMS = [
  [/\bAndroid\b/, 'Android'],
  [/\b(iPhone|iPad)\b/, 'iOS'],
  [/\bWindows\b/, 'Windows'],
  [/\bMac OS X\b/, 'macOS'],
  [/\bLinux\b/, 'Linux'],
] as const

export function sayClient(userAgent: string | null): string {
  if (userAgent === null || userAgent === '') return 'Unknown client'
  const client = CLIENTS.find(([pattern]) => pattern.test(userAgent))?.[1]
  const system = SYSTEMS.find(([pattern]) => pattern.test(userAgent))?.[1]
  if (client === undefined) return userAgent.slice(0, 60)
  return system === undefined ? client : `${client} on ${system}`
}
