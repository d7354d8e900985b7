/**
 * A throw-away ClickHouse on 127.0.0.1: chdb, the engine as a Python library, behind a small HTTP front (chdb_front.py). It is
 * found as CHDB_PYTHON, the path of a Python that can import chdb, or as the machine's python3. The first caller of a test
 * process starts it, and `stopChdbServer` (or the end of the process) ends it.
 */
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'

export interface ChdbServer {
  host: string
  port: number
  user: string
  password: string
  /** A user who may read, but not write; and one for whom the tables that begin with `secret` do not exist to be read. */
  reader: { user: string; password: string }
  limited: { user: string; password: string }
  /** A new empty database; returns its name. */
  createDatabase(): Promise<string>
  /** One statement. Returns the lines of its result. */
  sql(text: string, settings?: Record<string, string>): Promise<string[]>
  /** Ends it with SIGKILL, as a loss of power would. `restart` brings it back at the same address. */
  kill(): Promise<void>
  restart(): Promise<void>
  stop(): Promise<void>
}

const python = process.env.CHDB_PYTHON ?? 'python3'
const front = path.join(import.meta.dirname, 'chdb_front.py')

let absence: Promise<string | null> | null = null

/** Why there is none on this machine, or null. */
export function findAbsence(): Promise<string | null> {
  absence ??= new Promise((resolve) => {
    const missing = 'chdb is not installed (pip install chdb, and CHDB_PYTHON for a Python in a virtual environment)'
    execFile(python, ['-c', 'import importlib.util as u, sys; sys.exit(u.find_spec("chdb") is None)'], (error) =>
      resolve(error === null ? null : missing),
    )
  })
  return absence
}

let starting: Promise<ChdbServer> | null = null
let users = 0

export function startChdbServer(): Promise<ChdbServer> {
  users += 1
  starting ??= startServer()
  return starting
}

/** The last of those that started it stops it. */
export async function stopChdbServer(): Promise<void> {
  users -= 1
  if (users > 0) return
  const server = starting
  starting = null
  await (await server)?.stop()
}

/** A server of the caller's own. */
export async function startServer(): Promise<ChdbServer> {
  const folder = await mkdtemp(path.join(tmpdir(), 'sluice-test-chdb-'))
  const [password, readerPassword, limitedPassword] = [1, 2, 3].map(() => randomBytes(12).toString('hex'))
  const accounts = {
    tester: { password },
    reader: { password: readerPassword, readonly: true },
    limited: { password: limitedPassword, denied: ['secret'] },
  }
  const launch = (port: number): ChildProcess =>
    spawn(python, [front, folder, JSON.stringify(accounts), String(port)], { stdio: ['ignore', 'pipe', 'pipe'] })
  let child = launch(0)
  const clear = (): void => {
    child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
  process.once('exit', clear)
  const port = await waitForPort(child)
  const authorization = `Basic ${Buffer.from(`tester:${password}`).toString('base64')}`
  const sql: ChdbServer['sql'] = async (text, settings = {}) => {
    const query = new URLSearchParams({ wait_end_of_query: '1', ...settings })
    const answer = await fetch(`http://127.0.0.1:${port}/?${query}`, {
      method: 'POST',
      body: text,
      headers: { authorization, connection: 'close' },
    })
    const said = await answer.text()
    if (!answer.ok) throw new Error(said)
    return said.split('\n').slice(0, -1)
  }
  let databases = 0
  return {
    host: '127.0.0.1',
    port,
    user: 'tester',
    password: password!,
    reader: { user: 'reader', password: readerPassword! },
    limited: { user: 'limited', password: limitedPassword! },
    sql,
    kill: () => end(child, 'SIGKILL'),
    async restart() {
      child = launch(port)
      await waitForPort(child)
    },
    async createDatabase() {
      databases += 1
      await sql(`CREATE DATABASE test_${databases}`)
      return `test_${databases}`
    },
    async stop() {
      process.off('exit', clear)
      await end(child, 'SIGKILL')
      await rm(folder, { recursive: true, force: true })
    },
  }
}

function waitForPort(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    let said = ''
    child.stderr!.on('data', (chunk: Buffer) => {
      if (said.length < 65536) said += chunk.toString()
    })
    createInterface(child.stdout!).once('line', (line) => resolve(Number(line)))
    child.once('exit', () => reject(new Error(`chdb ended at its start:\n${said}`)))
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
