/** Limits for the size and depth of a config. */
const MAX_BYTES = 256 * 1024
const MAX_DEPTH = 32

export function findSizeFault(config: unknown, path: string): string | null {
  if (depthOf(config) > MAX_DEPTH) return `${path}: is nested too deeply; at most ${MAX_DEPTH} levels are allowed`
  const bytes = Buffer.byteLength(JSON.stringify(config) ?? '')
  if (bytes > MAX_BYTES) return `${path}: is too large (${Math.ceil(bytes / 1024)} KB); at most 256 KB are allowed`
  return null
}

/** Without recursion: the input may be as deep as the body limit permits. */
function depthOf(root: unknown): number {
  let deepest = 0
  const stack: [unknown, number][] = [[root, 1]]
  for (let item = stack.pop(); item !== undefined; item = stack.pop()) {
    const [value, depth] = item
    if (typeof value !== 'object' || value === null) continue
    if (depth > deepest) deepest = depth
    for (const inner of Object.values(value)) stack.push([inner, depth + 1])
  }
  return deepest
}
