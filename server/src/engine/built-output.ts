/**
 * Outputs that a destination builds itself: one file that goes on from run to run, such as a database. The file of the last
 * success is where a run starts from, and only the finish of the run makes its own file the next one. So a run that fails,
 * is cancelled or starts over changes nothing.
 */
import { createReadStream } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { BlobNotFound, type BlobStore } from '../blobs/blobs.ts'
import { readParts } from '../blobs/part-reader.ts'
import { openPartWriter } from '../blobs/part-writer.ts'
import { DamagedPart, type StoredPart } from '../blobs/parts.ts'
import { convertedKey } from '../blobs/run-keys.ts'
import { ConnectorError, type Destination, type PreviousOutput } from '../connectors/contract.ts'
import { cutLines } from '../json/lines.ts'
import { type Attempt, prefixOf } from './attempt.ts'
import { outputContext } from './contexts.ts'
import type { Job, Output } from './job.ts'

const READ_BYTES = 1024 * 1024

/** Before anything is read: whatever would be built without the earlier rows would look like all of them. */
export function requirePrevious(job: Job, destination: Destination): void {
  if (!destination.buildOutput) return
  if (!job.keep_output)
    throw new ConnectorError(
      'config',
      `config.run.keep_output is false, but the file of ${destination.name} is the output of the run; set it to true.`,
    )
  if (job.sync.write === 'replace' || !job.previous || job.previous.parts) return
  throw removed(job.previous.run_id)
}

function removed(runId: string, cause?: unknown): ConnectorError {
  return new ConnectorError(
    'destination',
    `The file of the last successful run ${runId} is gone, so its rows cannot be added to. Delete the state of the pipeline (DELETE /api/pipelines/{id}/state), and the next run starts over with a new file.`,
    { cause },
  )
}

export async function buildOutput(attempt: Attempt): Promise<Output> {
  const { job, host, endpoints, parts, checkpoint } = attempt
  const folder = await mkdtemp(join(tmpdir(), 'sluice-build-'))
  try {
    const built = await endpoints.destination.buildOutput!({
      ...outputContext(attempt),
      folder,
      readRecords: () => cutLines(readParts(host.blobs, parts)),
      previous: openPrevious(host.blobs, job),
    })
    await host.fault('store:before')
    const part = await storeFile(host.blobs, convertedKey(prefixOf(job), job.attempt), built.path)
    const records = parts.reduce((sum, each) => sum + each.records, 0)
    const { extension, content_type } = built
    return { parts: [{ checkpoint, ...part, records }], extension, content_type, size: part.size }
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

function openPrevious(blobs: BlobStore, { previous }: Job): PreviousOutput | null {
  if (!previous?.parts) return null
  const { run_id, parts } = previous
  return {
    run_id,
    size: parts.reduce((sum, { size }) => sum + size, 0),
    read: () => readPrevious(blobs, run_id, parts),
  }
}

async function* readPrevious(blobs: BlobStore, runId: string, parts: readonly StoredPart[]): AsyncGenerator<Buffer> {
  try {
    yield* readParts(blobs, parts)
  } catch (error) {
    if (error instanceof BlobNotFound) throw removed(runId, error)
    if (!(error instanceof DamagedPart)) throw error
    throw new ConnectorError(
      'destination',
      `The file of the last successful run ${runId} cannot be read: ${error.message}.`,
      {
        cause: error,
      },
    )
  }
}

async function storeFile(blobs: BlobStore, key: string, path: string): Promise<StoredPart> {
  const writer = openPartWriter(blobs, key, 'zstd')
  try {
    for await (const chunk of createReadStream(path, { highWaterMark: READ_BYTES })) await writer.write(chunk)
  } catch (error) {
    await writer.abort()
    throw error
  }
  return writer.finish()
}
