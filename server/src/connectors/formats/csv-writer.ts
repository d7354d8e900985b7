/** JSON lines as CSV, with the text of every value unchanged: numbers keep their digits, nested values stay JSON. */
import { createKeyRing, decodeString, visitFields, visitLines } from '../../json/fields.ts'

export function csvHeader(names: readonly string[]): Buffer {
  return Buffer.from(`${names.map((name) => quoteCell(name)).join(',')}\n`)
}

/** Turns pages of JSON lines into CSV rows with the columns in the order of `names`. */
export function createCsvWriter(names: readonly string[]): (page: Buffer) => Buffer {
  const ring = createKeyRing()
  const places: number[] = []
  const cells: string[] = new Array(names.length).fill('')
  return (page) => {
    const text = page.toString('latin1')
    let out = ''
    visitLines(text, (start, end) => {
      cells.fill('')
      visitFields(text, start, end, ring, (key, valueStart, valueEnd) => {
        if (key === places.length) places.push(names.indexOf(decodeString(ring.raw[key]!)))
        cells[places[key]!] = writeCell(text, valueStart, valueEnd)
      })
      out += `${cells.join(',')}\n`
    })
    return Buffer.from(out, 'latin1')
  }
}

/** Null is an empty cell; an empty string is quoted, so that the two can be distinguished. */
function writeCell(text: string, start: number, end: number): string {
  const first = text.charCodeAt(start)
  if (first === 34) {
    const inner = text.slice(start + 1, end - 1)
    return quoteCell(
      inner.includes('\\') ? Buffer.from(decodeString(text.slice(start, end))).toString('latin1') : inner,
    )
  }
  const raw = text.slice(start, end)
  if (first === 123 || first === 91) return quoteCell(raw)
  return raw === 'null' ? '' : raw
}

function quoteCell(text: string): string {
  if (text !== '' && !/[",\r\n]|^[\s#]|\s$/.test(text)) return text
  return `"${text.replaceAll('"', '""')}"`
}
