import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { type CallOptions, type Person, registerOrganization, startApp } from '../harness/app.ts'
import { manifestText, sourceCode } from '../tenancy/things.ts'
import { addOrganization, createWorld } from '../tenancy/world.ts'

const app = await startApp()
const { db } = app.services

type As = NonNullable<CallOptions['as']>
const send = (as: As, body: object) => app.call('POST', '/api/changes', { as, body })
async function plan(as: As, objects: object, more: object = {}) {
  const answer = await send(as, { objects, dry_run: true, ...more })
  assert.equal(answer.status, 200, answer.text)
  return answer.body
}
async function apply(as: As, objects: object, more: object = {}) {
  const answer = await send(as, { objects, ...more })
  assert.equal(answer.status, 200, answer.text)
  return answer.body
}
const messagesOf = (body: { problems: { pointer: string; message: string }[] }) =>
  body.problems.map(({ pointer, message }) => `${pointer}: ${message}`)

const incremental = (more: object = {}, source: object = {}) => ({
  source: { name: 'dummy', stream: 'creatures', config: { records: 10 }, ...source },
  destination: { name: 'sqlite', config: { table: 'creatures' } },
  sync: { mode: 'incremental', write: 'upsert', primary_key: ['id'], ...more },
})
const shop = (config: object = {}) => ({
  name: 'shop',
  type: 'source',
  connector_name: 'postgres',
  config: { config: { host: 'db.example.com', database: 'shop', user: 'reader', password: 'first', ...config } },
})
const orders = (sync: object = {}) => ({
  name: 'orders',
  config: {
    source: { connection: 'shop', stream: 'public.orders' },
    destination: { name: 'sqlite', config: { table: 'orders' } },
    sync: { mode: 'incremental', cursor_field: 'updated_at', write: 'append', ...sync },
  },
})
/** As if a run had left a cursor. */
async function keepState(as: Person, name: string): Promise<void> {
  const rows = await db.query<{ id: string }>(
    sql`SELECT id FROM pipelines WHERE organization_id = ${as.organization_id} AND name = ${name}`,
  )
  const answer = await app.call('PUT', `/api/pipelines/${rows[0]!.id}/state`, {
    as,
    body: { cursor: { cursor: '2026-01-01' } },
  })
  assert.equal(answer.status, 200, answer.text)
}

test('a plan says field by field what changes, and what that does to state and tables', async () => {
  const owner = await addOrganization(app)
  await apply(owner, { connections: [shop()], pipelines: [orders()] })
  await keepState(owner, 'orders')
  const { changes } = await plan(owner, {
    connections: [shop({ password: 'second' })],
    pipelines: [orders({ cursor_field: 'id' })],
  })
  assert.deepEqual(changes, [
    {
      kind: 'connection',
      name: 'shop',
      action: 'change',
      fields: [{ path: 'config.config.password', before: null, after: null, secret: true }],
      effects: [],
    },
    {
      kind: 'pipeline',
      name: 'orders',
      action: 'change',
      fields: [{ path: 'config.sync.cursor_field', before: 'updated_at', after: 'id', secret: false }],
      effects: [
        'The cursor field changed, so the next run starts from the beginning. It appends to the same target, so rows that are already there will be duplicated.',
      ],
    },
  ])
})

test('a connection that is pointed elsewhere tells what that means for pipelines that stay as they are', async () => {
  const owner = await addOrganization(app)
  await apply(owner, { connections: [shop()], pipelines: [orders()] })
  await keepState(owner, 'orders')
  const { changes } = await plan(owner, { connections: [shop({ host: 'other.example.com' })], pipelines: [orders()] })
  assert.equal(changes.length, 1)
  assert.match(changes[0].effects[0], /^'orders': The source changed, so the next run starts from the beginning\./)
  const replaced = await plan(owner, {
    connections: [{ ...shop(), connector_name: 'mysql' }],
    pipelines: [orders()],
  })
  assert.equal(replaced.changes[0].action, 'replace')
  assert.match(replaced.changes[0].effects[0], /^'orders': The source changed/)
})

test('a connection that is replaced keeps the pipelines that use it', async () => {
  const owner = await addOrganization(app)
  await apply(owner, { connections: [shop()], pipelines: [orders()] })
  const objects = { connections: [{ ...shop(), connector_name: 'mysql' }], pipelines: [orders()] }
  await apply(owner, objects)
  assert.deepEqual((await plan(owner, objects, { prune: true })).changes, [])
  const rows = await db.query(sql`
    SELECT p.source_name, s.connector_name FROM pipelines p JOIN saved_connectors s ON s.id = p.saved_source_id WHERE p.organization_id = ${owner.organization_id}`)
  assert.deepEqual(rows, [{ source_name: 'mysql', connector_name: 'mysql' }])
})

