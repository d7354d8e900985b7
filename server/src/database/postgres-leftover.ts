/**
 * Ensures one server per data folder. A server that outlived its service is stopped at the next start. A server in
 * another container or on another machine can be neither seen nor stopped from here, so each server holds a file lock
 * as long as any of its processes lives, and a start that does not get the lock fails.
 */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { EmbeddedPostgresError, runApart } from './postgres-launcher.ts'

/** How long an immediate shutdown may take before the processes are killed. */
const PATIENCE_MS = 5000

/** The caller holds the data folder's lock, so the server that is stopped here is not in use. */
export async function stopLeftover(cluster: string): Promise<void> {
  const pidFile = path.join(cluster, 'postmaster.pid')
  const pid = Number(readFileOrEmpty(pidFile).split('\n')[0])
  if (!(pid > 1)) return
  if (isPostmaster(pid, cluster)) signal(pid, 'SIGQUIT')
  await waitUntilGone(() => (isPostmaster(pid, cluster) ? [pid] : []))
  // Its backends hold shared memory until they notice; a new server refuses to start before they are gone.
  await waitUntilGone(() => findBackends(cluster))
}

/** The exit code of a start that did not get the lock. */
export const HELD_ELSEWHERE = 75

export const heldElsewhere = (dataDir: string): string =>
  `Another Sluice, on another machine or in another container, is using the data folder ${dataDir}; stop it first, or set DATA_DIR to another folder.`

/**
 * The prefix of the command that starts the server. The lock passes to the server and its backends with the open file.
 * Holding it proves that the pid files, in the cluster and next to the socket, are stale. PostgreSQL would otherwise
 * refuse to start whenever any process with that pid exists.
 */
export async function holdFolder(dataDir: string, cluster: string, sockets: string): Promise<string[]> {
  const lock = path.join(dataDir, 'postgres.lock')
  const stale = [path.join(cluster, 'postmaster.pid'), path.join(sockets, '.s.PGSQL.5432.lock')]
  const removeStale = ['sh', '-c', 'rm -f "$0" "$1" && shift && exec "$@"', ...stale]
  const hold = ['flock', '--no-fork', '--nonblock', '--conflict-exit-code', String(HELD_ELSEWHERE), lock]
  const { ok: exists } = await runApart('flock', ['--version'])
  return exists ? [...hold, ...removeStale] : removeStale
}

async function waitUntilGone(find: () => number[]): Promise<void> {
  const deadline = Date.now() + PATIENCE_MS
  for (let left = find(); left.length > 0; left = find()) {
    if (Date.now() > deadline) for (const pid of left) signal(pid, 'SIGKILL')
    await delay(10)
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return
    throw new EmbeddedPostgresError(
      `A PostgreSQL that another user started (process ${pid}) still runs on the data folder; stop it, or start Sluice as that user.`,
    )
  }
}

/** A pid may have been reused since: its command line must name our cluster. */
const isPostmaster = (pid: number, cluster: string): boolean =>
  readFileOrEmpty(`/proc/${pid}/cmdline`).split('\0').includes(cluster)

/** Backends have a title instead of a command line, but their working directory is the cluster's folder. */
function findBackends(cluster: string): number[] {
  if (process.platform !== 'linux') return []
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && readFileOrEmpty(`/proc/${name}/cmdline`).startsWith('postgres:'))
    .filter((name) => standsIn(name, cluster))
    .map(Number)
}

function standsIn(pid: string, folder: string): boolean {
  try {
    return readlinkSync(`/proc/${pid}/cwd`) === folder
  } catch {
    return false
  }
}

function readFileOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}
