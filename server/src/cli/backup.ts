/** `sluice backup DEST` and `sluice restore SRC`. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { takeBackup } from '../backup/backup.ts'
import { restoreBackup } from '../backup/restore.ts'
import type { BlobStore } from '../blobs/blobs.ts'
import { openBlobs } from '../blobs/open.ts'
import { RUN_PATIENCE_MS } from '../blobs/s3.ts'
import { type Config, readConfig } from '../config/config.ts'
import { listApplied } from '../database/migrate.ts'
import { createSecretBox } from '../database/secret-box.ts'
import { OperatorError } from '../errors.ts'
import { requireInstallation, withDatabase } from './open-database.ts'

const say = (line: string): void => console.log(line)

/** `s3://bucket/prefix`, with the keys and the endpoint of the settings, or a folder. */
async function openPlace(config: Config, place: string, mustExist: boolean): Promise<BlobStore> {
  const remote = place.startsWith('s3:')
  if (!remote && mustExist && !existsSync(place)) throw new OperatorError(`There is no folder ${place}.`)
  if (remote && config.S3_CREDENTIALS !== 'ambient' && !(config.S3_ACCESS_KEY_ID && config.S3_SECRET_ACCESS_KEY))
    throw new OperatorError(
      `${place} needs S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY, or S3_CREDENTIALS=ambient; set them.`,
    )
  const store = openBlobs({ ...config, BLOB_URL: remote ? place : `file:${path.resolve(place)}` }, RUN_PATIENCE_MS)
  await store.check().catch((error: Error) => {
    if (error instanceof OperatorError) error.message = error.message.replaceAll('BLOB_URL', place)
    throw error
  })
  return store
}

const FILE_PROBLEMS: Record<string, string> = {
  ENOSPC: 'its disk is full; free some space and run the command again, which continues where it stopped',
  EDQUOT: 'its quota is used up; free some space and run the command again, which continues where it stopped',
  EACCES: 'this user may not read or write there',
  EROFS: 'its file system is read-only',
  ENOTDIR: 'part of its path is a file',
}

/** A problem of the folder is the operator's to solve, and needs no stack. */
const explainFiles = (place: string) => (error: NodeJS.ErrnoException) => {
  const problem = FILE_PROBLEMS[error.code ?? '']
  throw problem === undefined ? error : new OperatorError(`${place} cannot be used: ${problem} (${error.code}).`)
}

export async function backUp(destination: string): Promise<number> {
  const config = readConfig()
  requireInstallation(config, 'of the installation to back up')
  return withDatabase(async ({ db, connection }) => {
    if ((await listApplied(db)) === null)
      throw new OperatorError(
        'The database has no tables, so there is nothing to back up; check DATABASE_URL or DATA_DIR.',
      )
    const store = await openPlace(config, destination, false).catch(explainFiles(destination))
    const manifest = await takeBackup({
      connection,
      blobs: openBlobs(config, RUN_PATIENCE_MS),
      store,
      name: destination,
      say,
    }).catch(explainFiles(destination))
    const { gone } = manifest.blobs
    for (const key of gone) say(`deleted before it was copied: ${key}`)
    const rows = manifest.tables.reduce((sum, table) => sum + table.rows, 0)
    say(
      `${destination} is complete: ${rows} rows, ${manifest.blobs.count} blobs${gone.length > 0 ? `; ${gone.length} blobs were deleted meanwhile` : ''}.`,
    )
    if (manifest.key_ids.length > 0)
      say(
        `Credentials in it are encrypted with the ${manifest.key_ids.length === 1 ? 'key' : 'keys'} ${manifest.key_ids.join(', ')} of ENCRYPTION_KEY, which ${manifest.key_ids.length === 1 ? 'is' : 'are'} not in the backup; keep ${manifest.key_ids.length === 1 ? 'it' : 'them'} somewhere else.`,
      )
    return 0
  }, config)
}

export async function restore(source: string, options: Record<string, string>): Promise<number> {
  const config = readConfig()
  const store = await openPlace(config, source, true)
  return withDatabase(async ({ db, connection, keys }) => {
    const { rows, unfinished, installation } = await restoreBackup({
      db,
      connection,
      blobs: openBlobs(config, RUN_PATIENCE_MS),
      store,
      name: source,
      keyIds: keys.encryption_keys.map((key) => createSecretBox([key]).currentKeyId.toString('hex')),
      withoutKeys: options['--without-keys'] !== undefined,
      say,
    })
    say(`${rows} rows are restored, and run numbers start above everything that was assigned since the backup.`)
    say(
      `${unfinished === 1 ? '1 unfinished run starts' : `${unfinished} unfinished runs start`} another attempt. This installation is now ${installation}.`,
    )
    return 0
  }, config)
}