test('every problem is told at once, each with its place; nothing is changed', async () => {
  const owner = await addOrganization(app)
  const objects = {
    domains: [{ name: 'Sales', colour: '#aabbcc' }, { name: 'Sales' }, { name: 'Sales' }],
    connections: [shop({ port: 'x' }), { name: 'w', type: 'destination', connector_name: 'postgress', config: {} }],
    pipelines: [
      {
        name: 'a',
        domain: 'Nowhere',
        config: { source: { connection: 'none', stream: 's' }, destination: { name: 'file' } },
      },
      { name: 'b', schedule: 'never', config: incremental({ mode: 'sometimes' }) },
      {
        name: 'c',
        config: { source: { connection: 'shop', stream: 's' }, destination: { saved_connector_id: owner.id } },
      },
      { config: incremental() },
    ],
  }
  const { problems } = await plan(owner, objects)
  const told = messagesOf({ problems })
  for (const pattern of [
    /^\/objects\/domains\/0\/colour: unknown field/,
    /^\/objects\/domains\/2\/name: 2 domains here are named 'Sales'/,
    /^\/objects\/connections\/0\/config\/config\/port: must be an integer/,
    /^\/objects\/connections\/1\/connector_name: there is no destination 'postgress'; did you mean 'postgres'/,
    /^\/objects\/pipelines\/0\/config\/source\/connection: there is no saved source 'none'/,
    /^\/objects\/pipelines\/1\/config\/sync\/mode: 'sometimes' is not allowed/,
    /^\/objects\/pipelines\/3\/name: is required/,
  ])
    assert.ok(
      told.some((line) => pattern.test(line)),
      `${pattern}\n${told.join('\n')}`,
    )
  const refused = await send(owner, { objects })
  assert.equal(refused.status, 400)
  assert.deepEqual(refused.body.problems, problems)
  const { objects: left } = (await app.call('GET', '/api/changes/export', { as: owner })).body
  assert.deepEqual(left, { domains: [], sources: [], connections: [], pipelines: [] })
})

test('three mistakes in one object are three problems, whatever else is wrong', async () => {
  const owner = await addOrganization(app)
  const told = async (objects: object) => messagesOf(await plan(owner, objects)).sort()
  const three = {
    name: 'orders',
    shedule: '0 6 * * *',
    timezone: 'Europe/Berln',
    schedule: 'never',
    domain: 'Nowhere',
    config: {
      source: { name: 'dummy', steam: 'creatures', config: { recods: 1 } },
      destination: { connection: 'none', config: { table: 'x' } },
      sync: { mode: 'sometimes' },
      run: { max_attempts: 'x' },
    },
  }
  const pipeline = await told({ pipelines: [three] })
  for (const [index, start] of [
    "/config/destination/connection: there is no saved destination 'none'",
    '/config/run/max_attempts: must be an integer',
    "/config/source/config/recods: unknown field; did you mean 'records'",
    "/config/source/steam: unknown field; did you mean 'stream'",
    '/config/source/stream: is required',
    "/config/sync/mode: 'sometimes' is not allowed",
    "/domain: there is no domain 'Nowhere'",
    '/schedule: must have five fields',
    "/shedule: unknown field; did you mean 'schedule'",
    "/timezone: there is no time zone 'Europe/Berln'; did you mean 'Europe/Berlin'",
  ].entries())
    assert.ok(pipeline[index]?.startsWith(`/objects/pipelines/0${start}`), `${start}\n${pipeline.join('\n')}`)
  assert.equal(pipeline.length, 10, pipeline.join('\n'))

  // Also of a connection, and of what refers to it, which is not reported for that.
  const connection = {
    ...shop({ port: 'x', hots: 'y', password: '********' }),
    descripton: 'z',
    config: { ...shop({ port: 'x', hots: 'y', password: '********' }).config, authentcation: {} },
  }
  assert.deepEqual(
    (await told({ connections: [connection], pipelines: [orders({ mode: 'sometimes' })] })).map((line) =>
      line.replace(/^\/objects|: .*/g, ''),
    ),
    [
      '/connections/0/config/authentcation',
      '/connections/0/config/config/hots',
      '/connections/0/config/config/password',
      '/connections/0/config/config/port',
      '/connections/0/descripton',
      '/pipelines/0/config/sync/mode',
    ],
  )

  // And of a source: its description, its name and its code.
  const source = await told({
    sources: [
      { source_name: 'postgres', name: 'x', code: 'def (\n' },
      { source_name: 'mine', nam: 'x', code: 'def (\n' },
    ],
    pipelines: [{ name: 'x', config: { ...incremental(), source: { name: 'mine', stream: 's', config: { a: 1 } } } }],
  })
  assert.deepEqual(
    [...new Set(source.map((line) => line.replace(/^\/objects|: .*/g, '')))],
    ['/sources/0/code', '/sources/0/source_name', '/sources/1/code', '/sources/1/nam', '/sources/1/name'],
  )

  // Every secret that is missing is named; what is stored is kept.
  const secrets = { password: '********', user: '********' }
  assert.deepEqual(
    (await told({ connections: [shop(secrets)] })).map((line) => line.replace(/^\/objects|: .*/g, '')),
    ['/connections/0/config/config/password', '/connections/0/config/config/user'],
  )
  await apply(owner, { connections: [shop()] })
  assert.deepEqual(await told({ connections: [shop(secrets)] }), [])
  assert.deepEqual(
    (await told({ connections: [shop({ ...secrets, port: 'x', ssl: true })] })).map((line) =>
      line.replace(/^\/objects|: .*/g, ''),
    ),
    ['/connections/0/config/config/port', '/connections/0/config/config/ssl'],
  )
})

