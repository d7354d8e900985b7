/** Properties that requests name, in chunks where the API limits them. */
import { isFields, lookUp } from './paths.ts'
import type { PropertiesPlan } from './plan.ts'
import type { Fields } from './scope.ts'

/** Every chunk holds what is always asked for. At least one chunk, even an empty one. */
export function chunkProperties(names: readonly string[], { always, limit }: PropertiesPlan): string[][] {
  const rest = [...new Set(names)].filter((name) => !always.includes(name))
  if (limit === null) return [[...always, ...rest]]
  const chunks: string[][] = []
  let chunk: string[] = []
  let size = 0
  for (const name of rest) {
    const cost = limit.by === 'count' ? 1 : name.length + limit.separator.length
    if (chunk.length > 0 && size + cost > limit.most) {
      chunks.push(chunk)
      chunk = []
      size = 0
    }
    chunk.push(name)
    size += cost
  }
  if (chunk.length > 0 || chunks.length === 0) chunks.push(chunk)
  return chunks.map((each) => [...always, ...each])
}

/** Records of all chunks that have the same key become one; those without a key stay as they are. */
export function mergeRecords(parts: readonly Fields[][], mergeBy: PropertiesPlan['mergeBy']): Fields[] {
  if (parts.length === 1) return parts[0]!
  const byKey = new Map<string, Fields>()
  const records: Fields[] = []
  for (const record of parts.flat()) {
    const values = mergeBy.map((path) => lookUp(record, path))
    const key = JSON.stringify(values)
    const known = byKey.get(key)
    if (known) mergeInto(known, record)
    else {
      records.push(record)
      if (values.length > 0 && !values.includes(undefined)) byKey.set(key, record)
    }
  }
  return records
}

function mergeInto(target: Fields, source: Fields): void {
  for (const [name, value] of Object.entries(source)) {
    const known = target[name]
    if (isFields(known) && isFields(value)) mergeInto(known, value)
    else target[name] = value
  }
}
