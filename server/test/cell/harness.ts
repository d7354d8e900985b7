/** Helpers to write a source and to read it through a real cell. */
import { after } from 'node:test'
import type { CellFailure } from '../../src/cell/failure.ts'
import type { CellLimits } from '../../src/cell/limits.ts'
import { pythonSource } from '../../src/cell/python-source.ts'
import { startZygote, type Zygote, type ZygoteOptions } from '../../src/cell/zygote.ts'
import type { Authentication, Fetch, Page, ReadContext } from '../../src/connectors/contract.ts'
import { createEgress, type Egress } from '../../src/egress/policy.ts'
import type { Json } from '../../src/json/json.ts'

/** Cells for one test file, closed at its end. */
export function openCells(options: ZygoteOptions = {}): Zygote {
  const zygote = startZygote(options)
  after(() => zygote.close())
  return zygote
}

/** An egress that can reach this machine, closed at the end of the file. */
export function openEgress(): Egress {
  const egress = createEgress({ allow: ['127.0.0.1', 'localhost'], self: [] })
  after(() => egress.close())
  return egress
}

/** A source with the stream `a` whose get_records is the given body. */
export function writeSource(body: string, rest = ''): string {
  return `
from svc.source.base import AbstractSource
from svc.source.models import SourceRecord
${rest}
class Mine(AbstractSource):
    name = "mine"
    def get_streams(self): return ["a"]
    def check_connection(self): return True
    def get_records(self, stream):
${body.trim().replaceAll(/^/gm, '        ')}
`
}

export interface ReadOptions {
  egress?: Egress
  fetch?: Fetch
  authentication?: Authentication
  config?: Record<string, Json>
  state?: Json
  resume?: Json
  signal?: AbortSignal
}

export interface ReadResult {
  lines: string[]
  // biome-ignore lint/suspicious/noExplicitAny: tests look into records of any shape
  records: any[]
  cursors: { after: number; cursor: Json }[]
  logs: string[]
  failure: CellFailure | null
}

export function readPages(zygote: Zygote, code: string, options: ReadOptions, logs: string[]): AsyncIterable<Page> {
  const source = pythonSource({
    source_name: 'mine',
    display_name: 'Mine',
    description: '',
    code,
    streams: ['a'],
    zygote,
  })
  const log = (line: string): void => void logs.push(line)
  const context = {
    stream: 'a',
    encoding: 'ndjson',
    config: options.config ?? {},
    authentication: options.authentication ?? { type: 'none', params: {} },
    egress: options.egress,
    fetch: options.fetch,
    state: options.state ?? null,
    resume: options.resume ?? null,
    signal: options.signal ?? new AbortController().signal,
    log: { debug: log, info: log, warn: log, error: log },
  } as unknown as ReadContext<object>
  return (async function* () {
    yield* (await source.read(context)).pages
  })()
}

export async function readSource(zygote: Zygote, code: string, options: ReadOptions = {}): Promise<ReadResult> {
  const logs: string[] = []
  const lines: string[] = []
  const cursors: ReadResult['cursors'] = []
  let failure: CellFailure | null = null
  try {
    for await (const page of readPages(zygote, code, options, logs)) {
      lines.push(...page.bytes.toString().split('\n').slice(0, -1))
      if (page.cursor !== undefined) cursors.push({ after: lines.length, cursor: page.cursor })
    }
  } catch (error) {
    failure = error as CellFailure
  }
  return { lines, records: lines.map((line) => JSON.parse(line)), cursors, logs, failure }
}

export const SMALL_LIMITS: Partial<CellLimits> = { memory_mb: 128, cpu_seconds: 5, wall_seconds: 10 }
