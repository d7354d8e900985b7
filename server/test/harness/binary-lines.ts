/**
 * Lines as rows of a PostgreSQL table, in text and in binary form, both made by a real server: for driving the postgres
 * destination with everything that a line source can do.
 */
import { buffer } from 'node:stream/consumers'
import type pg from 'pg'
import copyStreams from 'pg-copy-streams'
import type { Column, Page, Source } from '../../src/connectors/contract.ts'
import { quoteName, quoteText } from '../../src/connectors/postgres/shared/names.ts'
import { copyHeader, copyTrailer } from '../../src/connectors/postgres/shared/native-rows.ts'
import { describeColumn } from '../../src/connectors/postgres/shared/type-names.ts'
import { plainRows } from './conformance.ts'
import { type LineSourceOptions, lineSource } from './line-source.ts'

export interface BinaryLines {
  source(lines: readonly string[], options?: LineSourceOptions): Source
  /** How many pages were taken in each form. */
  taken: { text: number; binary: number }
}

/** A text cannot contain NUL, so none can come out of one. */
const storable = (line: string): string => line.replaceAll('\\u0000', '\\ufffd')

export function createBinaryLines(client: pg.Client): BinaryLines {
  const taken = { text: 0, binary: 0 }

  async function copyPage(lines: string, columns: readonly Column[], binary: boolean): Promise<Buffer> {
    const list = columns.map(({ name, native }) => `${quoteName(name)} ${native!.type}`).join(', ')
    const json = quoteText(`[${lines.trimEnd().replaceAll('\n', ',')}]`)
    const form = binary ? ' (FORMAT binary)' : ''
    const sql = `COPY (SELECT * FROM json_to_recordset(${json}) AS r(${list})) TO STDOUT${form}`
    const bytes = await buffer(client.query(copyStreams.to(sql)))
    taken[binary ? 'binary' : 'text'] += 1
    return binary ? bytes.subarray(copyHeader.length, -copyTrailer.length) : bytes
  }

  async function* convert(pages: AsyncIterable<Page>, columns: Column[], binary: boolean): AsyncGenerator<Page> {
    for await (const page of pages) yield { ...page, bytes: await copyPage(page.bytes.toString(), columns, binary) }
  }

  return {
    taken,
    source(lines, options) {
      const inner = lineSource(lines.map(storable), options)
      const columns = findColumns(lines.length > 0 ? lines : plainRows(1))
      return {
        ...inner,
        capabilities: { ...inner.capabilities, encodings: ['tsv'], native: 'pgcopy' },
        async read(context) {
          const { pages } = await inner.read(context)
          return { columns, pages: convert(pages, columns, false), native: convert(pages, columns, true) }
        },
      }
    },
  }
}

/** One type per field that holds all of its values. */
function findColumns(lines: readonly string[]): Column[] {
  const types = new Map<string, Set<string>>()
  for (const line of lines) {
    JSON.parse(line, function (this: unknown, key: string, value: unknown, context?: { source?: string }) {
      if (key !== '' && value !== null)
        types.set(key, (types.get(key) ?? new Set()).add(typeOf(value, context?.source)))
      return value
    } as (key: string, value: unknown) => unknown)
  }
  const fields = [...new Set(lines.flatMap((line) => Object.keys(JSON.parse(line) as object)))]
  return fields.map((name) => describeColumn(name, widest(types.get(name) ?? new Set())))
}

function typeOf(value: unknown, source = ''): string {
  if (typeof value === 'number') return /^-?\d{1,18}$/.test(source) ? 'int8' : 'numeric'
  return typeof value === 'boolean' ? 'boolean' : typeof value === 'string' ? 'text' : 'jsonb'
}

function widest(types: ReadonlySet<string>): string {
  return types.size === 1 ? [...types][0]! : types.has('jsonb') ? 'jsonb' : types.has('numeric') ? 'numeric' : 'text'
}
