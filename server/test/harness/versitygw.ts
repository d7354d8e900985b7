/** A real S3 server, Versity's gateway over a folder, where the machine has one. */
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { createConnection } from 'node:net'
import { homedir, tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from './postgres-server.ts'

export interface RealS3 {
  endpoint: string
  region: string
  bucket: string
  accessKeyId: string
  secretAccessKey: string
  close(): Promise<void>
}

/** Where it is not installed: why, in one sentence. */
export function findVersityGateway(): { command: string } | { missing: string } {
  for (const command of ['versitygw', path.join(homedir(), 'go', 'bin', 'versitygw')]) {
    try {
      execFileSync(command, ['--version'], { stdio: 'ignore' })
      return { command }
    } catch {
      // Not here.
    }
  }
  return {
    missing: 'versitygw is not installed (go install github.com/versity/versitygw/cmd/versitygw@latest)',
  }
}

export async function startVersityGateway(command: string): Promise<RealS3> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-test-versitygw-'))
  const port = await findFreePort()
  const keys = { accessKeyId: 'AKIDREAL', secretAccessKey: 'real-secret-7d0c' }
  await mkdir(path.join(folder, 'data', 'sluice-test'), { recursive: true })
  await mkdir(path.join(folder, 'meta'))
  const child = spawn(
    command,
    // Metadata beside the data: a temporary folder need not have extended attributes.
    [
      '--quiet',
      '--port',
      `127.0.0.1:${port}`,
      'posix',
      '--sidecar',
      path.join(folder, 'meta'),
      path.join(folder, 'data'),
    ],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { PATH: process.env.PATH, ROOT_ACCESS_KEY: keys.accessKeyId, ROOT_SECRET_KEY: keys.secretAccessKey },
    },
  )
  let said = ''
  child.stderr.on('data', (chunk: Buffer) => {
    said += chunk.toString()
  })
  const ended = once(child, 'exit')
  const kill = (): void => void child.kill('SIGKILL')
  process.once('exit', kill)
  await Promise.race([
    listens(port),
    ended.then(() => {
      throw new Error(`versitygw did not start: ${said}`)
    }),
  ])
  return {
    endpoint: `http://127.0.0.1:${port}`,
    region: 'us-east-1',
    bucket: 'sluice-test',
    ...keys,
    async close() {
      process.removeListener('exit', kill)
      kill()
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}

async function listens(port: number): Promise<void> {
  for (;;) {
    const socket = createConnection(port, '127.0.0.1')
    const up = await once(socket, 'connect').then(
      () => true,
      () => false,
    )
    socket.destroy()
    if (up) return
    await delay(50)
  }
}
