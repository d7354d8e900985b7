/**
 * The choice of columns over JSON lines, for sources that can not choose by themselves. Values are copied as they are; see
 * json-fields.ts.
 *
 * A hashed value becomes the SHA-256, in hex, of the text of a string or of the JSON of anything else; null stays null,
 * for it says that there is nothing to hide.
 */
import { createHash } from 'node:crypto'
import type { ColumnChoice, Page } from '../connectors/contract.ts'
import { decodeString, visitFields, visitLines } from '../connectors/json-fields.ts'

/** What becomes of a field that is kept: the key it is written under (JSON text, latin1), and whether it is hashed. */
interface Fate {
  key: string
  hash: boolean
}

export function columnChooser(choice: ColumnChoice): (page: Page) => Page {
  const fates = new Map<string, Fate | null>()
  const fateOf = (rawKey: string): Fate | null => {
    let fate = fates.get(rawKey)
    if (fate === undefined) {
      fate = decideFate(choice, rawKey)
      // Records made of ever new keys must not fill the memory.
      if (fates.size < 10_000) fates.set(rawKey, fate)
    }
    return fate
  }
  return (page) => {
    const text = page.bytes.toString('latin1')
    let out = ''
    visitLines(text, (start, end) => {
      let separator = '{'
      visitFields(text, start, end, (rawKey, valueStart, valueEnd) => {
        const fate = fateOf(rawKey)
        if (!fate) return
        const value = text.slice(valueStart, valueEnd)
        out += `${separator}${fate.key}:${fate.hash ? hashValue(value) : value}`
        separator = ','
      })
      out += separator === '{' ? '{}\n' : '}\n'
    })
    return { ...page, bytes: Buffer.from(out, 'latin1') }
  }
}

function decideFate(choice: ColumnChoice, rawKey: string): Fate | null {
  const name = decodeString(rawKey)
  if (choice.include && !choice.include.includes(name)) return null
  if (choice.exclude?.includes(name)) return null
  const renamed = choice.rename && Object.hasOwn(choice.rename, name) ? choice.rename[name]! : null
  const key = renamed === null ? rawKey : Buffer.from(JSON.stringify(renamed)).toString('latin1')
  return { key, hash: choice.hash?.includes(name) ?? false }
}

function hashValue(raw: string): string {
  if (raw === 'null') return 'null'
  const bytes = raw[0] === '"' ? Buffer.from(decodeString(raw)) : Buffer.from(raw, 'latin1')
  return `"${createHash('sha256').update(bytes).digest('hex')}"`
}
