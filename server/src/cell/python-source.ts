/**
 * A custom source as a connector. The cell produces pages as the bytes that are stored; it pauses while they are not consumed.
 *
 * Exactly once: `self.state` covers all records that were yielded before it was set. The cell ends a page at that record,
 * so the cursor of a page is the author's state right after its last record, and a read that starts with that state
 * continues with the next record. Sources that never mention `self.state` have no cursors and are read again from the start.
 */
import {
  ConnectorError,
  type Page,
  type ReadContext,
  type RunLog,
  type Source,
  type SourceContext,
} from '../connectors/contract.ts'
import type { Json } from '../json/json.ts'
import type { CellPage } from './call.ts'
import { type CustomSettings, type CustomSourceOptions, declareSource } from './declaration.ts'
import type { LogLevel } from './frames.ts'
import { createHandoff } from './handoff.ts'
import { connect } from './interactive.ts'
import { listStreams, requireConnection } from './preview.ts'
import { getZygote } from './provider.ts'
import type { Zygote } from './zygote.ts'

export interface PythonSourceOptions extends CustomSourceOptions {
  /** Default: the cells of this process. */
  zygote?: Zygote
}

/** Pages of about 128 KB that may wait for the consumer, so that its short pauses do not stop the cell. */
const PAGES_AHEAD = 4

export function pythonSource(options: PythonSourceOptions): Source<CustomSettings> {
  const declaration = declareSource(options)
  const { resumable } = declaration.capabilities
  return {
    ...declaration,
    async check(context) {
      const input = inputOf(options, context)
      await requireConnection(input)
      if (context.stream === null) return
      const known = declaration.streams === 'dynamic' ? await listStreams(input) : declaration.streams
      if (!known.includes(context.stream))
        throw new ConnectorError('config', `The source has no stream '${context.stream.slice(0, 100)}'`)
    },
    listStreams: (context) => listStreams(inputOf(options, context)),
    // Only running its code would tell what it yields.
    describe: async (_context, wanted) =>
      wanted.map((stream) => ({ stream, columns: null, primary_key: [], cursor_fields: [], estimated_rows: null })),
    async read(context) {
      return { columns: null, pages: readPages(options, context, resumable) }
    },
  }
}

function inputOf({ code, zygote }: PythonSourceOptions, context: SourceContext<object>) {
  const { fetch, authentication, signal } = context
  const config = context.config as Record<string, Json>
  return {
    code,
    fetch,
    authentication,
    config,
    signal,
    ...(zygote ? { zygote } : {}),
  }
}

async function* readPages(
  options: PythonSourceOptions,
  context: ReadContext<object>,
  resumable: boolean,
): AsyncGenerator<Page> {
  const zygote = options.zygote ?? getZygote()
  const log = (level: LogLevel, line: string): void => writeLog(context.log, level, line)
  const { call, redact } = connect(context, zygote, log)
  const stop = new AbortController()
  const pages = createHandoff<CellPage>(PAGES_AHEAD)
  const job: Json = {
    op: 'read',
    code: options.code,
    stream: context.stream,
    config: context.config as Json,
    authentication: { type: context.authentication.type },
    track_state: resumable,
    state: resumable ? (context.resume ?? context.state) : null,
  }
  const signal = AbortSignal.any([context.signal, stop.signal])
  zygote.call(job, { ...call, log, redact, signal, page: (page) => pages.put(page) }).then(
    () => pages.end(),
    (error) => {
      if (error instanceof Error && 'traceback' in error) logTraceback(context.log, String(error.traceback))
      pages.fail(error)
    },
  )
  try {
    for (let page = await pages.take(); page !== null; page = await pages.take()) {
      const { bytes, records, state } = page
      if (state !== undefined && resumable) yield { bytes, records, cursor: state }
      else if (records > 0) yield { bytes, records }
    }
  } finally {
    stop.abort(new Error('the consumer stopped reading'))
  }
}

/** Log lines of an author's code are marked, so that they cannot pass for lines of the platform. */
function writeLog(log: RunLog, level: LogLevel, line: string): void {
  log[level](`source: ${line}`)
}

function logTraceback(log: RunLog, traceback: string): void {
  for (const line of traceback.trimEnd().split('\n')) if (line !== '') writeLog(log, 'error', line)
}
