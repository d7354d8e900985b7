/**
 * A folder for the temporary files of one executor. An executor is usually killed, and then cleans up nothing: what it
 * had of a tenant's file would stay on disk forever. So the process that launched it removes the folder, and leftovers
 * of a launching process that was killed are removed by the next one.
 */
import { mkdtempSync } from 'node:fs'
import { readdir, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PREFIX = 'sluice-executor-'

/** Readable only by its owner. Throws if the disk is full. */
export const makeScratch = (): string => mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`))

export const removeScratch = async (folder: string | null): Promise<void> => {
  if (folder === null) return
  await rm(folder, { recursive: true, force: true, maxRetries: 3 }).catch(() => {
    // Left to the next sweep.
  })
}

export async function sweepScratch(): Promise<void> {
  // A folder that cannot be listed is no reason to fail: its files are found at the next start.
  for (const name of await readdir(tmpdir()).catch(() => [])) {
    if (!name.startsWith(PREFIX) || isAlive(Number.parseInt(name.slice(PREFIX.length), 10))) continue
    const folder = join(tmpdir(), name)
    if (await isOurs(folder)) await removeScratch(folder)
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

async function isOurs(folder: string): Promise<boolean> {
  try {
    return (await stat(folder)).uid === process.getuid?.()
  } catch {
    return false
  }
}
