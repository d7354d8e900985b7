/**
 * Blobs in a local folder. A blob is written under a temporary name, synced, renamed and its folder synced: after a
 * crash it is there whole or not at all. Temporary files live in `.tmp` of the same folder, so that a rename never
 * crosses a file system and `sweep` knows where to look.
 *
 * Only the service writes to the folder, but links are still not followed: a key that leads through one is refused.
 *
 * Blobs are written by executors and commands; a process that serves others only packs logs, now and then. So a writer creates,
 * renames and closes files itself, and leaves writing and syncing to other threads: handing over one of these short steps costs
 * several times as much as doing it, and for a small run all of them together cost more than the run.
 */
import { randomUUID } from 'node:crypto'
import {
  closeSync,
  constants,
  fdatasync,
  fsync,
  mkdirSync,
  openSync,
  realpathSync,
  renameSync,
  rmSync,
  write,
} from 'node:fs'
import { access, type FileHandle, lstat, open, readdir, realpath, rm, rmdir } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { Readable } from 'node:stream'
import { promisify } from 'node:util'
import { checkKey, checkPrefix, InvalidBlobKey } from './blob-keys.ts'
import { type BlobInfo, BlobNotFound, type BlobStore, type BlobWriter } from './blobs.ts'
import { watchSpace } from './disk-space.ts'

const READ_CHUNK_BYTES = 256 * 1024

export function createLocalBlobs(folder: string): BlobStore {
  mkdirSync(join(folder, '.tmp'), { recursive: true, mode: 0o700 })
  const root = realpathSync(folder)
  const temporary = join(root, '.tmp')
  const writer = (key: string) => openWriter(root, temporary, key)

  return {
    writer,

    async put(key, bytes) {
      const blob = await writer(key)
      await blob.write(bytes)
      await blob.finish()
    },

    async read(key, range) {
      const file = await openBlob(root, key)
      if (range && range.end < range.start) {
        await file.close()
        return Readable.from([])
      }
      return file.createReadStream({ highWaterMark: READ_CHUNK_BYTES, ...range })
    },

    async stat(key) {
      checkKey(key)
      try {
        await refuseLinks(root, key)
        const found = await lstat(join(root, key))
        return found.isFile() ? { key, size: found.size, modified: found.mtime } : null
      } catch (error) {
        if (isMissing(error)) return null
        throw error
      }
    },

    async delete(keys) {
      for (const key of keys) {
        checkKey(key)
        try {
          await refuseLinks(root, key)
          await rm(join(root, key))
        } catch (error) {
          if (!isMissing(error)) throw error
        }
      }
      await removeEmptyFolders(root, keys)
    },

    list(prefix) {
      checkPrefix(prefix)
      return walk(root, prefix)
    },

    check: () => access(temporary, constants.W_OK),

    async sweep(olderThanMs) {
      const before = Date.now() - olderThanMs
      for (const name of await readdir(temporary)) {
        const path = join(temporary, name)
        const found = await lstat(path).catch(() => null)
        if (found && found.mtimeMs <= before) await rm(path, { force: true })
      }
    },
  }
}

async function openWriter(root: string, temporary: string, key: string): Promise<BlobWriter> {
  checkKey(key)
  const path = join(root, key)
  const draft = join(temporary, randomUUID())
  const file = openSync(draft, 'wx', 0o600)
  const makeRoom = watchSpace(temporary)
  let size = 0
  let open = true
  let pending: Promise<void> = Promise.resolve()

  const close = (): void => {
    if (open) closeSync(file)
    open = false
  }
  const discard = async (): Promise<void> => {
    await pending.catch(() => undefined)
    close()
    rmSync(draft, { force: true })
  }
  return {
    // One write is always in progress while the caller prepares the next chunk; a failure is reported by the next call.
    async write(chunk) {
      await pending
      makeRoom(chunk.byteLength)
      size += chunk.byteLength
      pending = writeAll(file, chunk)
      pending.catch(() => undefined)
    },
    async finish() {
      try {
        await pending
        await syncData(file)
        close()
        await place(root, draft, path)
        return { size }
      } catch (error) {
        await discard()
        throw error
      }
    },
    abort: discard,
  }
}

