/**
 * Guards disk space. Tenant data can be arbitrarily large, and a full disk stops the database and everything that
 * depends on it. So writing tenant data is stopped first.
 */
import { statfsSync } from 'node:fs'

export const KEPT_FREE_BYTES = 256 * 1024 * 1024
const LOOK_EVERY_BYTES = 32 * 1024 * 1024

export class DiskFull extends Error {}

/** Called with what is about to be written; checks the disk at the first call and then periodically. */
export function watchSpace(folder: string, keep = KEPT_FREE_BYTES): (bytes: number) => void {
  let unseen = LOOK_EVERY_BYTES
  return (bytes) => {
    unseen += bytes
    if (unseen < LOOK_EVERY_BYTES) return
    unseen = 0
    const free = findFreeBytes(folder)
    if (free < keep) throw new DiskFull(explainLowSpace(free))
  }
}

export function explainLowSpace(free: number): string {
  return `The disk has only ${Math.round(free / 1024 / 1024)} MB left, which the service reserves for itself; an operator has to free space`
}

/** Infinity for a file system that does not report it. */
export function findFreeBytes(folder: string): number {
  try {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize
  } catch {
    return Number.POSITIVE_INFINITY
  }
}
