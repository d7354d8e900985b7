/**
 * Ends what fills the disk of the scratch folders. Most writers look at the free space themselves (blobs/disk-space.ts).
 * A database engine that sorts a tenant's file does not: it spills into files, SQLite into ones that no folder lists, and
 * blocks its process meanwhile. So whoever watches an executor also looks at the disk, and ends an executor that holds
 * such files before the reserve of the service is reached.
 */
import { readdirSync, readlinkSync, realpathSync, statSync } from 'node:fs'
import { sep } from 'node:path'
import { explainLowSpace, findFreeBytes, KEPT_FREE_BYTES } from '../blobs/disk-space.ts'

/** A fast disk takes hundreds of megabytes between two looks. */
const GUARDED_BYTES = 2 * KEPT_FREE_BYTES
/** Ending an executor that holds less would free nothing. */
const SMALL_BYTES = 16 * 1024 * 1024
const BLOCK_BYTES = 512

/** Why the process has to end; null if it may go on. */
export function findSpaceFault(pid: number, scratch: string, keep = GUARDED_BYTES): string | null {
  const free = findFreeBytes(scratch)
  return free < keep && countOpenBytes(pid, scratch) > SMALL_BYTES ? explainLowSpace(free) : null
}

/** The size of all files in the folder that the process has open, also of those that are already deleted. */
function countOpenBytes(pid: number, folder: string): number {
  try {
    const inside = realpathSync(folder) + sep
    const open = `/proc/${pid}/fd`
    const files = new Map<number, number>()
    for (const name of readdirSync(open)) {
      try {
        if (!readlinkSync(`${open}/${name}`).startsWith(inside)) continue
        const { ino, blocks } = statSync(`${open}/${name}`)
        files.set(ino, blocks * BLOCK_BYTES)
      } catch {
        // Closed in the meantime.
      }
    }
    return [...files.values()].reduce((sum, bytes) => sum + bytes, 0)
  } catch {
    // It has exited, or this is not Linux.
    return 0
  }
}
