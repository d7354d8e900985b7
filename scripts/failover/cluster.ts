/**
 * A primary and a synchronous replica from a PostgreSQL that is installed on this machine (the npm package lacks
 * pg_basebackup). As root the primary gets a network namespace, so that it can be cut off without a word: its packets are
 * dropped, and it goes on believing in itself. Otherwise it is frozen (SIGSTOP), which looks the same from outside.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { findFreePort } from '../../server/test/harness/postgres-server.ts'

interface ServerAddress {
  host: string
  port: number
}

export interface Cluster {
  primary: ServerAddress
  replica: ServerAddress
  password: string
  version: string
  /** How the primary is cut off here. */
  cutting: string
  ask<Row extends pg.QueryResultRow>(server: ServerAddress, text: string): Promise<Row[]>
  kill(): void
  cut(): void
  promote(): Promise<void>
  stop(): Promise<void>
}

const isRoot = process.getuid?.() === 0
const asUser = isRoot ? ['unshare', '--user', '--map-user=1000', '--map-group=1000'] : ['env']
const quiet = { stdio: 'ignore' as const }

export function findBinaries(): string | null {
  const root = '/usr/lib/postgresql'
  const versions = existsSync(root) ? readdirSync(root).sort((a, b) => Number(b) - Number(a)) : []
  const folders = [
    ...versions.map((version) => path.join(root, version, 'bin')),
    ...(process.env.PATH ?? '').split(':'),
  ]
  return (
    folders.find((folder) => ['postgres', 'pg_basebackup'].every((name) => existsSync(path.join(folder, name)))) ?? null
  )
}

/** A namespace with an address that packets can be kept from; null where that is not allowed. */
function makeNamespace(): { name: string; host: string; enter: string[]; drop(): void; remove(): void } | null {
  if (!isRoot) return null
  const name = `sluice-${process.pid}`
  const net = `10.231.${process.pid % 250}`
  const inside = ['ip', 'netns', 'exec', name]
  const run = (line: string) => execFileSync(line.split(' ')[0]!, line.split(' ').slice(1), quiet)
  const remove = () => {
    try {
      run(`ip netns del ${name}`)
    } catch {
      // It was never made.
    }
  }
  try {
    run(`ip netns add ${name}`)
    run(`ip link add veth${process.pid} type veth peer name inside netns ${name}`)
    run(`ip addr add ${net}.1/30 dev veth${process.pid}`)
    run(`ip link set veth${process.pid} up`)
    for (const command of [
      `ip addr add ${net}.2/30 dev inside`,
      'ip link set inside up',
      'ip link set lo up',
      'iptables -L',
    ])
      run(`${inside.join(' ')} ${command}`)
  } catch {
    remove()
    return null
  }
  const drop = () => {
    for (const chain of ['INPUT', 'OUTPUT']) run(`${inside.join(' ')} iptables -I ${chain} -j DROP`)
  }
  return { name, host: `${net}.2`, enter: inside, drop, remove }
}

export async function startCluster(folder: string): Promise<Cluster> {
  const bin = findBinaries()!
  const namespace = makeNamespace()
  const host = namespace?.host ?? '127.0.0.1'
  const password = randomBytes(12).toString('hex')
  const data = { primary: path.join(folder, 'primary'), replica: path.join(folder, 'replica') }
  mkdirSync(folder, { recursive: true })
  writeFileSync(path.join(folder, 'password'), password)
  const env = { PATH: process.env.PATH ?? '', LC_ALL: 'C', PGPASSWORD: password }
  const run = (name: string, args: string[]) =>
    execFileSync(asUser[0]!, [...asUser.slice(1), path.join(bin, name), ...args], {
      env,
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  run('initdb', [
    '-D',
    data.primary,
    '-U',
    'sluice',
    '-A',
    'scram-sha-256',
    `--pwfile=${folder}/password`,
    '-E',
    'UTF8',
    '--locale=C',
  ])
  writeFileSync(path.join(data.primary, 'pg_hba.conf'), 'host all,replication all 0.0.0.0/0 scram-sha-256\n')
  const servers = new Set<ChildProcess>()
  const serve = (which: keyof typeof data, address: ServerAddress, enter: string[] = []) => {
    const settings = {
      listen_addresses: address.host,
      port: address.port,
      unix_socket_directories: '',
      max_connections: 200,
      wal_level: 'replica',
      synchronous_standby_names: which === 'primary' ? '*' : '',
    }
    const options = Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`])
    const [command, ...args] = [...enter, ...asUser, path.join(bin, 'postgres'), '-D', data[which], ...options]
    // Its own group, so that all of its processes can be killed or frozen together.
    const child = spawn(command!, args, { env, stdio: 'ignore', detached: true })
    servers.add(child)
    return child
  }
  const primary = { host, port: await findFreePort() }
  const replica = { host: '127.0.0.1', port: await findFreePort() }
  const ask = async <Row extends pg.QueryResultRow>(server: ServerAddress, text: string): Promise<Row[]> => {
    const client = new pg.Client({
      ...server,
      user: 'sluice',
      password,
      database: 'postgres',
      connectionTimeoutMillis: 3000,
    })
    client.on('error', () => {})
    await client.connect()
    try {
      return (await client.query<Row>(text)).rows
    } finally {
      await client.end()
    }
  }
  const until = async (check: () => Promise<boolean>) => {
    for (const deadline = Date.now() + 60_000; !(await check().catch(() => false)); await delay(100))
      if (Date.now() > deadline) throw new Error('the cluster did not start')
  }
  const old = serve('primary', primary, namespace?.enter)
  await until(async () => (await ask(primary, 'SELECT 1')).length === 1)
  run('pg_basebackup', [
    '-h',
    primary.host,
    '-p',
    String(primary.port),
    '-U',
    'sluice',
    '-D',
    data.replica,
    '-R',
    '-X',
    'stream',
    '-c',
    'fast',
  ])
  serve('replica', replica)
  await until(
    async () =>
      (await ask<{ sync_state: string }>(primary, 'SELECT sync_state FROM pg_stat_replication'))[0]?.sync_state ===
      'sync',
  )
  const [{ version }] = (await ask<{ version: string }>(
    replica,
    "SELECT current_setting('server_version') AS version",
  )) as [{ version: string }]
  return {
    primary,
    replica,
    password,
    version,
    cutting: namespace ? 'packets dropped in its network namespace' : 'frozen with SIGSTOP',
    ask,
    kill: () => void process.kill(-old.pid!, 'SIGKILL'),
    cut: () => (namespace ? namespace.drop() : void process.kill(-old.pid!, 'SIGSTOP')),
    promote: async () => void (await ask(replica, 'SELECT pg_promote(false)')),
    async stop() {
      for (const child of servers) {
        if (child.exitCode !== null || child.signalCode !== null) continue
        const ended = new Promise((resolve) => child.once('exit', resolve))
        process.kill(-child.pid!, 'SIGKILL')
        await ended
      }
      namespace?.remove()
    },
  }
}

export const describeMachine = (): string => `${cpus().length} cores, ${cpus()[0]?.model.trim() ?? 'unknown'}`
