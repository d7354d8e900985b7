/** The quarantine of a run, streamed from its parts: records that the destination refused, each with the reason. */
import type { Readable } from 'node:stream'
import type { BlobStore } from '../blobs/blobs.ts'
import { readParts } from '../blobs/part-reader.ts'
import { isOwnPart } from '../blobs/run-keys.ts'
import { type Queryable, raw, sql } from '../database/database.ts'
import type { Part } from '../engine/job.ts'
import { AppError, notFound } from '../errors.ts'
import type { Actor } from '../tenancy/actor.ts'
import { ofVisiblePipeline } from '../tenancy/visibility.ts'
import { openStream } from './download.ts'

export interface QuarantinedRun {
  id: string
  organization_id: string
  pipeline_id: string
  status: string
  quarantine_parts: Part[]
}

const PIPELINE_ID = raw('r.pipeline_id')

/** Of a run that has ended: until then it is not decided which checkpoints count. */
export async function findQuarantine(db: Queryable, actor: Actor, runId: string): Promise<QuarantinedRun> {
  const run = await db.first<Omit<QuarantinedRun, 'quarantine_parts'> & { quarantine_parts: Part[] | null }>(sql`
    SELECT r.id, r.organization_id, r.pipeline_id, r.status, r.quarantine_parts FROM runs r
     WHERE r.id = ${runId} AND r.organization_id = ${actor.organization_id}${ofVisiblePipeline(actor, PIPELINE_ID)}`)
  if (!run) throw notFound('Run')
  const { status, quarantine_parts } = run
  if (status === 'pending' || status === 'running')
    throw new AppError('not_found', `This run has no quarantine yet: it is ${status}`)
  if (quarantine_parts === null)
    throw new AppError('not_found', 'This run has no quarantine: its destination refused no record, or it has expired')
  if (!quarantine_parts.every(({ key }) => isOwnPart(run, key)))
    throw new Error(`the quarantine of run ${run.id} names blobs of another run`)
  return { ...run, quarantine_parts }
}

/** Resolves once the first bytes are available. */
export function streamQuarantine(blobs: BlobStore, { quarantine_parts }: QuarantinedRun): Promise<Readable> {
  return openStream(readParts(blobs, quarantine_parts))
}
