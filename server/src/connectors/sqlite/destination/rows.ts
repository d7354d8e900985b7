/** Puts the records of a run into the table. */
import type { DatabaseSync, SQLInputValue } from 'node:sqlite'
import { watchSpace } from '../../../blobs/disk-space.ts'
import { createKeyRing, decodeString, visitFields, visitLines } from '../../../json/fields.ts'
import type { OutputContext } from '../../contract.ts'
import { missingKey, type TableSettings } from '../../database-file/build.ts'
import type { TableColumn, TablePlan } from '../../database-file/table-plan.ts'
import { quoteName } from '../database.ts'
import { type Convert, converterOf, testOf } from './values.ts'

interface Rows {
  table: string
  plan: TablePlan
  /** Rows are merged by these columns; empty: they are added. */
  key: readonly TableColumn[]
}

/** Returns how many values were left out, because the table may not change. */
export async function writeRows(context: OutputContext<TableSettings>, db: DatabaseSync, rows: Rows): Promise<number> {
  const { plan, key } = rows
  const insert = db.prepare(insertSql(rows))
  const keyPlaces = key.map((column) => plan.fields.findIndex((field) => field.column === column))
  const reader = createReader(plan)
  const makeRoom = watchSpace(context.folder)
  for await (const page of context.readRecords()) {
    context.signal.throwIfAborted()
    makeRoom(page.length)
    reader.read(page, (values) => {
      if (keyPlaces.some((place) => place < 0 || values[place] === null)) throw missingKey(key.map(({ name }) => name))
      insert.run(...values)
    })
  }
  return reader.dropped
}

function insertSql({ table, plan: { fields }, key }: Rows): string {
  const into = `INSERT INTO ${quoteName(table)}`
  if (fields.length === 0) return `${into} DEFAULT VALUES`
  const names = fields.map(({ column }) => quoteName(column.name))
  const values = `${into} (${names.join(', ')}) VALUES (${names.map(() => '?').join(', ')})`
  if (key.length === 0) return values
  const keys = key.map(({ name }) => quoteName(name))
  const set = names.filter((name) => !keys.includes(name)).map((name) => `${name} = excluded.${name}`)
  return `${values} ON CONFLICT (${keys.join(', ')}) DO ${set.length === 0 ? 'NOTHING' : `UPDATE SET ${set.join(', ')}`}`
}

interface Slot {
  place: number
  convert: Convert
  /** Null: everything fits. */
  fits: ((raw: string) => boolean) | null
}

const NULL = 110

function createReader({ fields, drops }: TablePlan) {
  const slots = new Map(
    fields.map(({ key, column }, place): [string, Slot] => [
      key,
      { place, convert: converterOf(column), fits: drops ? testOf(column) : null },
    ]),
  )
  const ring = createKeyRing()
  const known: (Slot | null)[] = []
  const reader = {
    dropped: 0,
    read(page: Buffer, visit: (values: SQLInputValue[]) => void): void {
      const text = page.toString('latin1')
      visitLines(text, (start, end) => {
        const values = new Array<SQLInputValue>(fields.length).fill(null)
        visitFields(text, start, end, ring, (number, from, to) => {
          let slot = known[number]
          if (slot === undefined) slot = known[number] = slots.get(decodeString(ring.raw[number]!)) ?? null
          if (slot === null || text.charCodeAt(from) === NULL) return
          const raw = text.slice(from, to)
          if (slot.fits === null || slot.fits(raw)) values[slot.place] = slot.convert(raw)
          else reader.dropped += 1
        })
        visit(values)
      })
    },
  }
  return reader
}
