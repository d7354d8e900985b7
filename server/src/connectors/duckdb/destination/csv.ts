/**
 * The records of a run as a CSV file that DuckDB reads: every cell is text, and a cell that is not quoted and empty is null.
 * Values of JSON columns stay JSON, so a string keeps its quotes there.
 */
import { open } from 'node:fs/promises'
import { watchSpace } from '../../../blobs/disk-space.ts'
import { createKeyRing, decodeString, visitFields, visitLines } from '../../../json/fields.ts'
import type { OutputContext } from '../../contract.ts'
import type { TableSettings } from '../../database-file/build.ts'
import type { TablePlan } from '../../database-file/table-plan.ts'

export async function writeCsv(context: OutputContext<TableSettings>, path: string, plan: TablePlan): Promise<void> {
  const write = createWriter(plan)
  const makeRoom = watchSpace(context.folder)
  const file = await open(path, 'wx', 0o600)
  try {
    for await (const page of context.readRecords()) {
      context.signal.throwIfAborted()
      const rows = write(page)
      makeRoom(rows.length)
      await file.writeFile(rows)
    }
  } finally {
    await file.close()
  }
}

function createWriter({ fields }: TablePlan): (page: Buffer) => Buffer {
  const places = new Map(fields.map(({ key }, place) => [key, place]))
  const isJson = fields.map(({ column }) => column.type === 'json')
  const ring = createKeyRing()
  const known: number[] = []
  const cells = new Array<string>(fields.length)
  return (page) => {
    const text = page.toString('latin1')
    let out = ''
    visitLines(text, (start, end) => {
      cells.fill('')
      visitFields(text, start, end, ring, (number, from, to) => {
        known[number] ??= places.get(decodeString(ring.raw[number]!)) ?? -1
        const place = known[number]!
        if (place >= 0) cells[place] = writeCell(text.slice(from, to), isJson[place]!)
      })
      out += `${cells.join(',')}\n`
    })
    return Buffer.from(out, 'latin1')
  }
}

function writeCell(raw: string, json: boolean): string {
  if (raw === 'null') return ''
  if (json || raw.charCodeAt(0) !== 34) return quoteCell(raw)
  const inner = raw.slice(1, -1)
  return quoteCell(inner.includes('\\') ? Buffer.from(decodeString(raw)).toString('latin1') : inner)
}

const quoteCell = (text: string): string => `"${text.replaceAll('"', '""')}"`
