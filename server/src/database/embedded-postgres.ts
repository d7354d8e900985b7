/**
 * The default database: a private PostgreSQL from the npm binaries, in the data folder. It only listens on a unix
 * socket and requires a random SCRAM password. It is a child of the process that starts it: in `sluice start` that is
 * the parent, which outlives crashes of the service. The kernel ends it with that process (PDEATHSIG), and one that was
 * left behind anyway is stopped at the next start.
 *
 * It leads its own session. Ctrl+C on a terminal signals the whole process group, and the database must outlive the
 * work that is being finished.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { closeSync, existsSync, openSync, readFileSync, statSync } from 'node:fs'
import { chmod, lstat, mkdir, open, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { ConnectionSettings } from './database.ts'
import {
  chooseLauncher,
  EmbeddedPostgresError,
  environment,
  findBinaries,
  giveFiles,
  type Launcher,
  runApart,
} from './postgres-launcher.ts'
import { HELD_ELSEWHERE, heldElsewhere, holdFolder, stopLeftover } from './postgres-leftover.ts'

const POSTGRES_MAJOR = '18'
/** sun_path holds 108 bytes including the NUL. */
const SOCKET_FOLDER_BYTES = 107 - '/.s.PGSQL.5432'.length
const START_MS = 60_000
const STOP_MS = 5000
/** The line index in postmaster.pid. */
const STATUS_LINE = 7

export interface EmbeddedPostgres {
  connection: ConnectionSettings
  /** Resolves when the server process has exited, with its last output. */
  ended: Promise<string>
  stop(): Promise<void>
}

export async function startEmbeddedPostgres(dataDir: string, password: string): Promise<EmbeddedPostgres> {
  const native = await findBinaries()
  const cluster = path.join(dataDir, 'postgres')
  const launcher = await chooseLauncher()
  const sockets = await makeSocketFolder(dataDir, launcher)
  await refuseOtherMajor(cluster)
  await stopLeftover(cluster)
  if (!existsSync(path.join(cluster, 'PG_VERSION'))) await initialize({ native, cluster, password, launcher, dataDir })
  giveFiles(cluster, launcher)

  const logFile = path.join(dataDir, 'postgres.log')
  const log = openSync(logFile, 'a', 0o600)
  const server = [path.join(native, 'bin/postgres'), '-D', cluster, '-k', sockets, ...SERVER_SETTINGS]
  const stale = readPidFile(cluster)?.written
  const [command, ...args] = [...(await holdFolder(dataDir, cluster, sockets)), ...launcher.command, ...server]
  const child = spawn(command!, args, { stdio: ['ignore', log, log], env: environment(), cwd: '/', detached: true })
  closeSync(log)
  const ended = new Promise<string>((resolve) => {
    child.once('exit', (code) => resolve(code === HELD_ELSEWHERE ? heldElsewhere(dataDir) : lastLines(logFile)))
    child.once('error', (error) => resolve(error.message))
  })
  try {
    await waitUntilReady(cluster, { pid: child.pid, stale, ended })
  } catch (error) {
    child.kill('SIGQUIT')
    await ended
    throw error
  }
  return { connection: embeddedConnection(dataDir, password), ended, stop: () => stopChild(child, ended) }
}

/** How to connect to the server of a data folder, whichever process started it. */
export const embeddedConnection = (dataDir: string, password: string): ConnectionSettings => ({
  host: socketFolder(dataDir),
  user: 'sluice',
  password,
  database: 'postgres',
})

const SERVER_SETTINGS: string[] = Object.entries({
  cluster_name: 'sluice',
  listen_addresses: '',
  unix_socket_permissions: '0700',
  password_encryption: 'scram-sha-256',
  max_connections: '200',
  shared_buffers: '128MB',
  max_wal_size: '1GB',
  jit: 'off',
  log_min_messages: 'warning',
  log_min_error_statement: 'panic',
  log_statement: 'none',
  // A parameter's value may be a secret.
  log_parameter_max_length: '0',
  log_parameter_max_length_on_error: '0',
  autovacuum_naptime: '60s',
  max_parallel_workers_per_gather: '0',
}).flatMap(([name, value]) => ['-c', `${name}=${value}`])

/** In the data folder if its path is short enough for a socket, otherwise in our own folder for temporary files. */
function socketFolder(dataDir: string): string {
  const folder = path.join(dataDir, 'socket')
  if (Buffer.byteLength(folder) <= SOCKET_FOLDER_BYTES) return folder
  const id = createHash('sha256').update(dataDir).digest('hex').slice(0, 16)
  return path.join('/tmp', `sluice-${process.getuid?.() ?? 0}-${id}`)
}

