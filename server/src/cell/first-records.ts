/**
 * The first records of a custom source as a reading. A read waits until a page is full; a preview gives what was yielded
 * and ends the code after the last record that is wanted.
 */
import { ConnectorError, type Reading } from '../connectors/contract.ts'
import { cutArray } from '../json/array-lines.ts'
import { createKeyRing, decodeString, visitFields, visitLines } from '../json/fields.ts'
import { type PreviewInput, previewSource } from './preview.ts'

export async function readFirstRecords(input: PreviewInput): Promise<Reading> {
  const { records, error } = await previewSource({ ...input, validate: false })
  if (error !== null) throw new ConnectorError('source', error)
  return { columns: null, pages: toPages(records) }
}

async function* toPages(records: Buffer): AsyncGenerator<{ bytes: Buffer; records: number }> {
  async function* whole() {
    yield records
  }
  for await (const lines of cutArray(whole())) yield toPage(lines)
}

/** `{id, data}` becomes the data with the id as its first field, as a read writes it. */
function toPage(lines: Buffer): { bytes: Buffer; records: number } {
  const text = lines.toString('latin1')
  const ring = createKeyRing()
  let out = ''
  let records = 0
  visitLines(text, (start, end) => {
    const found: Record<string, string> = {}
    visitFields(text, start, end, ring, (key, from, to) => {
      found[decodeString(ring.raw[key]!)] = text.slice(from, to)
    })
    const rest = found.data!.slice(1).trimStart()
    out += `{"_record_id":${found.id}${rest === '}' ? '' : ','}${rest}\n`
    records++
  })
  return { bytes: Buffer.from(out, 'latin1'), records }
}
