/**
 * Who gets which status, for every route there is. Written by hand from the rules, never computed by the code under test.
 *
 * To add a route, add one line: its method and path as registered, the statuses in the order of the heading, how API keys
 * fare, and, where the request needs them, its ids and body. Things that a request changes or removes are made fresh for
 * every cell (see world.ts). `stranger` is the owner of another organization: with an id of ours in the path it is 404.
 * `raised` and `steward` are viewers with the role of member and of admin in the domain `world.domain_id`.
 */
import { randomUUID } from 'node:crypto'
import { PASSWORD } from '../harness/app.ts'
import {
  freshAlert,
  freshCustomSource,
  freshDelivery,
  freshManifest,
  freshOutput,
  freshPipeline,
  freshQuarantine,
  freshRun,
  freshSaved,
  freshWebhook,
  manifestText,
  newAlert,
  newWebhook,
  pipelineConfig,
  sourceCode,
} from './things.ts'
import { CALLERS, type Caller, type World } from './world.ts'

export interface Prepared {
  /** Values of the `:names` in the path. */
  params?: Record<string, string>
  query?: string
  body?: unknown
  /** Instead of the caller's usual credentials. */
  as?: ReturnType<World['as']>
}

export interface Line {
  route: string
  expected: Record<Caller, number>
  prepare: (world: World, caller: Caller) => Prepared | Promise<Prepared>
}

type Statuses = [
  owner: number,
  admin: number,
  member: number,
  viewer: number,
  raised: number,
  steward: number,
  nobody: number,
  stranger: number,
]
/** Keys of owner, admin, member and viewer: as their role, or all the same. */
type Keys = 'as role' | number
/** Keys with limits, made by the owner: pipelines:read alone; everything in the shared domain; everything in another one. */
type LimitedKeys = [reader: number, domain: number, elsewhere: number]

function line(
  route: string,
  statuses: Statuses,
  keys: Keys,
  prepare: Line['prepare'] = () => ({}),
  limitedKeys: LimitedKeys = limitedKeysOf(route, statuses),
): Line {
  const ofKeys = keys === 'as role' ? statuses.slice(0, 4) : [keys, keys, keys, keys]
  const all = [...statuses, ...ofKeys, ...limitedKeys]
  return { route, prepare, expected: Object.fromEntries(CALLERS.map((caller, index) => [caller, all[index]])) as never }
}

/**
 * The rule, for every line that does not say otherwise: a key with limits gets what the owner gets where its permission
 * and its domain reach, 404 for a pipeline or run of another domain, and 403 for everything else.
 */
function limitedKeysOf(route: string, [owner, , , , , , nobody]: Statuses): LimitedKeys {
  if (nobody !== 401) return [owner, owner, owner]
  if (!/^\w+ \/api\/(pipelines|runs)\b/.test(route)) return [403, 403, 403]
  const reads = /^GET |\/(schedule-preview|ticket|query)$/.test(route)
  return [reads ? owner : 403, owner, /:(id|run_id)/.test(route) ? 404 : owner]
}

const email = () => `${randomUUID()}@example.com`
const member = async (world: World) => ({ params: { user_id: await world.freshMember() } })
const pipeline = async (world: World) => ({ params: { id: await freshPipeline(world) } })
const run = async (world: World) => ({ params: { run_id: await freshRun(world) } })
const output = async (world: World) => ({ params: { run_id: await freshOutput(world) } })
const source = async (world: World) => ({ params: { id: await freshSaved(world, 'sources') } })
const destination = async (world: World) => ({ params: { id: await freshSaved(world, 'destinations') } })
const customSource = async (world: World) => ({ params: { id: await freshCustomSource(world) } })
const manifest = async (world: World) => ({ params: { id: await freshManifest(world) } })
const alert = async (world: World) => ({ params: { id: await freshAlert(world) } })
const webhook = async (world: World) => ({ params: { id: await freshWebhook(world) } })
const delivery = async (world: World) => ({ params: await freshDelivery(world) })
const domain = async (world: World) => ({ params: { domain_id: await world.freshDomain() } })

/** For requests that only read: made for the first of them. */
function shared<T extends Prepared>(make: (world: World) => Promise<T>): (world: World) => Promise<T> {
  const made = new WeakMap<World, Promise<T>>()
  return (world) => {
    const known = made.get(world) ?? make(world)
    made.set(world, known)
    return known
  }
}

