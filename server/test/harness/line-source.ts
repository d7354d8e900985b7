/** A source made of given JSON lines, for driving destinations: resumable or not, with pages as small as needed. */

import type { Page, Source } from '../../src/connectors/contract.ts'
import { Type } from '../../src/schema.ts'

let made = 0

export interface LineSourceOptions {
  resumable?: boolean
  pageRecords?: number
  /** Only every n-th page has a cursor. */
  cursorEvery?: number
  /** Called before each page with the number of records so far. */
  beforePage?: (given: number) => Promise<void> | void
}

export function lineSource(lines: readonly string[], options: LineSourceOptions = {}): Source {
  const { resumable = true, pageRecords = 100, cursorEvery = 1, beforePage } = options
  return {
    kind: 'source',
    name: `lines_${++made}`,
    display_name: 'Lines',
    description: 'Lines given by a test.',
    streams: ['rows'],
    auth_types: [],
    settings: Type.Object({}),
    capabilities: { incremental: true, resumable, columns: false, encodings: ['ndjson'] },
    example_config: {},
    notes: '',
    async check() {},
    async listStreams() {
      return ['rows']
    },
    async describe(_context, wanted) {
      return wanted.map((stream) => ({
        stream,
        columns: null,
        primary_key: [],
        cursor_fields: [],
        estimated_rows: lines.length,
      }))
    },
    async read({ state, resume, signal }) {
      async function* pages(): AsyncGenerator<Page> {
        let at = ((resume ?? state) as { line: number } | null)?.line ?? 0
        let pages = 0
        while (at < lines.length) {
          await beforePage?.(at)
          signal.throwIfAborted()
          const page = lines.slice(at, at + pageRecords)
          at += page.length
          const bytes = Buffer.from(page.map((line) => `${line}\n`).join(''))
          pages += 1
          yield { bytes, records: page.length, ...(pages % cursorEvery === 0 ? { cursor: { line: at } } : {}) }
        }
      }
      return { columns: null, pages: pages() }
    },
  }
}
