/** The servers of the cluster: PostgreSQL and S3, each on a machine of its own, to be killed and started again. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdirSync, openSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { findBinaries } from '../../server/src/database/postgres-launcher.ts'
import { startS3Server } from '../../server/test/harness/s3-server.ts'
import { findVersityGateway } from '../../server/test/harness/versitygw.ts'
import { DRIVER, type Machine } from './network.ts'

/** PostgreSQL refuses to run as root. */
const AS_USER = ['unshare', '--user', '--map-user=1000', '--map-group=1000']
const START_MS = 180_000

export interface Server {
  machine: Machine
  start(): Promise<void>
  /** Everything of it, at once. */
  kill(): Promise<void>
}

export interface Postgres extends Server {
  url: string
  pool: pg.Pool
  /** An orderly, fast shutdown. */
  stop(): Promise<void>
}

export async function makePostgres(machine: Machine, folder: string): Promise<Postgres> {
  const native = await findBinaries()
  const password = randomBytes(12).toString('hex')
  const cluster = path.join(folder, machine.name)
  const passwordFile = path.join(folder, `${machine.name}.password`)
  writeFileSync(passwordFile, password, { mode: 0o600 })
  const env = { PATH: process.env.PATH ?? '', LC_ALL: 'C', TZ: 'UTC' }
  const [command, ...prefix] = AS_USER
  const access = ['-U', 'sluice', '-A', 'scram-sha-256', `--pwfile=${passwordFile}`, '-E', 'UTF8', '--locale=C']
  execFileSync(command!, [...prefix, path.join(native, 'bin/initdb'), '-D', cluster, ...access], {
    env,
    stdio: 'ignore',
  })
  writeFileSync(path.join(cluster, 'pg_hba.conf'), 'host all all 0.0.0.0/0 scram-sha-256\n')
  const settings = {
    listen_addresses: machine.address,
    unix_socket_directories: '',
    max_connections: '150',
    shared_buffers: '64MB',
  }
  const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const url = `postgres://sluice:${password}@${machine.address}:5432/postgres`
  const pool = new pg.Pool({ connectionString: url, max: 6, connectionTimeoutMillis: 3000, query_timeout: 60_000 })
  pool.on('error', () => {})
  const server = await serve(
    machine,
    folder,
    [...AS_USER, path.join(native, 'bin/postgres'), '-D', cluster, ...options],
    {
      env,
      isUp: () => pool.query('SELECT 1').then(() => true),
    },
  )
  return { ...server, url, pool, stop: () => server.end('SIGINT') }
}

export interface ObjectStore {
  /** Settings of the platform. */
  env: Record<string, string>
  what: string
  /** Null where it cannot be killed without losing what it holds. */
  server: Server | null
}

export async function makeObjectStore(machine: Machine, folder: string): Promise<ObjectStore> {
  const found = findVersityGateway()
  if ('missing' in found) {
    const { endpoint, accessKeyId, secretAccessKey, region, bucket } = await startS3Server(DRIVER)
    const env = settingsOf({ endpoint, accessKeyId, secretAccessKey, region, bucket })
    return { env, what: `the tests' own S3 server, never killed: ${found.missing}`, server: null }
  }
  const data = path.join(folder, machine.name, 'data')
  const meta = path.join(folder, machine.name, 'meta')
  mkdirSync(path.join(data, 'sluice'), { recursive: true })
  mkdirSync(meta)
  const keys = { accessKeyId: 'AKIDCLUSTER', secretAccessKey: randomBytes(12).toString('hex') }
  const env = {
    PATH: process.env.PATH ?? '',
    ROOT_ACCESS_KEY: keys.accessKeyId,
    ROOT_SECRET_KEY: keys.secretAccessKey,
  }
  const listen = ['--quiet', '--port', `${machine.address}:9000`]
  const server = await serve(machine, folder, [found.command, ...listen, 'posix', '--sidecar', meta, data], {
    env,
    isUp: () => answers(machine.address, 9000),
  })
  const endpoint = `http://${machine.address}:9000`
  return { env: settingsOf({ ...keys, endpoint, region: 'us-east-1', bucket: 'sluice' }), what: 'versitygw', server }
}

const settingsOf = (s3: Record<'endpoint' | 'accessKeyId' | 'secretAccessKey' | 'region' | 'bucket', string>) => ({
  BLOB_URL: `s3://${s3.bucket}/blobs`,
  S3_ENDPOINT: s3.endpoint,
  S3_REGION: s3.region,
  S3_ACCESS_KEY_ID: s3.accessKeyId,
  S3_SECRET_ACCESS_KEY: s3.secretAccessKey,
})

async function serve(
  machine: Machine,
  folder: string,
  command: string[],
  { env, isUp }: { env: Record<string, string>; isUp: () => Promise<boolean> },
): Promise<Server & { end(signal: NodeJS.Signals): Promise<void> }> {
  const log = openSync(path.join(folder, `${machine.name}.log`), 'a')
  let child: ChildProcess
  const launch = () => {
    const [first, ...rest] = [...machine.enter, ...command]
    // Its own group, so that its processes can be killed together.
    child = spawn(first!, rest, { env, stdio: ['ignore', log, log], detached: true })
  }
  const start = async () => {
    launch()
    for (const deadline = Date.now() + START_MS; !(await isUp().catch(() => false)); await delay(100)) {
      if (Date.now() > deadline) throw new Error(`${machine.name} did not start within ${START_MS / 1000} s`)
      // PostgreSQL refuses to start until the last process of a killed one has noticed.
      if (child.exitCode !== null) launch()
    }
  }
  const end = async (signal: NodeJS.Signals) => {
    const ended = once(child, 'exit')
    process.kill(signal === 'SIGKILL' ? -child.pid! : child.pid!, signal)
    await ended
  }
  await start()
  return { machine, start, end, kill: () => end('SIGKILL') }
}

function answers(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 2000 })
    const say = (up: boolean) => {
      socket.destroy()
      resolve(up)
    }
    socket.once('connect', () => say(true))
    socket.once('error', () => say(false))
    socket.once('timeout', () => say(false))
  })
}