test('who may not change something is told so, and nothing about it; nothing is applied without it', async () => {
  const { owner, viewer } = await registerOrganization(app, 'Readers')
  await apply(owner, { connections: [shop()] })
  const wrong = { pipelines: [{ ...orders(), config: { ...orders().config, destination: { connection: 'none' } } }] }
  assert.match(messagesOf(await plan(viewer, wrong)).join(), /pipelines:write/)
  assert.equal((await send(viewer, { objects: wrong })).status, 403)
  const domain = [{ name: 'Sales' }]
  assert.equal((await send(owner, { objects: { domains: domain, ...wrong } })).status, 400)
  assert.deepEqual((await plan(owner, {}, { prune: true })).changes.length, 1)
})

test('code is checked before anything is stored, with line and column; new code is a new version', async () => {
  const owner = await addOrganization(app)
  const source = (code: string) => ({ source_name: 'numbers', name: 'Numbers', code })
  const pipeline = {
    name: 'n',
    config: { source: { name: 'numbers', stream: 'numbers' }, destination: { name: 'file' } },
  }
  const bad = await plan(owner, { sources: [source(`import os\n${sourceCode}`)], pipelines: [pipeline] })
  assert.equal(bad.problems.length, 1)
  assert.deepEqual([bad.problems[0].pointer, bad.problems[0].line], ['/objects/sources/0/code', 1])
  await apply(owner, { sources: [source(sourceCode)], pipelines: [pipeline] })
  const objects = { sources: [source(sourceCode.replaceAll('["numbers"]', '["others"]'))], pipelines: [pipeline] }
  const { changes } = await apply(owner, objects)
  assert.deepEqual(changes[0].effects.slice(0, 1), ['It becomes version 2; runs that start after the change use it.'])
  assert.match(
    changes[0].effects[1],
    /^'n': The next run fails: The source 'numbers' no longer has the stream 'numbers'/,
  )
  assert.deepEqual((await plan(owner, objects)).changes, [])
  // Exported without the pipeline that no longer fits, and applied elsewhere: the same again, manifests too.
  const manifest = { source_name: 'shop', name: 'Shop', language: 'manifest', code: manifestText }
  await apply(owner, { sources: [...objects.sources, manifest] }, { prune: true })
  const exported = (await app.call('GET', '/api/changes/export', { as: owner })).body.objects
  assert.deepEqual(exported.sources, [...objects.sources, manifest])
  const other = await addOrganization(app)
  await apply(other, exported)
  assert.deepEqual((await app.call('GET', '/api/changes/export', { as: other })).body.objects, exported)
  const turned = { ...objects.sources[0], source_name: 'shop' }
  const replaced = await apply(other, { sources: [turned] })
  assert.deepEqual(
    [replaced.changes[0].action, replaced.changes[0].effects],
    ['replace', ['It is another source from now on: its old versions are deleted.']],
  )
  assert.deepEqual((await plan(other, { sources: [turned] })).changes, [])
})

