/** Names in SQL text and in stream names. */

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function quoteText(value: string): string {
  // E'' strings treat backslashes the same way whatever standard_conforming_strings is.
  return value.includes('\\')
    ? `E'${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`
    : `'${value.replaceAll("'", "''")}'`
}

export interface TableName {
  schema: string
  table: string
}

export function quoteTable({ schema, table }: TableName): string {
  return `${quoteName(schema)}.${quoteName(table)}`
}

/** `schema.table`; a part that contains a dot or a quote is written in double quotes, as in SQL. */
export function formatStream({ schema, table }: TableName): string {
  return `${formatPart(schema)}.${formatPart(table)}`
}

function formatPart(part: string): string {
  return /[."]/.test(part) || part === '' ? quoteName(part) : part
}

/** The parts of a stream name from left to right. */
export function splitStream(stream: string): string[] {
  const parts: string[] = []
  let at = 0
  while (at <= stream.length) {
    if (stream[at] === '"') {
      const quoted = /^"((?:[^"]|"")*)"(?=\.|$)/.exec(stream.slice(at))
      if (quoted) {
        parts.push(quoted[1]!.replaceAll('""', '"'))
        at += quoted[0].length + 1
        continue
      }
    }
    const dot = stream.indexOf('.', at)
    const end = dot < 0 ? stream.length : dot
    parts.push(stream.slice(at, end))
    at = end + 1
  }
  return parts
}
