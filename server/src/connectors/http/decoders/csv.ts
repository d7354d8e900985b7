/** CSV with a header line (RFC 4180): quotes double themselves, lines end with LF or CRLF. Values stay text. */
import { MalformedJson } from '../../../json/malformed.ts'
import type { Fields } from '../scope.ts'

export function parseCsv(text: string, delimiter: string, nullValues: readonly string[]): Fields[] {
  const rows = splitRows(text.startsWith('\ufeff') ? text.slice(1) : text, delimiter)
  const names = rows.next().value
  if (!names) return []
  const nulls = new Set(nullValues)
  const records: Fields[] = []
  for (const row of rows) {
    if (row.length === 1 && row[0] === '') continue
    const record: Fields = {}
    for (const [index, name] of names.entries()) {
      const value = row[index]
      record[name] = value === undefined || nulls.has(value) ? null : value
    }
    records.push(record)
  }
  return records
}

function* splitRows(text: string, delimiter: string): Generator<string[]> {
  let row: string[] = []
  let at = 0
  while (at < text.length) {
    const { value, end } = text[at] === '"' ? readQuoted(text, at) : readPlain(text, at, delimiter)
    row.push(value)
    if (text.startsWith(delimiter, end)) {
      at = end + delimiter.length
      if (at >= text.length) row.push('')
      continue
    }
    yield row
    row = []
    at = text.startsWith('\r\n', end) ? end + 2 : end + 1
  }
  if (row.length > 0) yield row
}

function readQuoted(text: string, start: number): { value: string; end: number } {
  let value = ''
  let from = start + 1
  for (;;) {
    const quote = text.indexOf('"', from)
    if (quote < 0) throw new MalformedJson('a quoted CSV value is not closed')
    value += text.slice(from, quote)
    if (text[quote + 1] !== '"') return { value, end: quote + 1 }
    value += '"'
    from = quote + 2
  }
}

function readPlain(text: string, start: number, delimiter: string): { value: string; end: number } {
  let end = start
  while (end < text.length && text[end] !== '\n' && !text.startsWith(delimiter, end)) end++
  if (text[end] === '\n' && text[end - 1] === '\r' && end > start) end--
  return { value: text.slice(start, end), end }
}
