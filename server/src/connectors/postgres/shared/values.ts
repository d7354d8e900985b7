/**
 * Values of a result. The driver returns them as the text that the server sent: its own parsers take seconds for a
 * timestamp of 40,000 digits and trust the types that the server names. A query states what it expects of each column,
 * and everything else is refused here, so that a malicious server gets an error and never an `undefined` into our code.
 */
import type { Json } from '../../../json/json.ts'

/** Returns the value, or undefined if the text is not valid. */
export type ValueReader<T> = (text: string | null) => T | undefined

export type Shape = Readonly<Record<string, ValueReader<unknown>>>

export type RowOf<S extends Shape> = { [Name in keyof S]: Exclude<ReturnType<S[Name]>, undefined> }

export const readText: ValueReader<string> = (text) => text ?? undefined

export const readBoolean: ValueReader<boolean> = (text) => (text === 't' ? true : text === 'f' ? false : undefined)

export const readInteger: ValueReader<number> = (text) => {
  // A safe integer has at most 16 digits; longer ones are not even converted.
  if (text === null || text.length > 17 || !/^-?\d+$/.test(text)) return undefined
  const value = Number(text)
  return Number.isSafeInteger(value) ? value : undefined
}

/** Deeper values would overflow the stack when they are serialised again. */
const DEEPEST_JSON = 1000

export const readJson: ValueReader<Json> = (text) => {
  if (text === null || depthOf(text) > DEEPEST_JSON) return undefined
  try {
    return JSON.parse(text) as Json
  } catch {
    return undefined
  }
}

export const readTexts: ValueReader<string[]> = (text) => {
  const values = readJson(text)
  return Array.isArray(values) && values.every((value) => typeof value === 'string') ? values : undefined
}

function depthOf(text: string): number {
  let depth = 0
  let deepest = 0
  let quoted = false
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at)
    if (quoted) {
      if (code === 0x5c) at += 1
      else if (code === 0x22) quoted = false
    } else if (code === 0x22) quoted = true
    else if (code === 0x5b || code === 0x7b) deepest = Math.max(deepest, ++depth)
    else if (code === 0x5d || code === 0x7d) depth -= 1
  }
  return deepest
}

export function orNull<T>(reader: ValueReader<T>): ValueReader<T | null> {
  return (text) => (text === null ? null : reader(text))
}

/** Given to the driver in place of its parsers. */
export const textParsers = { getTypeParser: () => (text: string) => text }

/** The rows in the given shape, or the name of a column that is not as it was asked for. */
export function readRows<S extends Shape>(rows: readonly object[], shape: S): RowOf<S>[] | { wrong: string } {
  const readers = Object.entries(shape)
  const read: RowOf<S>[] = []
  for (const row of rows) {
    const values: Record<string, unknown> = {}
    for (const [name, reader] of readers) {
      const text = Object.hasOwn(row, name) ? (row as Record<string, string | null>)[name]! : undefined
      const value = text === undefined ? undefined : reader(text)
      if (value === undefined) return { wrong: name }
      values[name] = value
    }
    read.push(values as RowOf<S>)
  }
  return read
}
