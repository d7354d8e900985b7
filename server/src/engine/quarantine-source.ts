/** The source of a run that sends the quarantine of an earlier run again: its records, without the reasons. */

import type { BlobStore } from '../blobs/blobs.ts'
import { readParts } from '../blobs/part-reader.ts'
import type { StoredPart } from '../blobs/parts.ts'
import type { Page, ReadContext, Source } from '../connectors/contract.ts'
import type { Json } from '../json/json.ts'
import { cutLines } from '../json/lines.ts'
import { Type } from '../schema.ts'

const HEAD = Buffer.from('{"record":')
/** In a record it may occur too; the last one is ours, because quotes in a reason are escaped. */
const TAIL = Buffer.from(',"reason":')
const NEWLINE = 10

export function createQuarantineSource(blobs: BlobStore, parts: readonly StoredPart[]): Source {
  return {
    kind: 'source',
    name: 'quarantine',
    display_name: 'the quarantine of an earlier run',
    description: '',
    settings: Type.Object({}),
    streams: 'dynamic',
    auth_types: [],
    capabilities: { incremental: false, resumable: true, columns: false, encodings: ['ndjson'] },
    example_config: {},
    notes: '',
    async check() {},
    listStreams: async () => [],
    describe: async () => [],
    read: async (context) => ({ columns: null, pages: readRecords(blobs, parts, context) }),
  }
}

async function* readRecords(
  blobs: BlobStore,
  parts: readonly StoredPart[],
  { resume, signal }: ReadContext,
): AsyncGenerator<Page> {
  const done = lineOf(resume)
  let line = 0
  for await (const lines of cutLines(readParts(blobs, parts))) {
    signal.throwIfAborted()
    const records: Buffer[] = []
    for (let start = 0; start < lines.length; ) {
      const end = lines.indexOf(NEWLINE, start)
      if (++line > done) records.push(recordOf(lines.subarray(start, end)), Buffer.from('\n'))
      start = end + 1
    }
    if (records.length > 0) yield { bytes: Buffer.concat(records), records: records.length / 2, cursor: { line } }
  }
}

const recordOf = (line: Buffer): Buffer => line.subarray(HEAD.length, line.lastIndexOf(TAIL))

function lineOf(resume: Json): number {
  return typeof resume === 'object' && resume !== null && !Array.isArray(resume) ? Number(resume.line) : 0
}
