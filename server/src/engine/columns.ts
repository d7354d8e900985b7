/**
 * Selects columns in JSON lines, for sources that cannot do it themselves. Values are copied unchanged; see
 * json/fields.ts.
 *
 * A hashed value becomes the hex SHA-256 of the text of a string, or of the JSON of anything else. Null stays null.
 */
import { createHash } from 'node:crypto'
import type { Column, ColumnChoice, Page } from '../connectors/contract.ts'
import { createKeyRing, decodeString, visitFields, visitLines } from '../json/fields.ts'

/** What happens to a field that is kept: the key it is written under (JSON text, latin1), and whether it is hashed. */
interface ColumnPlan {
  key: string
  hash: boolean
}

/** Records with ever-changing keys must not fill memory: beyond this many keys the cache is cleared. */
const MAX_KEYS = 10_000

export function columnChooser(choice: ColumnChoice): (page: Page) => Page {
  let ring = createKeyRing()
  let plans: (ColumnPlan | null)[] = []
  return (page) => {
    if (ring.raw.length > MAX_KEYS) {
      ring = createKeyRing()
      plans = []
    }
    const text = page.bytes.toString('latin1')
    let out = ''
    visitLines(text, (start, end) => {
      let separator = '{'
      visitFields(text, start, end, ring, (key, valueStart, valueEnd) => {
        if (plans[key] === undefined) plans[key] = planColumn(choice, ring.raw[key]!)
        const plan = plans[key]
        if (!plan) return
        const value = text.slice(valueStart, valueEnd)
        out += `${separator}${plan.key}:${plan.hash ? hashValue(value) : value}`
        separator = ','
      })
      out += separator === '{' ? '{}\n' : '}\n'
    })
    // Facts were about the fields before.
    const { facts: _, ...rest } = page
    return { ...rest, bytes: Buffer.from(out, 'latin1') }
  }
}

/** The columns that a reading declares, after the selection. A hashed column becomes text. */
export function chosenColumns(columns: readonly Column[] | null, choice: ColumnChoice): Column[] | null {
  if (columns === null) return null
  return columns.flatMap((column) => {
    const kept = chooseName(choice, column.name)
    if (kept === null) return []
    if (choice.hash?.includes(column.name)) return [{ name: kept, type: 'text' as const }]
    return [{ ...column, name: kept }]
  })
}

/** The name under which a field is kept, or null if it is dropped. */
function chooseName(choice: ColumnChoice, name: string): string | null {
  if (choice.include && !choice.include.includes(name)) return null
  if (choice.exclude?.includes(name)) return null
  return choice.rename && Object.hasOwn(choice.rename, name) ? choice.rename[name]! : name
}

function planColumn(choice: ColumnChoice, rawKey: string): ColumnPlan | null {
  const name = decodeString(rawKey)
  const kept = chooseName(choice, name)
  if (kept === null) return null
  const key = kept === name ? rawKey : Buffer.from(JSON.stringify(kept)).toString('latin1')
  return { key, hash: choice.hash?.includes(name) ?? false }
}

function hashValue(raw: string): string {
  if (raw === 'null') return 'null'
  const bytes = raw[0] === '"' ? Buffer.from(decodeString(raw)) : Buffer.from(raw, 'latin1')
  return `"${createHash('sha256').update(bytes).digest('hex')}"`
}
