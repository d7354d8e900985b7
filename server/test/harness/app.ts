/**
 * The application of a test file: real database, real services, injected requests. `startApp` registers its own
 * cleanup, which fails if something was left open.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after } from 'node:test'
import type { InjectOptions, LightMyRequestResponse } from 'fastify'
import { pino } from 'pino'
import { type Config, readConfig } from '../../src/config/config.ts'
import type { ConnectionSettings, Database } from '../../src/database/database.ts'
import { createApp } from '../../src/http/app.ts'
import type { App } from '../../src/http/app-type.ts'
import { composeServices, type Services } from '../../src/services.ts'
import type { Role } from '../../src/tenancy/permissions.ts'
import { cloneDatabase } from './database.ts'

export interface TestApp {
  app: App
  services: Services
  /** For the database of this application. */
  connection: ConnectionSettings
  call(method: string, url: string, options?: CallOptions): Promise<Answer>
}

export interface CallOptions {
  as?: { access_token?: string; key?: string } | null
  body?: unknown
  headers?: Record<string, string>
}

export interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever came back
  body: any
  headers: LightMyRequestResponse['headers']
  text: string
}

export const PASSWORD = 'Correct-horse-1'
export const SECRET = 'a test secret that is long enough for HS256'

/** `connect` puts something between the application and its database. */
export async function startApp(
  env: Record<string, string> = {},
  connect?: (connection: ConnectionSettings) => Promise<Database>,
): Promise<TestApp> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-app-'))
  const config: Config = readConfig({ LOG_LEVEL: 'silent', DATA_DIR: folder, ...env })
  const { db: direct, drop, connection } = await cloneDatabase()
  const closers: (() => Promise<unknown>)[] = [drop]
  const db = connect ? await connect(connection) : direct
  if (connect) closers.push(() => db.close())
  const close = async () => {
    for (const closer of closers.splice(0).reverse()) await closer()
  }
  const keys = { jwt_secret: SECRET, encryption_keys: [SECRET] }
  const services = composeServices({ config, log: pino({ level: config.LOG_LEVEL }), db, keys, closers, close })
  const app = await createApp(services)
  after(async () => {
    await app.close()
    await services.close()
    rmSync(folder, { recursive: true, force: true })
  })

  return {
    app,
    services,
    connection,
    async call(method, url, options = {}) {
      const headers: Record<string, string> = { ...options.headers }
      if (options.as?.access_token) headers.authorization = `Bearer ${options.as.access_token}`
      if (options.as?.key) headers['x-api-key'] = options.as.key
      const request: InjectOptions = { method: method as 'GET', url, headers }
      if (options.body !== undefined) {
        request.payload = typeof options.body === 'string' ? options.body : JSON.stringify(options.body)
        headers['content-type'] ??= 'application/json'
      }
      const answer = await app.inject(request)
      const json = String(answer.headers['content-type'] ?? '').startsWith('application/json')
      return {
        status: answer.statusCode,
        headers: answer.headers,
        text: answer.body,
        body: json && answer.body !== '' ? JSON.parse(answer.body) : null,
      }
    },
  }
}

export interface Person {
  id: string
  email: string
  access_token: string
  refresh_token: string
  organization_id: string
  role: Role
}

let people = 0

/** A new account with its own organization. */
export async function registerPerson(test: TestApp, name = 'Person'): Promise<Person> {
  const email = `${name.toLowerCase().replaceAll(' ', '.')}.${++people}.${process.pid}@example.com`
  const answer = await test.call('POST', '/api/auth/register', {
    body: { email, password: PASSWORD, name, organization_name: `${name} Ltd` },
  })
  if (answer.status !== 201) throw new Error(`register: ${answer.text}`)
  return toPerson(answer.body)
}

const toPerson = (body: {
  user: { id: string; email: string; role: Role }
  organization: { id: string }
  access_token: string
  refresh_token: string
}): Person => ({
  id: body.user.id,
  email: body.user.email,
  role: body.user.role,
  organization_id: body.organization.id,
  access_token: body.access_token,
  refresh_token: body.refresh_token,
})

export interface Organization {
  id: string
  owner: Person
  admin: Person
  member: Person
  viewer: Person
}

/** An organization with a person of each role, invited and accepted through the API. */
export async function registerOrganization(test: TestApp, name = 'Acme'): Promise<Organization> {
  const owner = await registerPerson(test, `${name} Owner`)
  const join = async (role: Role): Promise<Person> => {
    const person = await registerPerson(test, `${name} ${role}`)
    const invited = await test.call('POST', '/api/users/invite', { as: owner, body: { email: person.email, role } })
    if (invited.status !== 201) throw new Error(`invite: ${invited.text}`)
    const token = new URL(invited.body.invite_url).searchParams.get('token')
    const accepted = await test.call('POST', '/api/users/invitations/accept', { as: person, body: { token } })
    if (accepted.status !== 200) throw new Error(`accept: ${accepted.text}`)
    return toPerson(accepted.body)
  }
  const [admin, member, viewer] = [await join('admin'), await join('member'), await join('viewer')]
  return { id: owner.organization_id, owner, admin, member, viewer }
}
