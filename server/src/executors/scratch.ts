/**
 * A folder for the temporary files of one executor. An executor is ended by force as a matter of course, and then cleans
 * up nothing: what it had of a tenant's file would stay on the disk for ever. So its worker removes the folder with it,
 * and what a worker that was ended by force has left is removed by the next one.
 */
import { mkdtempSync, readdirSync, statSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const PREFIX = 'sluice-executor-'

/** Made with rights for its owner alone. */
export const makeScratch = (): string => mkdtempSync(join(tmpdir(), `${PREFIX}${process.pid}-`))

export const removeScratch = (folder: string): Promise<void> =>
  rm(folder, { recursive: true, force: true, maxRetries: 3 }).catch(() => {
    // Left to the next worker.
  })

export async function sweepScratch(): Promise<void> {
  for (const name of readdirSync(tmpdir())) {
    if (!name.startsWith(PREFIX) || isAlive(Number.parseInt(name.slice(PREFIX.length), 10))) continue
    const folder = join(tmpdir(), name)
    if (isOurs(folder)) await removeScratch(folder)
  }
}

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ESRCH'
  }
}

function isOurs(folder: string): boolean {
  try {
    return statSync(folder).uid === process.getuid?.()
  } catch {
    return false
  }
}