const onePipeline = shared(pipeline)
const oneRun = shared(run)
const oneOutput = shared(output)
const oneQuarantine = shared(async (world: World) => ({ params: { run_id: await freshQuarantine(world) } }))
const oneForeignOutput = shared(async (world) => ({ params: { run_id: await freshOutput(world, 'application/zip') } }))
const oneSource = shared(source)
const oneDestination = shared(destination)
const oneCustomSource = shared(customSource)
const oneManifest = shared(manifest)
const oneMember = shared(member)
const oneDomain = shared(domain)

// biome-ignore format: one line per route, in columns
export const matrix: Line[] = [
  //                                                   owner admin member viewer raised steward nobody stranger  keys
  line('GET /api/openapi.json',                        [200, 200,  200,   200,   200,   200,    200,   200], 200),

  line('POST /api/auth/register',                      [201, 201,  201,   201,   201,   201,    201,   201], 201, () => ({ body: { email: email(), password: PASSWORD, name: 'New', organization_name: 'New' } })),
  line('POST /api/auth/login',                         [200, 200,  200,   200,   200,   200,    200,   200], 200, (w) => ({ body: { email: w.people.owner.email, password: PASSWORD } })),
  line('POST /api/auth/refresh',                       [200, 200,  200,   200,   200,   200,    200,   200], 200, (w) => ({ body: { refresh_token: w.people.owner.refresh_token } })),
  line('GET /api/auth/me',                             [200, 200,  200,   200,   200,   200,    401,   200], 200, undefined, [200, 200, 200]),
  line('PUT /api/auth/me',                             [200, 200,  200,   200,   200,   200,    401,   200], 403, () => ({ body: { name: 'Renamed' } })),
  line('GET /api/auth/sessions',                       [200, 200,  200,   200,   200,   200,    401,   200], 403),
  // of their own; those of somebody else, also in the same organization, are 404
  line('DELETE /api/auth/sessions/:id',                [204, 404,  404,   404,   404,   404,    401,   404], 403, async (w) => ({ params: { id: await w.freshSessionId('owner') } })),
  // raised and steward were made without a password, so no password is their current one
  line('PUT /api/auth/password',                       [200, 200,  200,   200,   400,   400,    401,   200], 403, () => ({ body: { current_password: PASSWORD, new_password: PASSWORD } })),
  line('POST /api/auth/logout',                        [200, 200,  200,   200,   200,   200,    401,   200], 403, async (w, caller) => ({ as: await w.freshSession(caller) })),
  line('GET /api/auth/organizations',                  [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('POST /api/auth/switch',                        [200, 200,  200,   200,   200,   200,    401,   404], 403, (w) => ({ body: { organization_id: w.organization_id } })),
  // no identity provider is configured here: 400 is what a caller gets who is let in
  line('GET /api/auth/idp',                            [400, 400,  400,   400,   400,   400,    400,   400], 400),
  line('GET /api/auth/idp/callback',                   [400, 400,  400,   400,   400,   400,    400,   400], 400),
  line('GET /api/auth/link/idp',                       [400, 400,  400,   400,   400,   400,    401,   400], 403),
  line('DELETE /api/auth/unlink/idp',                  [400, 400,  400,   400,   400,   400,    401,   400], 403),

  line('GET /api/organization',                        [200, 200,  200,   200,   200,   200,    401,   200], 200, undefined, [200, 200, 200]),
  line('PUT /api/organization',                        [200, 200,  403,   403,   403,   403,    401,   200], 'as role', () => ({ body: { name: 'Renamed' } })),
  // to the owner itself: 400 is what the owner gets who is let in; a key never is
  line('POST /api/organization/transfer-ownership',    [400, 403,  403,   403,   403,   403,    401,   404], 403, (w) => ({ body: { user_id: w.people.owner.id } })),

  line('GET /api/users',                               [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('GET /api/users/:user_id',                      [200, 200,  200,   200,   200,   200,    401,   404], 200, oneMember),
  line('PUT /api/users/:user_id/role',                 [200, 200,  403,   403,   403,   403,    401,   404], 'as role', async (w) => ({ ...(await member(w)), body: { role: 'member' } })),
  line('DELETE /api/users/:user_id',                   [204, 204,  403,   403,   403,   403,    401,   404], 'as role', member),
  line('POST /api/users/invite',                       [201, 201,  403,   403,   403,   403,    401,   201], 'as role', () => ({ body: { email: email(), role: 'admin' } })),
  line('GET /api/users/invitations',                   [200, 200,  403,   403,   403,   403,    401,   200], 'as role'),
  line('GET /api/users/invitations/preview',           [200, 200,  200,   200,   200,   200,    200,   200], 200, async (w) => ({ query: `token=${await w.freshToken()}` })),
  line('POST /api/users/invitations/accept',           [200, 200,  200,   200,   200,   200,    401,   200], 200, async (w) => ({ body: { token: await w.freshToken() } })),
  line('DELETE /api/users/invitations/:invitation_id', [204, 204,  403,   403,   403,   403,    401,   404], 'as role', async (w) => ({ params: { invitation_id: await w.freshInvitation() } })),

  line('GET /api/users/:user_id/domain-roles',         [200, 200,  200,   200,   200,   200,    401,   404], 200, oneMember),
  line('POST /api/users/:user_id/domain-roles',        [201, 201,  403,   403,   403,   403,    401,   404], 'as role', async (w) => ({ ...(await member(w)), body: { domain_id: w.domain_id, role: 'member' } })),
  line('DELETE /api/users/:user_id/domain-roles/:domain_id', [204, 204, 403, 403, 403,  403,    401,   404], 'as role', (w) => w.freshDomainRole()),

  line('GET /api/domains',                             [200, 200,  200,   200,   200,   200,    401,   200], 200, undefined, [403, 200, 200]),
  line('POST /api/domains',                            [201, 201,  403,   403,   403,   403,    401,   201], 'as role', () => ({ body: { name: randomUUID() } }), [403, 403, 403]),
  line('GET /api/domains/:domain_id',                  [200, 200,  200,   200,   200,   200,    401,   404], 200, oneDomain, [403, 404, 404]),
  line('PUT /api/domains/:domain_id',                  [200, 200,  403,   403,   403,   200,    401,   404], 'as role', (w) => ({ params: { domain_id: w.domain_id }, body: { color: '#00ff00' } }), [403, 200, 403]),
  line('DELETE /api/domains/:domain_id',               [204, 204,  403,   403,   403,   403,    401,   404], 'as role', domain),

  line('GET /api/api-keys',                            [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('POST /api/api-keys',                           [201, 201,  201,   403,   403,   403,    401,   201], 'as role', () => ({ body: { name: 'new', expires_in_days: 30 } })),
  // of their own; a member does not revoke another's
  line('DELETE /api/api-keys/:key_id',                 [204, 204,  204,   403,   403,   403,    401,   404], 'as role', async (w, caller) => ({ params: { key_id: await w.freshKey(caller) } })),

  line('GET /api/audit',                               [200, 200,  403,   403,   403,   403,    401,   200], 'as role'),

  line('GET /api/pipelines',                          [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('POST /api/pipelines',                         [201, 201,  201,   403,   201,   201,    401,   404], 'as role', (w) => ({ body: { name: 'new', config: pipelineConfig, domain_id: w.domain_id } }), [403, 201, 403]),
  line('POST /api/pipelines/preview',                 [200, 200,  200,   403,   200,   200,    401,   200], 'as role', () => ({ body: { config: pipelineConfig, max_records: 1 } }), [403, 200, 200]),
  // the permission is that of each pipeline, and part of the answer
  // the domain is none that a stranger, or a key elsewhere, can see
  line('POST /api/changes',                           [200, 200,  200,   403,   200,   200,    401,   400], 'as role', () => ({ body: { objects: { pipelines: [{ name: randomUUID(), domain: 'Shared', config: pipelineConfig }] } } }), [400, 200, 400]),
  // 404 is what a caller gets who is let in: the domain does not exist
  line('GET /api/changes/export',                     [404, 404,  404,   404,   404,   404,    401,   404], 404, () => ({ query: 'domain=none' }), [404, 404, 404]),
  line('POST /api/pipelines/actions',                 [200, 200,  200,   200,   200,   200,    401,   200], 200, async (w) => ({ body: { action: 'disable', ids: [(await onePipeline(w)).params.id] } }), [200, 200, 200]),
  line('POST /api/pipelines/bulk',                    [201, 201,  201,   403,   201,   201,    401,   404], 'as role', (w) => ({ body: { config: { ...pipelineConfig, source: { name: 'dummy' } }, streams: ['creatures'], domain_id: w.domain_id } }), [403, 201, 403]),
  line('POST /api/pipelines/schedule-preview',        [200, 200,  200,   200,   200,   200,    401,   200], 200, () => ({ body: { schedule: '0 * * * *' } })),
  line('GET /api/pipelines/:id',                      [200, 200,  200,   200,   200,   200,    401,   404], 200, onePipeline),
  line('PUT /api/pipelines/:id',                      [200, 200,  200,   403,   200,   200,    401,   404], 'as role', async (w) => ({ ...(await pipeline(w)), body: { name: 'changed' } })),
  line('DELETE /api/pipelines/:id',                   [204, 204,  204,   403,   204,   204,    401,   404], 'as role', pipeline),
  line('POST /api/pipelines/:id/copy',                [201, 201,  201,   403,   201,   201,    401,   404], 'as role', async (w) => ({ ...(await pipeline(w)), body: {} })),
  line('POST /api/pipelines/:id/duplicate',           [201, 201,  201,   403,   201,   201,    401,   404], 'as role', async (w) => ({ ...(await pipeline(w)), body: {} })),
  line('GET /api/pipelines/:id/state',                [200, 200,  200,   200,   200,   200,    401,   404], 200, onePipeline),
  line('PUT /api/pipelines/:id/state',                [200, 200,  200,   403,   200,   200,    401,   404], 'as role', async (w) => ({ ...(await pipeline(w)), body: { cursor: { position: 1 } } })),
  line('DELETE /api/pipelines/:id/state',             [204, 204,  204,   403,   204,   204,    401,   404], 'as role', pipeline),
  line('GET /api/pipelines/:id/schema',               [200, 200,  200,   200,   200,   200,    401,   404], 200, onePipeline),

  line('POST /api/pipelines/:id/run',                 [201, 201,  201,   403,   201,   201,    401,   404], 'as role', pipeline),
  // the pipeline is a full refresh: 400 is what a caller gets who is let in
  line('POST /api/pipelines/:id/backfill',            [400, 400,  400,   403,   400,   400,    401,   404], 'as role', async (w) => ({ ...(await onePipeline(w)), body: { from: 1, to: 2 } })),
  line('GET /api/pipelines/:id/runs',                 [200, 200,  200,   200,   200,   200,    401,   404], 200, onePipeline),
  line('GET /api/pipelines/:id/stats',                [200, 200,  200,   200,   200,   200,    401,   404], 200, onePipeline),
  line('GET /api/pipelines/activity',                 [200, 200,  200,   200,   200,   200,    401,   200], 200, async (w) => ({ query: `ids=${(await onePipeline(w)).params.id}` })),
  line('GET /api/runs/events',                        [200, 200,  200,   200,   200,   200,    401,   200], 200, () => ({ query: 'seconds=1' })),
  line('GET /api/runs',                               [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('GET /api/runs/timeline',                      [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('GET /api/runs/days',                          [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('GET /api/pipelines/runs/:run_id',             [200, 200,  200,   200,   200,   200,    401,   404], 200, oneRun),
  line('GET /api/pipelines/runs/:run_id/config',      [200, 200,  200,   200,   200,   200,    401,   404], 200, oneRun),
  line('GET /api/pipelines/runs/:run_id/logs',        [200, 200,  200,   200,   200,   200,    401,   404], 200, oneRun),
  line('GET /api/pipelines/runs/:run_id/logs/stream', [200, 200,  200,   200,   200,   200,    401,   404], 200, oneOutput),
  line('POST /api/pipelines/runs/:run_id/cancel',     [200, 200,  200,   403,   200,   200,    401,   404], 'as role', run),
  line('POST /api/pipelines/runs/:run_id/output/ticket', [201, 201,  201,   201,   201,   201,    401,   404], 201, oneOutput),
  line('GET /api/pipelines/runs/:run_id/quarantine',  [200, 200,  200,   200,   200,   200,    401,   404], 200, oneQuarantine),
  line('POST /api/pipelines/runs/:run_id/replay',     [201, 201,  201,   403,   201,   201,    401,   404], 'as role', oneOutput),
  line('POST /api/pipelines/runs/:run_id/quarantine/resend', [201, 201, 201, 403,  201,   201,    401,   404], 'as role', oneQuarantine),
  line('GET /api/pipelines/runs/:run_id/output',      [200, 200,  200,   200,   200,   200,    401,   404], 200, oneOutput),
  // not a type that can be queried: 400 is what a caller gets who is let in, without a process for each of them
  line('POST /api/pipelines/runs/:run_id/query',      [400, 400,  400,   400,   400,   400,    401,   404], 400, async (w) => ({ ...(await oneForeignOutput(w)), body: { sql: 'SELECT 1' } })),
  line('GET /api/pipelines/runs/:run_id/output/sample', [400, 400,  400,   400,   400,   400,    401,   404], 400, oneForeignOutput),
  line('GET /api/pipelines/runs/:run_id/download',    [200, 200,  200,   200,   200,   200,    401,   404], 200, oneOutput),

  line('GET /api/version',                            [200, 200,  200,   200,   200,   200,    401,   200], 200, undefined, [200, 200, 200]),
  line('GET /api/connectors/sources',                 [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('GET /api/connectors/destinations',            [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('POST /api/connectors/check',                  [200, 200,  200,   403,   403,   403,    401,   200], 'as role', () => ({ body: { source: pipelineConfig.source } })),
  line('POST /api/connectors/streams',                [200, 200,  200,   403,   403,   403,    401,   200], 'as role', () => ({ body: { source: { name: 'dummy' } } })),
  line('GET /api/saved/sources',                      [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('POST /api/saved/sources',                     [201, 201,  201,   403,   403,   403,    401,   201], 'as role', () => ({ body: { name: 'new', connector_name: 'dummy', config: {} } })),
  line('GET /api/saved/sources/:id',                  [200, 200,  200,   200,   200,   200,    401,   404], 200, oneSource),
  line('PUT /api/saved/sources/:id',                  [200, 200,  200,   403,   403,   403,    401,   404], 'as role', async (w) => ({ ...(await source(w)), body: { name: 'changed' } })),
  line('DELETE /api/saved/sources/:id',               [204, 204,  204,   403,   403,   403,    401,   404], 'as role', source),
  line('GET /api/saved/sources/:id/pipelines',        [200, 200,  200,   200,   200,   200,    401,   404], 200, oneSource),
  line('GET /api/saved/destinations',                 [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('POST /api/saved/destinations',                [201, 201,  201,   403,   403,   403,    401,   201], 'as role', () => ({ body: { name: 'new', connector_name: 'file', config: {} } })),
  line('GET /api/saved/destinations/:id',             [200, 200,  200,   200,   200,   200,    401,   404], 200, oneDestination),
  line('PUT /api/saved/destinations/:id',             [200, 200,  200,   403,   403,   403,    401,   404], 'as role', async (w) => ({ ...(await destination(w)), body: { name: 'changed' } })),
  line('DELETE /api/saved/destinations/:id',          [204, 204,  204,   403,   403,   403,    401,   404], 'as role', destination),
  line('GET /api/saved/destinations/:id/pipelines',   [200, 200,  200,   200,   200,   200,    401,   404], 200, oneDestination),

  line('GET /api/custom-sources',                     [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('POST /api/custom-sources',                    [201, 201,  201,   403,   403,   403,    401,   201], 'as role', () => ({ body: { name: 'New', source_name: `s${randomUUID()}`, code: sourceCode } })),
  line('POST /api/custom-sources/validate',           [200, 200,  200,   403,   403,   403,    401,   200], 'as role', () => ({ body: { code: sourceCode } })),
  line('POST /api/custom-sources/preview',            [200, 200,  200,   403,   403,   403,    401,   404], 'as role', async (w) => ({ body: { source_id: await freshCustomSource(w), stream: 'numbers' } })),
  line('GET /api/custom-sources/:id',                 [200, 200,  200,   200,   200,   200,    401,   404], 200, oneCustomSource),
  line('PUT /api/custom-sources/:id',                 [200, 200,  200,   403,   403,   403,    401,   404], 'as role', async (w) => ({ ...(await customSource(w)), body: { name: 'Changed' } })),
  line('DELETE /api/custom-sources/:id',              [204, 204,  204,   403,   403,   403,    401,   404], 'as role', customSource),
  line('POST /api/custom-sources/:id/check',          [200, 200,  200,   403,   403,   403,    401,   404], 'as role', async (w) => ({ ...(await oneCustomSource(w)), body: {} })),
  line('GET /api/custom-sources/:id/versions',        [200, 200,  200,   200,   200,   200,    401,   404], 200, oneCustomSource),
  line('GET /api/custom-sources/:id/versions/:version', [200, 200,  200,   200,   200,   200,    401,   404], 200, async (w) => ({ params: { ...(await oneCustomSource(w)).params, version: '1' } })),
  line('GET /api/custom-sources/:id/pipelines',       [200, 200,  200,   200,   200,   200,    401,   404], 200, oneCustomSource),

  line('GET /api/manifests',                          [200, 200,  200,   200,   200,   200,    401,   200], 200),
  line('POST /api/manifests',                         [201, 201,  201,   403,   403,   403,    401,   201], 'as role', () => ({ body: { name: 'New', source_name: `m${randomUUID()}`, manifest: manifestText } })),
  line('POST /api/manifests/validate',                [200, 200,  200,   403,   403,   403,    401,   200], 'as role', () => ({ body: { manifest: manifestText } })),
  line('GET /api/manifests/:id',                      [200, 200,  200,   200,   200,   200,    401,   404], 200, oneManifest),
  line('PUT /api/manifests/:id',                      [200, 200,  200,   403,   403,   403,    401,   404], 'as role', async (w) => ({ ...(await manifest(w)), body: { name: 'Changed' } })),
  line('DELETE /api/manifests/:id',                   [204, 204,  204,   403,   403,   403,    401,   404], 'as role', manifest),
  line('GET /api/manifests/:id/pipelines',            [200, 200,  200,   200,   200,   200,    401,   404], 200, oneManifest),
  line('GET /api/manifests/:id/versions',             [200, 200,  200,   200,   200,   200,    401,   404], 200, oneManifest),
  line('GET /api/manifests/:id/versions/:version',    [200, 200,  200,   200,   200,   200,    401,   404], 200, async (w) => ({ params: { ...(await oneManifest(w)).params, version: '1' } })),

  line('GET /api/webhooks',                           [200, 200,  403,   403,   403,   403,    401,   200], 'as role'),
  line('POST /api/webhooks',                          [201, 201,  403,   403,   403,   403,    401,   201], 'as role', () => ({ body: newWebhook() })),
  line('GET /api/webhooks/:id',                       [200, 200,  403,   403,   403,   403,    401,   404], 'as role', webhook),
  line('PUT /api/webhooks/:id',                       [200, 200,  403,   403,   403,   403,    401,   404], 'as role', async (w) => ({ ...(await webhook(w)), body: { enabled: false } })),
  line('DELETE /api/webhooks/:id',                    [204, 204,  403,   403,   403,   403,    401,   404], 'as role', webhook),
  line('GET /api/webhooks/:id/deliveries',            [200, 200,  403,   403,   403,   403,    401,   404], 'as role', webhook),
  line('POST /api/webhooks/:id/deliveries/:delivery_id/resend', [201, 201, 403,  403,   403,   403,    401,   404], 'as role', delivery),
  line('POST /api/webhooks/:id/test',                 [201, 201,  403,   403,   403,   403,    401,   404], 'as role', webhook),

  // who is let in; each tool asks for its own permission (mcp.test.ts)
  line('POST /mcp',                                   [200, 200,  200,   200,   200,   200,    401,   200], 200, () => ({ body: { jsonrpc: '2.0', id: 1, method: 'tools/list' } }), [200, 200, 200]),
  line('GET /api/alerts',                             [200, 200,  403,   403,   403,   403,    401,   200], 'as role'),
  line('POST /api/alerts',                            [201, 201,  403,   403,   403,   403,    401,   201], 'as role', () => ({ body: newAlert() })),
  line('GET /api/alerts/:id',                         [200, 200,  403,   403,   403,   403,    401,   404], 'as role', alert),
  line('PUT /api/alerts/:id',                         [200, 200,  403,   403,   403,   403,    401,   404], 'as role', async (w) => ({ ...(await alert(w)), body: { enabled: false } })),
  line('DELETE /api/alerts/:id',                      [204, 204,  403,   403,   403,   403,    401,   404], 'as role', alert),
  line('GET /api/alerts/:id/deliveries',              [200, 200,  403,   403,   403,   403,    401,   404], 'as role', alert),
  line('POST /api/alerts/:id/test',                   [201, 201,  403,   403,   403,   403,    401,   404], 'as role', alert),
]
