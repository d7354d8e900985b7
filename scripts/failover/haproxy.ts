/** HAProxy before the two servers. It asks a small HTTP server which one is the primary, as it would ask Patroni. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { findFreePort } from '../../server/test/harness/postgres-server.ts'
import type { Cluster } from './cluster.ts'

export interface Balancer {
  port: number
  /** From now on the replica is named as the primary. */
  follow(): void
  stop(): Promise<void>
}

export function hasHaproxy(): boolean {
  try {
    execFileSync('haproxy', ['-v'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

export async function startHaproxy(folder: string, { primary, replica }: Cluster): Promise<Balancer> {
  let current = '/primary'
  const health = createServer((request, response) => {
    response.statusCode = request.url === current ? 200 : 503
    response.end()
  })
  await new Promise<void>((resolve) => health.listen(0, '127.0.0.1', resolve))
  const ask = (health.address() as AddressInfo).port
  const port = await findFreePort()
  const file = path.join(folder, 'haproxy.cfg')
  const backend = (name: string, server: Cluster['primary']) => `
  server ${name} ${server.host}:${server.port} check addr 127.0.0.1 port ${ask} on-marked-down shutdown-sessions`
  const section = (name: string, server: Cluster['primary']) => `
backend ${name}
  option httpchk GET /${name}${backend(name, server)}
`
  writeFileSync(
    file,
    `defaults
  mode tcp
  timeout connect 3s
  timeout client 2h
  timeout server 2h
  timeout check 1s
  default-server inter 1s fall 2 rise 1
frontend database
  bind 127.0.0.1:${port}
  use_backend primary if { nbsrv(primary) ge 1 }
  default_backend replica
${section('primary', primary)}${section('replica', replica)}`,
  )
  const child: ChildProcess = spawn('haproxy', ['-db', '-f', file], { stdio: 'ignore' })
  return {
    port,
    follow() {
      current = '/replica'
    },
    async stop() {
      const ended = new Promise((resolve) => child.once('exit', resolve))
      child.kill('SIGKILL')
      await ended
      health.close()
    },
  }
}
