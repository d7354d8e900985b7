/** Names in SQL text and in stream names. */

export function quoteName(name: string): string {
  return `\`${name.replaceAll('\\', '\\\\').replaceAll('`', '\\`')}\``
}

export function quoteText(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}

export interface TableName {
  database: string
  table: string
}

export function quoteTable({ database, table }: TableName): string {
  return `${quoteName(database)}.${quoteName(table)}`
}

/** `table` in the database of the settings, else `database.table`; a part with a dot or quote is in double quotes. */
export function formatStream({ database, table }: TableName, own: string): string {
  return database === own ? formatPart(table) : `${formatPart(database)}.${formatPart(table)}`
}

function formatPart(part: string): string {
  return /[."]/.test(part) || part === '' ? `"${part.replaceAll('"', '""')}"` : part
}

const PART = /"((?:[^"]|"")*)"(?=\.|$)|([^.]*)/y

/** The parts of a stream name from left to right. */
export function splitStream(stream: string): string[] {
  const parts: string[] = []
  let at = 0
  while (at <= stream.length) {
    PART.lastIndex = at
    const match = PART.exec(stream)!
    parts.push(match[1] === undefined ? match[2]! : match[1].replaceAll('""', '"'))
    at = PART.lastIndex + 1
  }
  return parts
}
