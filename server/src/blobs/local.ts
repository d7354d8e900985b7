/**
 * Blobs in a local folder. A blob is written under a temporary name, synced, renamed and its folder synced: after a
 * crash it is there whole or not at all. Temporary files live in `.tmp` of the same folder, so that a rename never
 * crosses a file system and `sweep` knows where to look.
 *
 * Only the service writes to the folder, but links are still not followed: a key that leads through one is refused.
 */
import { randomUUID } from 'node:crypto'
import { constants, mkdirSync, realpathSync } from 'node:fs'
import { access, type FileHandle, lstat, mkdir, open, readdir, realpath, rename, rm, rmdir } from 'node:fs/promises'
import { dirname, join, sep } from 'node:path'
import { Readable } from 'node:stream'
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
  const file = await open(draft, 'wx', 0o600)
  const makeRoom = watchSpace(temporary)
  let size = 0
  let pending: Promise<void> = Promise.resolve()

  const discard = async (): Promise<void> => {
    await pending.catch(() => undefined)
    await file.close().catch(() => undefined)
    await rm(draft, { force: true })
  }
  return {
    // One write is always in progress while the caller prepares the next chunk; a failure is reported by the next call.
    async write(chunk) {
      await pending
      await makeRoom(chunk.byteLength)
      size += chunk.byteLength
      pending = writeAll(file, chunk)
      pending.catch(() => undefined)
    },
    async finish() {
      try {
        await pending
        await file.datasync()
        await file.close()
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

async function writeAll(file: FileHandle, chunk: Uint8Array): Promise<void> {
  let offset = 0
  while (offset < chunk.byteLength) {
    const { bytesWritten } = await file.write(chunk, offset, chunk.byteLength - offset)
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
    const first = await mkdir(folder, { recursive: true, mode: 0o700 })
    if ((await realpath(folder)) !== folder) {
      throw new InvalidBlobKey(`The folder '${folder.slice(root.length + 1)}' is a link out of the store.`)
    }
    try {
      await rename(draft, path)
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
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
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