test('each change needs its own permission', async () => {
  const { owner, member, viewer } = await registerOrganization(app, 'Rights')
  const objects = { domains: [{ name: 'New' }], connections: [shop()], pipelines: [orders()] }
  assert.deepEqual(messagesOf(await plan(member, objects)), [
    '/objects/domains/0: You do not have the permission domains:write; ask an admin of your organization',
  ])
  const seen = await plan(viewer, objects)
  assert.equal(seen.problems.length, 3, JSON.stringify(seen.problems))
  assert.equal((await send(viewer, { objects })).status, 403)
  await apply(owner, objects)
  // A secret that a viewer sends counts as changed, whether it is the stored one or not.
  const guess = await plan(viewer, { connections: [shop()] })
  assert.deepEqual(guess.changes.length, 1)
  assert.equal(guess.problems.length, 1)
  assert.deepEqual((await plan(viewer, { connections: [shop({ password: '********' })] })).changes, [])
})

test('a key of one domain sees and changes that domain alone, and uses only the connections that its pipelines use', async () => {
  const owner = await addOrganization(app)
  const other = { ...shop(), name: 'hidden' }
  await apply(owner, {
    domains: [{ name: 'Sales' }, { name: 'Ops' }],
    connections: [shop(), other],
    pipelines: [
      { ...orders(), domain: 'Sales' },
      { name: 'ops', domain: 'Ops', config: incremental() },
    ],
  })
  const domain = await db.first<{ id: string }>(
    sql`SELECT id FROM domains WHERE organization_id = ${owner.organization_id} AND name = 'Sales'`,
  )
  const permissions = ['pipelines:read', 'pipelines:write', 'pipelines:run', 'domains:read', 'domains:write']
  const made = await app.call('POST', '/api/api-keys', {
    as: owner,
    body: { name: 'sales', scopes: { permissions, domain_id: domain!.id } },
  })
  const key = { key: made.body.key }
  const exported = await app.call('GET', '/api/changes/export', { as: key })
  assert.deepEqual(
    exported.body.objects.pipelines.map(({ name }: { name: string }) => name),
    ['orders'],
  )
  assert.deepEqual(exported.body.objects.domains, [{ name: 'Sales' }])
  assert.deepEqual(exported.body.omitted, ['sources', 'connections'])
  const { pipelines } = exported.body.objects
  assert.deepEqual((await plan(key, { pipelines }, { prune: true })).changes, [])
  const second = { ...pipelines[0], name: 'second' }
  await apply(key, { pipelines: [...pipelines, second] })
  const third = {
    ...second,
    name: 'third',
    config: { ...second.config, source: { connection: 'hidden', stream: 's' } },
  }
  assert.match(messagesOf(await plan(key, { pipelines: [third] }))[0]!, /there is no saved source 'hidden'/)
  const elsewhere = await plan(key, {
    pipelines: [
      { ...second, name: 'fourth', domain: 'Ops' },
      { ...second, name: 'fifth', domain: null },
    ],
  })
  assert.equal(elsewhere.problems.length, 2)
  const pruned = await apply(key, { pipelines: [] }, { prune: true })
  assert.deepEqual(
    pruned.changes.map(({ name, action }: { name: string; action: string }) => `${action} ${name}`),
    ['delete orders', 'delete second'],
  )
  const left = await db.query(sql`SELECT name FROM pipelines WHERE organization_id = ${owner.organization_id}`)
  assert.deepEqual(left, [{ name: 'ops' }])
})

test('another organization is neither seen nor changed', async () => {
  const [ours, theirs] = [await addOrganization(app), await addOrganization(app)]
  await apply(ours, { domains: [{ name: 'Sales' }], connections: [shop()], pipelines: [orders()] })
  const { changes, problems } = await plan(theirs, { pipelines: [orders()] }, { prune: true })
  assert.equal(problems.length, 1)
  assert.deepEqual(
    changes.map(({ action }: { action: string }) => action),
    ['create'],
  )
  const { base } = await plan(ours, {})
  assert.equal((await send(theirs, { objects: {}, base })).status, 409)
  assert.equal((await app.call('GET', '/api/changes/export?domain=Sales', { as: theirs })).status, 404)
})

