/**
 * A throw-away MariaDB on 127.0.0.1, from the machine's own package. The first caller of a test process starts it, and
 * `stopMariadbServer` (or the end of the process) ends it. Statements for arranging and asserting go through its own
 * client, so that what we wrote is read by somebody else.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, rmSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { tmpdir, userInfo } from 'node:os'
import path from 'node:path'

export interface MariadbServer {
  host: string
  port: number
  user: string
  password: string
  /** A new empty database; returns its name. */
  createDatabase(): Promise<string>
  /** Statements as the administrator. Returns the lines of the results, tab-separated and without names. */
  sql(text: string, database?: string): Promise<string[]>
  /** Ends it with SIGKILL, as a loss of power would. `restart` brings it back at the same address. */
  kill(): Promise<void>
  restart(): Promise<void>
  stop(): Promise<void>
}

const daemon = ['/usr/sbin/mariadbd', '/usr/bin/mariadbd', '/usr/libexec/mariadbd'].find((file) => existsSync(file))

/** Why there is none on this machine, or null. */
export function findAbsence(): string | null {
  if (daemon !== undefined && existsSync('/usr/bin/mariadb-install-db') && existsSync('/usr/bin/mariadb')) return null
  return 'mariadbd is not installed (Debian: apt install mariadb-server)'
}

let starting: Promise<MariadbServer> | null = null
let users = 0

export function startMariadbServer(): Promise<MariadbServer> {
  users += 1
  starting ??= startServer({})
  return starting
}

/** The last of those that started it stops it. */
export async function stopMariadbServer(): Promise<void> {
  users -= 1
  if (users > 0) return
  const server = starting
  starting = null
  await (await server)?.stop()
}

/** A server of the caller's own, with settings such as `{ local_infile: 'OFF' }` and files to put beside its data. */
export async function startServer(
  settings: Record<string, string>,
  files: Record<string, string> = {},
): Promise<MariadbServer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-test-mariadb-'))
  const data = path.join(folder, 'data')
  const socket = path.join(folder, 'socket')
  const { username } = userInfo()
  await call('mariadb-install-db', [
    '--no-defaults',
    `--datadir=${data}`,
    `--user=${username}`,
    '--auth-root-authentication-method=normal',
    '--skip-test-db',
    '--skip-name-resolve',
  ])
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(data, name), text, { mode: 0o600 })
  // A server that starts deletes the temporary files of all others that share its folder for them.
  await mkdir(path.join(folder, 'tmp'))
  const port = await findFreePort()
  const all = {
    datadir: data,
    tmpdir: path.join(folder, 'tmp'),
    user: username,
    port: String(port),
    bind_address: '127.0.0.1',
    socket,
    pid_file: path.join(folder, 'pid'),
    skip_log_bin: '1',
    skip_name_resolve: '1',
    innodb_flush_log_at_trx_commit: '0',
    // Durability is off: only our own crashes are tested.
    innodb_flush_method: 'nosync',
    innodb_doublewrite: '0',
    sync_frm: '0',
    innodb_buffer_pool_size: '128M',
    ...settings,
  }
  const options = Object.entries(all).map(
    ([name, value]) => `--${name.replaceAll('_', '-')}=${value.replace('{data}', data)}`,
  )
  const launch = () => spawn(daemon!, ['--no-defaults', ...options], { stdio: ['ignore', 'ignore', 'pipe'] })
  let child = launch()
  const clear = () => {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', clear)
  await waitForReadiness(child)
  const password = randomBytes(12).toString('hex')
  let databases = 0
  const sql: MariadbServer['sql'] = async (text, database) => {
    const target = database === undefined ? [] : [database]
    const args = [
      '--no-defaults',
      `--socket=${socket}`,
      '--user=root',
      '--batch',
      '--skip-column-names',
      '--default-character-set=utf8mb4',
      ...target,
    ]
    const answer = await call('mariadb', args, text)
    return answer.split('\n').slice(0, -1)
  }
  await sql(`CREATE USER tester@'%' IDENTIFIED BY '${password}'; GRANT ALL ON *.* TO tester@'%'`)
  return {
    host: '127.0.0.1',
    port,
    user: 'tester',
    password,
    sql,
    kill: () => end(child, 'SIGKILL'),
    async restart() {
      child = launch()
      await waitForReadiness(child)
    },
    async createDatabase() {
      databases += 1
      await sql(`CREATE DATABASE test_${databases} CHARACTER SET utf8mb4`)
      return `test_${databases}`
    },
    async stop() {
      process.off('exit', clear)
      await end(child, 'SIGTERM')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function call(command: string, args: string[], input = ''): Promise<string> {
  return new Promise((resolve, reject) => {
    const child = execFile(command, args, { maxBuffer: 512 * 1024 * 1024 }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout)
      else reject(new Error(`${command}: ${stderr || stdout || error.message}`))
    })
    child.stdin!.on('error', () => {})
    child.stdin!.end(input)
  })
}

function findFreePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number }
      server.close(() => resolve(port))
    })
  })
}

function waitForReadiness(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let said = ''
    child.stderr!.on('data', (chunk: Buffer) => {
      if (said.length < 65536) said += chunk.toString()
      if (said.includes('ready for connections')) resolve()
    })
    child.once('exit', () => reject(new Error(`MariaDB ended at its start:\n${said}`)))
  })
}

function end(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve()
    child.removeAllListeners('exit')
    child.once('exit', () => resolve())
    child.kill(signal)
  })
}