const writeSome = promisify(write)
const syncData = promisify(fdatasync)
const syncAll = promisify(fsync)

async function writeAll(file: number, chunk: Uint8Array): Promise<void> {
  let offset = 0
  while (offset < chunk.byteLength) {
    const { bytesWritten } = await writeSome(file, chunk, offset, chunk.byteLength - offset)
    offset += bytesWritten
  }
}

async function openBlob(root: string, key: string): Promise<FileHandle> {
  checkKey(key)
  try {
    await refuseLinks(root, key)
    const file = await open(join(root, key), constants.O_RDONLY | constants.O_NOFOLLOW)
    if ((await file.stat()).isFile()) return file
    await file.close()
  } catch (error) {
    if (!isMissing(error)) throw error
  }
  throw new BlobNotFound(`There is no blob '${key}'.`)
}

/** A folder reached through a link is not where its name says. */
async function refuseLinks(root: string, key: string): Promise<void> {
  const folder = dirname(join(root, key))
  const real = await realpath(folder)
  if (real !== folder) throw new InvalidBlobKey(`The blob key '${key}' leads through a link out of the store.`)
  const found = await lstat(join(root, key))
  if (found.isSymbolicLink()) throw new InvalidBlobKey(`The blob key '${key}' is a link out of the store.`)
}

/**
 * Renames a finished draft to its final name. A `delete` may remove the empty folder in between: then it is created
 * again. New folders are synced too, or a crash could lose the blob with its directory entry; last, because by then the
 * journal of most file systems already has them.
 */
async function place(root: string, draft: string, path: string): Promise<void> {
  const folder = dirname(path)
  for (let tries = 1; ; tries++) {
    const first = mkdirSync(folder, { recursive: true, mode: 0o700 })
    if (realpathSync.native(folder) !== folder) {
      throw new InvalidBlobKey(`The folder '${folder.slice(root.length + 1)}' is a link out of the store.`)
    }
    try {
      renameSync(draft, path)
      await syncFolder(folder)
      for (let made = folder; first !== undefined && made.length >= first.length; made = dirname(made)) {
        await syncFolder(dirname(made))
      }
      return
    } catch (error) {
      if (!isMissing(error) || tries === 5) throw error
    }
  }
}

async function syncFolder(folder: string): Promise<void> {
  const handle = openSync(folder, 'r')
  try {
    await syncAll(handle)
  } finally {
    closeSync(handle)
  }
}

/** Otherwise folders of runs would pile up. rmdir refuses one that was filled again in between. */
async function removeEmptyFolders(root: string, keys: readonly string[]): Promise<void> {
  const folders = new Set(keys.map((key) => dirname(join(root, key))))
  for (let folder of folders) {
    while (folder !== root && folder.startsWith(root + sep)) {
      try {
        await rmdir(folder)
      } catch {
        break
      }
      folder = dirname(folder)
    }
  }
}

async function* walk(root: string, prefix: string): AsyncGenerator<BlobInfo> {
  const start = prefix.includes('/') ? prefix.slice(0, prefix.lastIndexOf('/')) : ''
  const folders = [start]
  while (folders.length > 0) {
    const folder = folders.pop()!
    const entries = await readdir(join(root, folder), { withFileTypes: true }).catch((error) => {
      if (isMissing(error)) return []
      throw error
    })
    for (const entry of entries) {
      const key = folder === '' ? entry.name : `${folder}/${entry.name}`
      if (entry.name.startsWith('.')) continue
      if (entry.isDirectory()) {
        if (key.startsWith(prefix) || `${key}/`.startsWith(prefix) || prefix.startsWith(`${key}/`)) folders.push(key)
      } else if (entry.isFile() && key.startsWith(prefix)) {
        const found = await lstat(join(root, key)).catch(() => null)
        if (found) yield { key, size: found.size, modified: found.mtime }
      }
    }
  }
}

function isMissing(error: unknown): boolean {
  const code = (error as NodeJS.ErrnoException).code
  return code === 'ENOENT' || code === 'ENOTDIR'
}
