/** The real platform, started with `npm start`, with a connection to its database. */
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import type { ConnectionSettings } from '../../server/src/database/database.ts'
import { embeddedConnection } from '../../server/src/database/embedded-postgres.ts'

export interface Api {
  register(): Promise<string>
  login(email: string): Promise<string>
  // biome-ignore lint/suspicious/noExplicitAny: a bench reads whatever came back
  read(token: string, url: string): Promise<any>
  // biome-ignore lint/suspicious/noExplicitAny: a bench reads whatever came back
  create(token: string, url: string, body?: unknown): Promise<any>
  untilFinished(token: string, runId: string): Promise<string>
  copyMany(token: string, pipelineId: string, count: number): Promise<void>
}

export interface Platform {
  /** The parent of all its processes. */
  pid: number
  /** The process that answers requests. */
  service_pid: number
  url: string
  api: Api
  connection: ConnectionSettings
  db: { query<Row>(text: string, values: unknown[]): Promise<Row[]> }
  /** Waits until the sandbox self-test has passed: then the process for the first call is running. */
  sandboxed(): Promise<void>
  stop(): Promise<void>
}

const PASSWORD = 'Choose-1-password'
const METRICS_TOKEN = 'a token of the bench'
export const MAIN = new URL('../../server/src/main.js', import.meta.url).pathname

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

export async function startPlatform(folder: string, env: Record<string, string> = {}): Promise<Platform> {
  const port = await freePort()
  const child = spawn(process.execPath, [MAIN, 'start'], {
    env: { PATH: process.env.PATH!, DATA_DIR: folder, PORT: String(port), LOG_LEVEL: 'warn', METRICS_TOKEN, ...env },
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const url = `http://127.0.0.1:${port}`
  for (;;) {
    if (child.exitCode !== null) throw new Error('the platform exited during startup')
    const ready = await fetch(`${url}/readyz`).then(
      (answer) => answer.ok,
      () => false,
    )
    if (ready) break
    await delay(20)
  }
  const { database_password } = JSON.parse(readFileSync(path.join(folder, 'secrets.json'), 'utf8')) as {
    database_password: string
  }
  const connection = embeddedConnection(folder, database_password)
  const pool = new pg.Pool({ ...connection, max: 4 })
  pool.on('error', () => {})
  return {
    pid: child.pid!,
    service_pid: findService(child.pid!),
    url,
    connection,
    api: connectApi(url),
    db: { query: async <Row>(text: string, values: unknown[]) => (await pool.query(text, values)).rows as Row[] },
    async sandboxed() {
      const headers = { authorization: `Bearer ${METRICS_TOKEN}` }
      for (;;) {
        const state = (await (await fetch(`${url}/readyz`, { headers })).json()) as { sandbox: string }
        if (state.sandbox === 'ok') return
        await delay(20)
      }
    },
    async stop() {
      await pool.end()
      child.kill('SIGTERM')
      if (child.exitCode === null) await new Promise((resolve) => child.once('exit', resolve))
    },
  }
}

function findService(parent: number): number {
  const children = readFileSync(`/proc/${parent}/task/${parent}/children`, 'utf8').trim().split(' ')
  const found = children.find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('cli/service-process.ts'))
  if (found === undefined) throw new Error('the platform has no service process')
  return Number(found)
}

function connectApi(url: string): Api {
  let people = 0
  const send = async (method: string, target: string, token: string | null, body?: unknown) => {
    const headers: Record<string, string> = {}
    if (token) headers.authorization = `Bearer ${token}`
    if (body !== undefined) headers['content-type'] = 'application/json'
    const answer = await fetch(url + target, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok) throw new Error(`${method} ${target}: ${answer.status} ${text}`)
    return JSON.parse(text)
  }
  return {
    async register() {
      const email = `bench.${process.pid}.${++people}@example.com`
      const answer = await send('POST', '/api/auth/register', null, {
        email,
        password: PASSWORD,
        name: 'Bench',
        organization_name: 'Bench',
      })
      return answer.access_token as string
    },
    async login(email) {
      return (await send('POST', '/api/auth/login', null, { email, password: PASSWORD })).access_token as string
    },
    read: (token, target) => send('GET', target, token),
    create: (token, target, body) => send('POST', target, token, body),
    async untilFinished(token, runId) {
      for (;;) {
        const run = await send('GET', `/api/pipelines/runs/${runId}`, token)
        if (run.finished_at !== null) {
          if (run.status !== 'success') throw new Error(`run ${runId}: ${run.status} ${run.error}`)
          return run.status as string
        }
        await delay(10)
      }
    },
    async copyMany(token, pipelineId, count) {
      for (let made = 0; made < count; made += 20)
        await Promise.all(
          Array.from({ length: 20 }, (_, index) =>
            send('POST', `/api/pipelines/${pipelineId}/copy`, token, { name: `scheduled ${made + index}` }),
          ),
        )
    },
  }
}
