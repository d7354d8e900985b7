/**
 * The output of a run as one file, streamed from its parts. Whatever the row says, only blobs under the run's own
 * prefix are read. Browsers use a single-use ticket, because a token in a URL would end up in logs.
 */
import { randomBytes } from 'node:crypto'
import { Readable } from 'node:stream'
import type { BlobStore } from '../blobs/blobs.ts'
import { type ByteRange, readPart } from '../blobs/part-reader.ts'
import type { StoredPart } from '../blobs/parts.ts'
import { isOwnPart } from '../blobs/run-keys.ts'
import type { Column } from '../connectors/contract.ts'
import { type Database, type Queryable, raw, sql } from '../database/database.ts'
import { AppError, notFound } from '../errors.ts'
import { sha256 } from '../sha256.ts'
import type { Actor } from '../tenancy/actor.ts'
import { audit } from '../tenancy/audit.ts'
import { inVisibleDomain } from '../tenancy/visibility.ts'

const TICKET_SECONDS = 60

export interface OutputFile {
  run_id: string
  organization_id: string
  pipeline_name: string
  status: string
  output_file: string
  output_file_size: number
  output_type: string
  output_parts: StoredPart[]
  /** Of tab-separated text. */
  output_columns: Column[] | null
}

const output = sql`
  SELECT r.id AS run_id, r.organization_id, p.name AS pipeline_name, r.status, r.output_file, r.output_file_size, r.output_type, r.output_parts,
         r.output_columns
    FROM runs r JOIN pipelines p ON p.id = r.pipeline_id`

const DOMAIN_ID = raw('p.domain_id')

export async function findOutput(db: Queryable, actor: Actor, runId: string): Promise<OutputFile> {
  const file = await db.first<OutputFile>(
    sql`${output} WHERE r.id = ${runId} AND r.organization_id = ${actor.organization_id}${inVisibleDomain(actor, DOMAIN_ID)}`,
  )
  if (!file) throw notFound('Run')
  return requireOutput(file)
}

export async function createTicket(
  db: Database,
  actor: Actor,
  runId: string,
): Promise<{ ticket: string; url: string; expires_at: string }> {
  await findOutput(db, actor, runId)
  const ticket = randomBytes(32).toString('base64url')
  return db.transaction(async (tx) => {
    const row = await tx.first<{ expires_at: string }>(sql`
      INSERT INTO output_tickets (ticket_hash, run_id, expires_at) VALUES (${sha256(ticket)}, ${runId}, now() + make_interval(secs => ${TICKET_SECONDS})) RETURNING expires_at`)
    await audit(tx, actor, 'run.output_ticket_issued', { type: 'run', id: runId })
    return { ticket, url: `/api/pipelines/runs/${runId}/output?ticket=${ticket}`, expires_at: row!.expires_at }
  })
}

/** Uses the ticket up. */
export async function redeemTicket(db: Queryable, runId: string, ticket: string): Promise<OutputFile> {
  const used = await db.first(
    sql`DELETE FROM output_tickets WHERE ticket_hash = ${sha256(ticket)} AND run_id = ${runId} AND expires_at > now() RETURNING 1`,
  )
  if (!used)
    throw new AppError(
      'unauthenticated',
      'The ticket is invalid, already used, or older than 60 seconds; request a new one',
    )
  const file = await db.first<OutputFile>(sql`${output} WHERE r.id = ${runId}`)
  if (!file) throw notFound('Run')
  return requireOutput(file)
}

export const deleteExpiredTickets = (db: Queryable): Promise<number> =>
  db.execute(sql`DELETE FROM output_tickets WHERE expires_at < now()`)

function requireOutput(file: OutputFile): OutputFile {
  if (file.status === 'pending' || file.status === 'running')
    throw new AppError('not_found', `This run has no output file yet: it is ${file.status}`)
  if (file.output_file === null || file.output_parts === null)
    throw new AppError(
      'not_found',
      'This run has no output file: it did not succeed, keeps no output, or its output has expired',
    )
  const run = { id: file.run_id, organization_id: file.organization_id }
  if (!file.output_parts.every(({ key }) => isOwnPart(run, key)))
    throw new Error(`the output of run ${file.run_id} names blobs of another run`)
  return file
}

/** Parses a single byte range. Null: the whole file. */
export function parseRange(header: string | undefined, size: number): ByteRange | null {
  const match = /^bytes=(\d*)-(\d*)$/.exec(header?.trim() ?? '')
  if (!match || (match[1] === '' && match[2] === '')) return null
  const start = match[1] === '' ? Math.max(0, size - Number(match[2])) : Number(match[1])
  const end = match[1] === '' || match[2] === '' ? size - 1 : Math.min(Number(match[2]), size - 1)
  if (start > end || start >= size)
    throw new AppError('range_not_satisfiable', `The file has ${size} bytes`, { 'Content-Range': `bytes */${size}` })
  return { start, end }
}

/**
 * Streams the bytes of a range across the parts, opening each only when it is reached. Resolves once the first bytes
 * are available.
 */
export function streamOutput(blobs: BlobStore, file: OutputFile, range: ByteRange): Promise<Readable> {
  return openStream(readParts(blobs, file.output_parts, range))
}

export async function openStream(pieces: AsyncGenerator<Buffer>): Promise<Readable> {
  const first = await pieces.next()
  const stream = Readable.from(
    (async function* () {
      if (!first.done) yield first.value
      yield* pieces
    })(),
    { objectMode: false },
  )
  // A client that disconnects before reading anything would leave a part open.
  return stream.once('close', () => void pieces.return(undefined))
}

async function* readParts(blobs: BlobStore, parts: readonly StoredPart[], range: ByteRange): AsyncGenerator<Buffer> {
  let offset = 0
  for (const part of parts) {
    const start = Math.max(range.start - offset, 0)
    const end = Math.min(range.end - offset, part.size - 1)
    if (start <= end) yield* readPart(blobs, part, { start, end })
    offset += part.size
    if (offset > range.end) return
  }
}

/** A file name for the download, derived from the pipeline's name and safe in a header and on any file system. */
export function attachmentName(file: OutputFile): string {
  const base = file.pipeline_name
    .normalize('NFKD')
    .replace(/[^\w.-]+/g, '-')
    .replace(/^[-.]+|[-.]+$/g, '')
    .slice(0, 80)
  const extension = file.output_file.slice(file.output_file.indexOf('output.') + 'output.'.length)
  return `${base || 'output'}-${file.run_id.slice(0, 8)}.${extension}`
}