/** No other user can enter it, or put a link or folder in its place. */
async function makeSocketFolder(dataDir: string, launcher: Launcher): Promise<string> {
  const folder = socketFolder(dataDir)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const found = await lstat(folder)
  if (
    found.isSymbolicLink() ||
    !(await chmod(folder, 0o700).then(
      () => true,
      () => false,
    ))
  )
    throw new EmbeddedPostgresError(
      `The folder ${folder} for the database's socket belongs to another user; remove it, or set DATA_DIR to a shorter path.`,
    )
  giveFiles(folder, launcher)
  return folder
}

async function refuseOtherMajor(cluster: string): Promise<void> {
  const version = (await readFile(path.join(cluster, 'PG_VERSION'), 'utf8').catch(() => '')).trim()
  if (version !== '' && version !== POSTGRES_MAJOR)
    throw new EmbeddedPostgresError(
      `The data in ${cluster} was written by PostgreSQL ${version}, and this Sluice includes PostgreSQL ${POSTGRES_MAJOR}. ` +
        `Start the Sluice version that wrote it, or run PostgreSQL ${version} on that folder, dump it with pg_dump and load it into a new database given as DATABASE_URL.`,
    )
}

interface NewCluster {
  /** The folder of the PostgreSQL binaries. */
  native: string
  cluster: string
  password: string
  launcher: Launcher
  dataDir: string
}

async function initialize({ native, cluster, password, launcher, dataDir }: NewCluster): Promise<void> {
  // Built next to its final place and renamed, so that an interrupted start leaves nothing that looks complete.
  const building = `${cluster}.new`
  await rm(building, { recursive: true, force: true })
  await mkdir(building, { mode: 0o700 })
  giveFiles(building, launcher)
  const passwordFile = path.join(dataDir, 'initdb-password')
  await writeFile(passwordFile, password, { mode: 0o600 })
  const [command, ...prefix] = launcher.command
  const args = ['-D', building, '-U', 'sluice', '-A', 'scram-sha-256', `--pwfile=${passwordFile}`]
  const initdb = [...prefix, path.join(native, 'bin/initdb'), ...args, '-E', 'UTF8', '--locale=C', '--no-instructions']
  try {
    const { ok, said } = await runApart(command!, initdb)
    if (!ok) throw new EmbeddedPostgresError(`The database could not be created in ${cluster}: ${said}`)
  } finally {
    await rm(passwordFile, { force: true })
  }
  await rename(building, cluster)
  const folder = await open(dataDir)
  await folder.sync().finally(() => folder.close())
}

/**
 * The server reports its progress in its pid file, which pg_ctl reads too; so this process needs no driver. However
 * long the server replays its WAL, we wait for it; if it does not even get as far as writing that file, we give up.
 */
async function waitUntilReady(
  cluster: string,
  server: { pid: number | undefined; stale: bigint | undefined; ended: Promise<string> },
): Promise<void> {
  let over: string | undefined
  void server.ended.then((said) => {
    over = said
  })
  const deadline = Date.now() + START_MS
  for (;;) {
    const found = readPidFile(cluster)
    // In a restarted container, a leftover pid file may well contain the same pid.
    const ours = found !== null && found.pid === server.pid && found.written !== server.stale
    if (ours && found.status === 'ready') return
    if (over !== undefined)
      throw new EmbeddedPostgresError(`The embedded PostgreSQL exited during startup. Its output:\n${over}`)
    if (!ours && Date.now() > deadline)
      throw new EmbeddedPostgresError(`The embedded PostgreSQL did not begin to start within ${START_MS / 1000} s.`)
    await delay(10)
  }
}

function readPidFile(cluster: string): { pid: number; status: string; written: bigint } | null {
  const file = path.join(cluster, 'postmaster.pid')
  try {
    const { mtimeNs } = statSync(file, { bigint: true })
    const lines = readFileSync(file, 'utf8').split('\n')
    return { pid: Number(lines[0]), status: lines[STATUS_LINE]?.trim() ?? '', written: mtimeNs }
  } catch {
    return null
  }
}

async function stopChild(child: ChildProcess, ended: Promise<string>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  // Fast shutdown: open transactions are rolled back, the WAL is flushed.
  child.kill('SIGINT')
  const late = setTimeout(() => child.kill('SIGQUIT'), STOP_MS)
  await ended
  clearTimeout(late)
}

const lastLines = (file: string): string => {
  try {
    return readFileSync(file, 'utf8').trimEnd().split('\n').slice(-8).join('\n')
  } catch {
    return ''
  }
}
