/** A service with an organization in it that has something to show on every page of the console. */
import { existsSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fillOrganization, type Ids, PASSWORD } from './console-content.ts'
import { cloneDatabase } from './database.ts'
import { startPostgresServer, stopPostgresServer } from './postgres-server.ts'
import { databaseSettings, makeDataDir, root, startService } from './service.ts'

export const skipUnbuilt = existsSync(path.join(root, 'web/dist')) ? false : 'the console is not built'

export type Role = 'owner' | 'viewer'

export interface ShownConsole {
  url: string
  /** Every page by name: its path, and what its address is for. */
  pages: Record<string, string>
  /** What a browser stores of a person who is signed in. */
  storageOf(role: Role): Promise<{ cookies: []; origins: { origin: string; localStorage: StoredItem[] }[] }>
  close(): Promise<void>
}

interface StoredItem {
  name: string
  value: string
}

export interface Tokens {
  access_token: string
  refresh_token: string
}

export async function startConsole(): Promise<ShownConsole> {
  const folder = makeDataDir()
  const shop = await startPostgresServer()
  const database = await cloneDatabase(2)
  const settings = { ...databaseSettings(database.connection), EGRESS_ALLOW: `${shop.host}:${shop.port}` }
  const service = await startService(folder, settings)
  const { url } = service
  const call = createCall(url)
  const close = async () => {
    service.child.kill('SIGTERM')
    await service.ended
    await database.drop()
    await stopPostgresServer()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    const owner = await call<Tokens>('POST', '/auth/register', {
      body: { email: 'ada@example.com', password: PASSWORD, name: 'Ada Lovelace', organization_name: 'Acme Analytics' },
    })
    const ids = await fillOrganization(call, owner, database.db, shop)
    const login = (email: string) => call<Tokens>('POST', '/auth/login', { body: { email, password: PASSWORD } })
    return {
      url,
      pages: pagesOf(ids),
      async storageOf(role) {
        const tokens = await login(role === 'owner' ? 'ada@example.com' : 'vera@example.com')
        const value = JSON.stringify({ ...tokens, expires_at: Date.now() + 600_000 })
        return { cookies: [], origins: [{ origin: url, localStorage: [{ name: 'sluice.session', value }] }] }
      },
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

export type Call = <T>(method: string, path: string, options?: { body?: unknown; as?: Tokens }) => Promise<T>

function createCall(url: string): Call {
  return async (method, address, { body, as } = {}) => {
    const response = await fetch(`${url}/api${address}`, {
      method,
      headers: {
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...(as && { authorization: `Bearer ${as.access_token}` }),
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    if (!response.ok) throw new Error(`${method} ${address}: ${response.status} ${text}`)
    return text === '' ? null : JSON.parse(text)
  }
}

function pagesOf(ids: Ids): Record<string, string> {
  const pipeline = `/pipelines/${ids.pipeline}`
  const run = `/runs/${ids.succeeded}`
  return {
    home: '/',
    pipelines: '/pipelines',
    pipeline,
    'pipeline charts': `${pipeline}/charts`,
    'pipeline schema': `${pipeline}/schema`,
    'pipeline state': `${pipeline}/state`,
    'pipeline settings': `${pipeline}/settings`,
    'pipeline audit': `${pipeline}/audit`,
    'new pipeline': '/pipelines/new',
    'edit pipeline': `${pipeline}/edit`,
    runs: '/runs',
    'run log': run,
    'run that failed': `/runs/${ids.failed}`,
    'run that is running': `/runs/${ids.running}`,
    'run quarantine': `/runs/${ids.refused}?tab=quarantine`,
    'run output': `${run}?tab=output`,
    'run schema changes': `${run}?tab=schema`,
    'run configuration': `${run}?tab=config`,
    connections: '/connections',
    'new connection': '/connections/new?kind=source&connector=postgres',
    connection: `/connections/source/${ids.connection}`,
    sources: '/sources',
    'new source': '/sources/new',
    source: `/sources/${ids.source}`,
    'source versions': `/sources/${ids.source}?tab=versions`,
    manifest: `/sources/manifests/${ids.manifest}`,
    people: '/people',
    member: `/people/${ids.member}`,
    invitations: '/people/invitations',
    organization: '/settings/organization',
    domains: '/settings/domains',
    'api keys': '/settings/api-keys',
    alerts: '/settings/alerts',
    alert: `/settings/alerts/${ids.alert}`,
    webhooks: '/settings/webhooks',
    webhook: `/settings/webhooks/${ids.webhook}`,
    audit: '/settings/audit',
    profile: '/settings/profile',
    password: '/settings/password',
    sessions: '/settings/sessions',
    appearance: '/settings/appearance',
    invitation: `/accept-invitation?token=${ids.invitation}`,
    nowhere: '/no-such-page',
  }
}