test('a plan is refused once anything has changed since, whoever changed it', async () => {
  const owner = await addOrganization(app)
  const objects = { connections: [shop()], pipelines: [orders()] }
  await apply(owner, objects)
  const wanted = { connections: [shop()], pipelines: [{ ...orders(), enabled: false }] }
  const { base } = await plan(owner, wanted)
  const row = await db.first<{ id: string }>(
    sql`SELECT id FROM saved_connectors WHERE organization_id = ${owner.organization_id}`,
  )
  await app.call('PUT', `/api/saved/sources/${row!.id}`, { as: owner, body: { description: 'changed' } })
  const refused = await send(owner, { objects: wanted, base })
  assert.deepEqual(
    [refused.status, refused.body.detail],
    [409, 'The organization has changed since the plan was made; make the plan again and look at it'],
  )
  assert.equal((await plan(owner, wanted)).changes.length, 2)
})

test('prune keeps what is in use, and a domain scope keeps everything else', async () => {
  const owner = await addOrganization(app)
  const pipelines = [
    { ...orders(), domain: 'Sales' },
    { name: 'ops', domain: 'Ops', config: incremental() },
  ]
  await apply(owner, { domains: [{ name: 'Sales' }, { name: 'Ops' }], connections: [shop()], pipelines })
  const scoped = await plan(owner, { pipelines: [] }, { prune: true, domain: 'Sales' })
  assert.deepEqual(
    scoped.changes.map(({ kind, name }: { kind: string; name: string }) => `${kind} ${name}`),
    ['pipeline orders'],
  )
  assert.match(scoped.changes[0].effects[0], /^Its runs, logs, outputs and state are deleted/)
  const used = await plan(owner, { domains: [{ name: 'Sales' }], pipelines }, { prune: true })
  assert.deepEqual(messagesOf(used), [
    "/prune: 'shop': It is in use: 1 pipeline ('orders'). Change or delete these first, or describe it in the files",
    "/prune: 'Ops': Move or delete the pipelines of this domain first",
  ])
  const wrong = await plan(owner, { pipelines }, { domain: 'Sales' })
  assert.deepEqual(messagesOf(wrong), [
    "/objects/pipelines/1/domain: only pipelines of the domain 'Sales' are changed here",
  ])
})

test('objects of the same name are refused by an export and by a plan that means one of them', async () => {
  const owner = await addOrganization(app)
  for (const name of ['Twice', 'Twice', 'Once'])
    await app.call('POST', '/api/pipelines', { as: owner, body: { name, config: incremental() } })
  const refused = await app.call('GET', '/api/changes/export', { as: owner })
  assert.deepEqual(
    [refused.status, refused.body.detail],
    [409, "2 pipelines are named 'Twice'; rename them, so that the name says which one is meant"],
  )
  assert.deepEqual(messagesOf(await plan(owner, { pipelines: [{ name: 'Once', config: incremental() }] })), [])
  assert.equal((await plan(owner, { pipelines: [{ name: 'Twice', config: incremental() }] })).problems.length, 1)
})

test('there are limits to what a request may hold', async () => {
  const owner = await addOrganization(app)
  const many = await send(owner, {
    objects: { domains: Array.from({ length: 1001 }, (_, index) => ({ name: `d${index}` })) },
  })
  assert.deepEqual([many.status, many.body.detail], [400, 'objects.domains: must have at most 1000 items'])
  const pipelines = Array.from({ length: 2001 }, (_, index) => ({ name: `p${index}`, config: incremental() }))
  const changes = await send(owner, { objects: { pipelines }, dry_run: true })
  assert.equal(changes.status, 400)
  assert.match(changes.body.detail, /^These are 2001 changes; at most 2000 are made at once\./)
  const large = await send(owner, { objects: { domains: [{ name: 'x'.repeat(17 * 1024 * 1024) }] } })
  assert.deepEqual([large.status, large.body.detail], [413, 'The body is too large; at most 16 MB is allowed'])
  assert.match(
    (await plan(owner, { pipelines: [{ name: 'x', config: { ...incremental(), name: 'y'.repeat(300_000) } }] }))
      .problems[0].message,
    /at most 256 KB/,
  )
})

test('with secrets that are written but never read, a secret that is sent counts as changed', async () => {
  const strict = await startApp({ SECRETS: 'write_only' })
  const owner = await addOrganization(strict)
  const call = (objects: object, dry_run: boolean) =>
    strict.call('POST', '/api/changes', { as: owner, body: { objects, dry_run } })
  assert.equal((await call({ connections: [shop()] }, false)).status, 200)
  assert.equal((await call({ connections: [shop()] }, true)).body.changes.length, 1)
  assert.deepEqual((await call({ connections: [shop({ password: '********' })] }, true)).body.changes, [])
  const moved = await call({ connections: [shop({ password: '********', host: 'evil.example.com' })] }, true)
  assert.match(moved.body.problems[0].message, /cannot change while a stored secret is kept/)
})

