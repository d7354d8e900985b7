/**
 * Reads a log: from the chunk rows while they exist, from the blob afterwards. Gaps in the line numbers are reported.
 */
import { promisify } from 'node:util'
import { gunzip } from 'node:zlib'
import type { BlobStore } from '../blobs/blobs.ts'
import { type Queryable, raw, sql } from '../database/database.ts'
import { notFound } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { ofVisiblePipeline } from '../tenancy/visibility.ts'

export interface Chunk {
  first_line: number
  line_count: number
  lines: string
}

export interface NumberedLine {
  number: number
  text: string
}

const decompress = promisify(gunzip)

/** The last line of the log so far, and whether more can come. */
export interface LogTail {
  lines: NumberedLine[]
  finished: boolean
}

const PIPELINE_ID = raw('runs.pipeline_id')

export interface LogStores {
  db: Queryable
  blobs: BlobStore
}

export async function findLog(
  db: Queryable,
  actor: Actor,
  runId: string,
): Promise<{ log_key: string | null; finished: boolean }> {
  const run = await db.first<{ log_key: string | null; finished: boolean }>(sql`
    SELECT log_key, finished_at IS NOT NULL AS finished FROM runs
     WHERE id = ${runId} AND organization_id = ${actor.organization_id}${ofVisiblePipeline(actor, PIPELINE_ID)}`)
  if (!run) throw notFound('Run')
  return run
}

export async function readLog({ db, blobs }: LogStores, actor: Actor, runId: string, after = 0): Promise<LogTail> {
  const run = await findLog(db, actor, runId)
  const chunks = run.log_key
    ? await readBlob(blobs, run.log_key)
    : await db.query<Chunk>(
        sql`SELECT first_line, line_count, lines FROM run_log_chunks WHERE run_id = ${runId} AND first_line + line_count > ${after + 1} ORDER BY number`,
      )
  return { finished: run.finished, lines: numberLines(chunks).filter((line) => line.number > after) }
}

export const omissionOf = (lines: number): string =>
  `… ${lines.toLocaleString('en-US')} lines were omitted here: the log of a run is limited in size …`

function numberLines(chunks: Chunk[]): NumberedLine[] {
  const lines: NumberedLine[] = []
  let next = chunks[0]?.first_line ?? 1
  for (const chunk of chunks) {
    const missing = chunk.first_line - next
    if (missing > 0)
      lines.push({
        number: chunk.first_line - 1,
        text: omissionOf(missing),
      })
    chunk.lines
      .replace(/\n$/, '')
      .split('\n')
      .forEach((text, index) => {
        lines.push({ number: chunk.first_line + index, text })
      })
    next = chunk.first_line + chunk.line_count
  }
  return lines
}

export async function readLogText(stores: LogStores, actor: Actor, runId: string): Promise<string> {
  const { lines } = await readLog(stores, actor, runId)
  return lines.map((line) => `${line.text}\n`).join('')
}

export async function readBlob(blobs: BlobStore, key: string): Promise<Chunk[]> {
  const pieces: Buffer[] = []
  for await (const piece of await blobs.read(key)) pieces.push(piece as Buffer)
  return JSON.parse((await decompress(Buffer.concat(pieces))).toString('utf8')) as Chunk[]
}
