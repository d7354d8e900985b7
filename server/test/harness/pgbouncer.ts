/** A PgBouncer in front of a test server, where the machine has one. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort, type PostgresServer } from './postgres-server.ts'

export interface PgBouncer {
  port: number
  close(): Promise<void>
}

/** Where it is not installed: why, in one sentence. */
export function findPgBouncer(): { command: string } | { missing: string } {
  for (const command of ['pgbouncer', '/usr/sbin/pgbouncer']) {
    try {
      execFileSync(command, ['--version'], { stdio: 'ignore' })
      return { command }
    } catch {
      // Not here.
    }
  }
  return { missing: 'pgbouncer is not installed (apt-get install pgbouncer)' }
}

/** `poolSize` connections to the server serve all clients together. */
export async function startPgBouncer(
  command: string,
  server: Pick<PostgresServer, 'host' | 'port' | 'user' | 'password'>,
  poolSize: number,
  mode: 'transaction' | 'session' | 'statement' = 'transaction',
): Promise<PgBouncer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-test-pgbouncer-'))
  const port = await findFreePort()
  await writeFile(path.join(folder, 'users.txt'), `"${server.user}" "${server.password}"\n`)
  await writeFile(
    path.join(folder, 'pgbouncer.ini'),
    `[databases]
* = host=${server.host} port=${server.port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = scram-sha-256
auth_file = ${folder}/users.txt
pool_mode = ${mode}
default_pool_size = ${poolSize}
`,
  )
  // Like PostgreSQL it refuses to be root.
  const prefix = process.getuid?.() === 0 ? ['unshare', '--user', '--map-user=1000', '--map-group=1000'] : ['env']
  const child = spawn(prefix[0]!, [...prefix.slice(1), command, path.join(folder, 'pgbouncer.ini')], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString()
  })
  const ended = once(child, 'exit')
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  await Promise.race([
    untilReachable(port),
    ended.then(() => {
      throw new Error(`pgbouncer ended at its start:\n${said}`)
    }),
  ])
  return {
    port,
    async close() {
      process.off('exit', kill)
      child.kill('SIGTERM')
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function untilReachable(port: number): Promise<void> {
  for (;;) {
    const socket = createConnection(port, '127.0.0.1')
    const connected = await once(socket, 'connect').then(Boolean, () => false)
    socket.destroy()
    if (connected) return
    await delay(20)
  }
}