test('no secret is told by what is wrong with an object: only who may read it keeps it, and only where it is', async () => {
  const secret = 'correct-horse-battery'
  const inline = (source: object, more: object = {}) => ({
    name: 'victim',
    config: { source, destination: { name: 'sqlite', config: { table: 'x' } } },
    ...more,
  })
  const settings = { host: 'db.example.com', database: 'shop', user: 'reader', password: secret }
  const victim = inline({ name: 'postgres', stream: 'public.orders', config: settings })
  // The fault of a choice repeats what was given.
  const choice = `from typing import Literal\nfrom svc.source.models import SourceConfig\n${sourceCode}`.replace(
    'class Numbers(AbstractSource):',
    'class Settings(SourceConfig):\n    password: Literal["x"]\n\n\nclass Numbers(AbstractSource):\n    config_class = Settings',
  )
  const sources = [{ source_name: 'numbers', name: 'Numbers', code: choice }]
  const asked = (more: object = {}) =>
    inline({ name: 'numbers', stream: 'numbers', config: { password: '********' } }, more)
  const nowhere = { destination: { connection: 'none' } }

  const strict = await startApp({ SECRETS: 'write_only' })
  const owner = await addOrganization(strict)
  const call = (objects: object, dry_run = true) =>
    strict.call('POST', '/api/changes', { as: owner, body: { objects, dry_run } })
  assert.equal((await call({ sources, pipelines: [victim] }, false)).status, 200)
  for (const pipeline of [
    asked(),
    asked({ nam: 'malformed' }),
    { ...asked(), config: { ...asked().config, ...nowhere } },
  ]) {
    const { text, body } = await call({ sources, pipelines: [pipeline] })
    assert.ok(!text.includes(secret), text)
    assert.match(messagesOf(body).join('\n'), /config\/source\/\S+: cannot change while a stored secret is kept/)
  }

  // Where those who may write read secrets, a viewer who writes in one domain has those of the others told neither.
  const world = await createWorld(app)
  await apply(world.people.owner, { sources, pipelines: [{ ...victim, domain: 'Elsewhere' }] })
  for (const more of [{}, { nam: 'malformed' }]) {
    const pipeline = { ...asked({ domain: 'Shared', ...more }), config: { ...asked().config, ...nowhere } }
    const { text, body } = await send(world.as('raised')!, { objects: { pipelines: [pipeline] }, dry_run: true })
    assert.ok(!text.includes(secret), text)
    assert.match(messagesOf(body).join('\n'), /pipelines\/0: You do not have the permission pipelines:write/)
  }
})

test('a hundred thousand mistakes are told as fast as a thousand', async () => {
  const owner = await addOrganization(app)
  const many = (count: number) => Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, 1]))
  const source = { name: 'dummy', stream: 'creatures', config: many(16_000) }
  const pipelines = [
    { name: 'a', config: { ...incremental(), source } },
    { name: 'b', config: incremental(), ...many(100_000) },
  ]
  const started = performance.now()
  const { problems } = await plan(owner, { pipelines })
  assert.equal(problems.length, 1000)
  assert.ok(performance.now() - started < 5000, `took ${performance.now() - started} ms`)
  // Nor is what is too long compared with every time zone.
  const long = { name: 'c', config: incremental(), timezone: 'A'.repeat(4_000_000), schedule: '1,'.repeat(4_000_000) }
  assert.deepEqual(messagesOf(await plan(owner, { pipelines: [long] })).sort(), [
    '/objects/pipelines/0/schedule: must have at most 200 characters',
    '/objects/pipelines/0/timezone: must have at most 100 characters',
  ])
  const alone = await plan(owner, { pipelines: pipelines.slice(0, 1) })
  assert.equal(alone.problems[0].pointer, '/objects/pipelines/0/config/source/config/k0')
  assert.equal(alone.problems.length, 1000)
  assert.ok(performance.now() - started < 10_000, `took ${performance.now() - started} ms`)
})

test('the schemas of the files are public', async () => {
  for (const name of ['pipeline', 'connection', 'source', 'domains']) {
    const answer = await app.call('GET', `/schemas/${name}.json`)
    assert.equal(answer.status, 200, name)
    assert.match(String(answer.headers['content-type']), /^application\/schema\+json/)
    assert.equal(JSON.parse(answer.text).$schema, 'http://json-schema.org/draft-07/schema#')
  }
})
