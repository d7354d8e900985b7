/** The real service as a separate process, in a temporary data folder. */
import { mkdtempSync } from 'node:fs'
import { request } from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { ConnectionSettings } from '../../src/database/database.ts'
import { findChildren, type Started, startProgram } from './processes.ts'

export const root = path.resolve(import.meta.dirname, '../../..')
export const MAIN = path.join(root, 'server/src/main.js')

export const makeDataDir = (): string => mkdtempSync(path.join(tmpdir(), 'sluice-service-'))

/** What every command needs, and nothing of the tests' own environment. */
export const environment = (dataDir: string, env: Record<string, string> = {}): Record<string, string> => ({
  PATH: process.env.PATH ?? '',
  HOME: process.env.HOME ?? '/',
  DATA_DIR: dataDir,
  PORT: '0',
  ...env,
})

/** The settings for an external database. */
export const databaseSettings = ({ host, user, password, database }: ConnectionSettings): Record<string, string> => ({
  DATABASE_URL: `postgres://${user}:${password}@localhost/${database}?host=${encodeURIComponent(host!)}`,
  JWT_SECRET_KEY: 'x'.repeat(32),
  ENCRYPTION_KEY: 'x'.repeat(32),
})

export const runSluice = (args: string[], env: Record<string, string>, input?: string): Started =>
  startProgram(process.execPath, [MAIN, ...args], { cwd: root, env }, input)

export interface Service extends Started {
  url: string
}

/** Resolves when it reports that it is ready. */
export async function startService(dataDir: string, env: Record<string, string> = {}): Promise<Service> {
  return whenReady(runSluice(['start'], environment(dataDir, env)))
}

export async function whenReady(started: Started): Promise<Service> {
  const [, url] = await started.said(/Sluice is ready at (\S+)/)
  return { ...started, url: url! }
}

/** The process that runs all roles, and the embedded database. */
export const findService = (parent: number): number => findChildren(parent, 'cli/service-process.ts')[0]!
export const findPostgres = (parent: number): number => findChildren(parent, 'bin/postgres')[0]!

export const ACCOUNT = JSON.stringify({
  email: 'first@example.com',
  password: 'Correct-horse-1',
  name: 'First',
  organization_name: 'First',
})

/** A request whose body is sent halfway; the other half is sent on demand. */
export function beginRegistration(url: string) {
  const sent = request(`${url}/api/auth/register`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'content-length': String(ACCOUNT.length) },
  })
  const answered = new Promise<number>((resolve, reject) => {
    sent.on('response', (response) => response.resume().on('end', () => resolve(response.statusCode ?? 0)))
    sent.on('error', reject)
  })
  const begun = new Promise<void>((resolve) => sent.write(ACCOUNT.slice(0, 10), () => resolve()))
  return { begun, answered, finish: () => sent.end(ACCOUNT.slice(10)) }
}

export async function askStatus(url: string, headers: Record<string, string> = {}): Promise<number> {
  const response = await fetch(url, { headers })
  await response.arrayBuffer()
  return response.status
}
