/**
 * Opens the file that a source names, from the web through egress or from the blobs of a run, and detects its format.
 */
import { pipeline, Readable } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { readParts } from '../../blobs/part-reader.ts'
import { DamagedPart } from '../../blobs/parts.ts'
import { ConnectorError, type SourceContext } from '../contract.ts'
import { explainRequest, explainStatus } from '../http-failures.ts'
import { type FileSettings, findPlace } from './settings.ts'

export interface OpenFile {
  /** `json` is one array of objects. */
  format: 'jsonl' | 'json' | 'csv' | 'parquet'
  /** Its bytes, decompressed. */
  chunks: AsyncIterable<Buffer>
  close(): Promise<void>
}

export async function openFile(context: SourceContext<FileSettings>): Promise<OpenFile> {
  const place = findPlace(context.config)
  const { body, name } = 'url' in place ? await openUrl(context, place.url) : await openOutput(context, place.run_id)
  const raw = await peek(body)
  const zipped = raw.first[0] === 0x1f && raw.first[1] === 0x8b
  const stream = zipped ? pipeline(raw.stream, createGunzip(), () => undefined) : raw.stream
  const { first, stream: plain } = zipped ? await peek(stream) : raw
  return {
    format: context.config.format ?? formatByName(name) ?? formatByContent(first, name),
    chunks: translate(plain),
    async close() {
      plain.destroy()
      body.destroy()
    },
  }
}

async function openUrl(context: SourceContext<FileSettings>, url: string): Promise<{ body: Readable; name: string }> {
  const { fetch, signal } = context
  try {
    const answer = await fetch.stream(url)
    if (answer.status >= 200 && answer.status < 300) return { body: answer.body, name: new URL(answer.url).pathname }
    answer.body.destroy()
    throw explainStatus(answer.status, new URL(url).host, 'source', 'there is no such file; check the url')
  } catch (error) {
    signal.throwIfAborted()
    throw explainRequest(error, 'source', 'The file cannot be fetched')
  }
}

async function openOutput(
  { outputs }: SourceContext<FileSettings>,
  runId: string,
): Promise<{ body: Readable; name: string }> {
  const parts = outputs.parts(runId)
  if (!parts) {
    throw new ConnectorError(
      'config',
      `The run ${runId} has no readable output; choose a successful run of this organization whose output is JSON lines, CSV or Parquet.`,
    )
  }
  return { body: Readable.from(readParts(outputs.blobs, parts)), name: '' }
}

/** The first bytes of a stream, and the stream with those bytes still in it. */
async function peek(stream: Readable): Promise<{ first: Buffer; stream: Readable }> {
  const iterator = translate(stream)[Symbol.asyncIterator]()
  const held: Buffer[] = []
  let bytes = 0
  while (bytes < 4096) {
    const { done, value } = await iterator.next()
    if (done) break
    held.push(value)
    bytes += value.length
  }
  async function* again(): AsyncGenerator<Buffer> {
    yield* held
    yield* { [Symbol.asyncIterator]: () => iterator }
  }
  return {
    first: Buffer.concat(held),
    stream: Readable.from(again(), { objectMode: false, highWaterMark: 256 * 1024 }),
  }
}

/** The chunks of a stream; errors are translated to ConnectorErrors. */
async function* translate(stream: Readable): AsyncGenerator<Buffer> {
  try {
    yield* stream
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (code.startsWith('Z_'))
      throw new ConnectorError(
        'source',
        'The file starts like a gzip file but cannot be decompressed; it is damaged or truncated.',
        { cause: error },
      )
    if (error instanceof DamagedPart)
      throw new ConnectorError('source', `The output cannot be read: ${error.message}.`, { cause: error })
    throw explainRequest(error, 'source', 'The file cannot be fetched')
  }
}

function formatByName(name: string): OpenFile['format'] | null {
  const ending = /\.([a-z]+)(?:\.gz)?$/.exec(name.toLowerCase())?.[1]
  if (ending === 'csv' || ending === 'tsv' || ending === 'txt') return 'csv'
  if (ending === 'jsonl' || ending === 'ndjson') return 'jsonl'
  return ending === 'parquet' ? 'parquet' : null
}

/** A file whose name ends in .json holds an array or JSON lines, as its first character says. */
function formatByContent(first: Buffer, name: string): OpenFile['format'] {
  if (first.subarray(0, 4).toString('latin1') === 'PAR1') return 'parquet'
  const text = first
    .toString('utf8')
    .replace(/^\ufeff/, '')
    .trimStart()
  if (/^\[\s*[{\]]/.test(text)) return 'json'
  const named = /\.json(?:\.gz)?$/i.test(name)
  if (named) return text.startsWith('[') ? 'json' : 'jsonl'
  return text === '' || text.startsWith('{') ? 'jsonl' : 'csv'
}
