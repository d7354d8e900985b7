/**
 * Brings the database file of a source into a folder of its own. A database is read at random places, so it has to be whole
 * before the first row: its size is limited, and so is what it may take of the disk.
 */
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { DiskFull, watchSpace } from '../../blobs/disk-space.ts'
import { readParts } from '../../blobs/part-reader.ts'
import { DamagedPart } from '../../blobs/parts.ts'
import { ConnectorError, type SourceContext } from '../contract.ts'
import { type OpenFile, openStream } from '../formats/open-file.ts'
import { explainRequest, explainStatus } from '../http-failures.ts'
import { type PlaceSettings, requirePlace } from './settings.ts'

const MAX_FILE_BYTES = 16 * 1024 ** 3

export interface FetchedFile {
  folder: string
  path: string
  remove(): Promise<void>
}

/** Throws a ConnectorError unless a file that begins like this is a database. */
export type CheckHead = (head: Buffer) => void

type Context = SourceContext<PlaceSettings>

/** The whole file, decompressed if it is a .gz or .zst. */
export async function fetchFile(context: Context, check: CheckHead, limit = MAX_FILE_BYTES): Promise<FetchedFile> {
  const file = await openFile(context)
  try {
    const folder = await mkdtemp(join(tmpdir(), 'sluice-database-'))
    const remove = (): Promise<void> => rm(folder, { recursive: true, force: true })
    const path = join(folder, 'database')
    try {
      await write(context, file.chunks, path, { folder, check, limit })
      return { folder, path, remove }
    } catch (error) {
      await remove()
      throw error
    }
  } finally {
    await file.close()
  }
}

/** Reads no more than the beginning, for a check. */
export async function checkFile(context: Context, check: CheckHead): Promise<void> {
  const file = await openFile(context)
  try {
    let head = Buffer.alloc(0)
    for await (const chunk of file.chunks) {
      context.signal.throwIfAborted()
      head = Buffer.concat([head, chunk])
      if (head.length >= HEAD_BYTES) break
    }
    check(head)
  } finally {
    await file.close()
  }
}

const HEAD_BYTES = 4096

async function openFile(context: Context): Promise<OpenFile> {
  const body = await openBody(context)
  // The format is of no interest here; given one, it is not guessed.
  return openStream(body, { name: '', format: 'csv', explain })
}

function explain(error: unknown): unknown {
  if (error instanceof DamagedPart)
    return new ConnectorError('source', `The output cannot be read: ${error.message}.`, { cause: error })
  return explainRequest(error, 'source', 'The file cannot be fetched')
}

async function openBody({ config, fetch, outputs, signal }: Context): Promise<Readable> {
  const place = requirePlace(config)
  if ('run_id' in place) {
    const parts = outputs.parts(place.run_id)
    if (parts) return Readable.from(readParts(outputs.blobs, parts))
    throw new ConnectorError(
      'config',
      `The run ${place.run_id} has no readable output; choose a successful run of this organization that kept its output.`,
    )
  }
  try {
    const answer = await fetch.stream(place.url)
    if (answer.status >= 200 && answer.status < 300) return answer.body
    answer.body.destroy()
    throw explainStatus(answer.status, new URL(place.url).host, 'source', 'there is no such file; check the url')
  } catch (error) {
    signal.throwIfAborted()
    throw explain(error)
  }
}

async function write(
  { signal }: Context,
  chunks: AsyncIterable<Buffer>,
  path: string,
  { folder, check, limit }: { folder: string; check: CheckHead; limit: number },
): Promise<void> {
  const makeRoom = watchSpace(folder)
  const file = await open(path, 'wx', 0o600)
  let size = 0
  let head: Buffer | null = Buffer.alloc(0)
  try {
    for await (const chunk of chunks) {
      signal.throwIfAborted()
      size += chunk.length
      if (size > limit) throw tooLarge(limit)
      if (head !== null) {
        head = Buffer.concat([head, chunk])
        if (head.length >= HEAD_BYTES) {
          check(head)
          head = null
        }
      }
      makeRoom(chunk.length)
      await file.writeFile(chunk)
    }
    if (head !== null) check(head)
  } catch (error) {
    signal.throwIfAborted()
    throw explainDisk(error, 'source')
  } finally {
    await file.close()
  }
}

function tooLarge(limit: number): ConnectorError {
  const size = limit >= 1024 ** 3 ? `${Math.floor(limit / 1024 ** 3)} GB` : `${Math.floor(limit / 1024)} KB`
  return new ConnectorError(
    'limit',
    `The database file is larger than ${size}, the most that is copied to the worker; split it, or export what you need as Parquet.`,
  )
}

/** A full disk is the operator's concern, and says so. */
export function explainDisk(error: unknown, kind: 'source' | 'destination'): unknown {
  if (error instanceof DiskFull) return new ConnectorError(kind, `${error.message}.`, { cause: error, transient: true })
  if ((error as NodeJS.ErrnoException | null)?.code !== 'ENOSPC') return error
  const message = 'The disk of the worker is full; an operator has to free space.'
  return new ConnectorError(kind, message, { cause: error, transient: true })
}
