/** Values of a small result. A query states what it expects of each column; everything else is refused. */

/** Returns the value, or undefined if the text is not valid. */
type ValueReader<T> = (text: string | null) => T | undefined

export type Shape = Readonly<Record<string, ValueReader<unknown>>>

export type RowOf<S extends Shape> = { [Name in keyof S]: Exclude<ReturnType<S[Name]>, undefined> }

export const readText: ValueReader<string> = (text) => text ?? undefined

export const readFlag: ValueReader<boolean> = (text) => (text === '1' ? true : text === '0' ? false : undefined)

export const readInteger: ValueReader<number> = (text) => {
  if (text === null || text.length > 17 || !/^-?\d+$/.test(text)) return undefined
  const value = Number(text)
  return Number.isSafeInteger(value) ? value : undefined
}

export function orNull<T>(reader: ValueReader<T>): ValueReader<T | null> {
  return (text) => (text === null ? null : reader(text))
}
