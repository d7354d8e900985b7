/** What a plan says about columns, by asking a real PostgreSQL whose tables changed after the last run. */
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { type CallOptions, type Person, registerOrganization } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'
import { startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'
import { startProgram } from '../harness/processes.ts'
import { MAIN } from '../harness/service.ts'
import { TOO_SLOW } from '../mcp/connect.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8' })
await engine.work()
after(stopPostgresServer)
const server = await startPostgresServer()
const database = await server.createDatabase()
const client = await server.connect(database)
const { owner, viewer } = await registerOrganization(engine, 'Shop')

const { host, port, user, password } = server
const settings = { host, port, user, password, database, tls: { mode: 'disable' } }
const connections = (source: object = {}) => [
  { name: 'shop', type: 'source', connector_name: 'postgres', config: { config: { ...settings, ...source } } },
]
const pipeline = (name: string, { sync = {}, source = {}, ...more }: Record<string, object> = {}) => ({
  name,
  config: {
    source: { connection: 'shop', stream: `public.${name}`, ...source },
    destination: { name: 'postgres', config: { ...settings, schema: 'public', table: `${name}_copy` } },
    sync: { write: 'append', ...sync },
    ...more,
  },
})

const send = (body: object, as: CallOptions['as'] = owner) =>
  engine.call('POST', '/api/changes', { as: as ?? null, body })
/** On a slow machine a source may not answer in time. */
async function plan(objects: object, more: object = {}) {
  for (;;) {
    const { status, body, text } = await send({ objects, dry_run: true, schemas: true, ...more })
    assert.equal(status, 200, text)
    assert.deepEqual(body.problems, [])
    if (!TOO_SLOW.test(text)) return body
  }
}
async function applyAndRun(
  objects: { pipelines: { name: string }[]; [kind: string]: object[] },
  as: Person = owner,
): Promise<void> {
  const { status, text } = await send({ objects })
  assert.equal(status, 200, text)
  for (const { name } of objects.pipelines) {
    const row = await engine.services.db.first<{ id: string }>(
      sql`SELECT id FROM pipelines WHERE organization_id = ${as.organization_id} AND name = ${name}`,
    )
    const run = await engine.finished(await engine.trigger(row!.id, as))
    assert.equal(run.status, 'success', run.error ?? '')
  }
}

test('a plan says which columns come, go and change, and what the target makes of it', async () => {
  await client.query('CREATE TABLE orders (id int PRIMARY KEY, amount int, note text, old date)')
  await client.query("INSERT INTO orders VALUES (1, 2, 'x', now())")
  const objects = { connections: connections(), pipelines: [pipeline('orders')] }
  const created = (await plan(objects)).changes.find(({ kind }: { kind: string }) => kind === 'pipeline')
  assert.deepEqual(created.schemas, [
    {
      pipeline: 'orders',
      problem: null,
      columns: [
        { name: 'id', type: 'int32' },
        { name: 'amount', type: 'int32' },
        { name: 'note', type: 'text' },
        { name: 'old', type: 'date' },
      ],
      differences: null,
    },
  ])
  await applyAndRun(objects)

  await client.query('ALTER TABLE orders DROP COLUMN old, ADD COLUMN color text, ALTER COLUMN amount TYPE text')
  const { changes } = await plan({ ...objects, pipelines: [pipeline('orders', { columns: { exclude: ['note'] } })] })
  const differencesOf = (list: { schemas?: { differences: unknown }[] }[]) => list[0]!.schemas![0]!.differences
  assert.deepEqual(differencesOf(changes), [
    { name: 'color', change: 'added', before: null, after: 'text', effect: 'the next run adds it' },
    {
      name: 'note',
      change: 'removed',
      before: 'text',
      after: null,
      effect: 'it stays in the target, without new values',
    },
    {
      name: 'old',
      change: 'removed',
      before: 'date',
      after: null,
      effect: 'it stays in the target, without new values',
    },
    { name: 'amount', change: 'type', before: 'int32', after: 'text', effect: 'the next run widens it to text' },
  ])
  const strict = pipeline('orders', { sync: { schema_change: 'fail' }, columns: { exclude: ['note'] } })
  const effects = differencesOf((await plan({ ...objects, pipelines: [strict] })).changes) as { effect: string }[]
  assert.deepEqual([effects[0]!.effect, effects.at(-1)!.effect], ['the next run fails', 'the next run fails'])

  const excluding = { ...objects, pipelines: [pipeline('orders', { columns: { exclude: ['note'] } })] }
  await applyAndRun(excluding)
  const target = await client.query(
    "SELECT column_name AS name, data_type AS type FROM information_schema.columns WHERE table_name = 'orders_copy' ORDER BY 1",
  )
  assert.deepEqual(
    target.rows.map(({ name, type }) => `${name} ${type}`),
    ['amount text', 'color text', 'id integer', 'note text', 'old date'],
    'the run did what the plan said',
  )
  const back = await plan(objects)
  assert.deepEqual(differencesOf(back.changes), [
    { name: 'note', change: 'added', before: null, after: 'text', effect: 'the target has it already' },
  ])
})

test('a changed connection tells of the pipelines that read with it, and a schedule asks nobody', async () => {
  await client.query('CREATE TABLE items (id int)')
  const [items, orders] = [pipeline('items'), pipeline('orders')]
  await applyAndRun({ connections: connections(), pipelines: [items] } as never)
  await client.query('ALTER TABLE items ADD COLUMN size float8')
  const { changes } = await plan({ connections: connections({ tls: { mode: 'prefer' } }), pipelines: [items, orders] })
  const [connection] = changes
  assert.equal(connection.kind, 'connection')
  const told = connection.schemas.find(({ pipeline: name }: { pipeline: string }) => name === 'items')
  assert.deepEqual(
    told.differences.map(({ name, change }: { name: string; change: string }) => `${change} ${name}`),
    ['added size'],
  )
  const scheduled = await plan({ connections: connections(), pipelines: [{ ...items, schedule: '0 3 * * *' }] })
  assert.equal(scheduled.changes[0].schemas, undefined)
})

test('a source that does not answer is named in one line, without secrets, and the plan stands', async () => {
  const objects = {
    connections: connections(),
    pipelines: [
      pipeline('nowhere', { source: { stream: 'public.nowhere' } }),
      {
        ...pipeline('closed'),
        config: {
          ...pipeline('closed').config,
          source: { name: 'postgres', stream: 'public.t', config: { ...settings, port: 1 } },
        },
      },
      {
        name: 'tokens',
        config: {
          source: {
            name: 'rest_api',
            stream: 'a',
            authentication: {
              type: 'oauth2_refresh_token',
              params: { token_url: `http://127.0.0.1:1/`, client_id: 'c', client_secret: 's', refresh_token: 'r' },
            },
            config: { client: { base_url: 'http://127.0.0.1:1' }, resources: [{ name: 'a', endpoint: { path: '/' } }] },
          },
          destination: { name: 'file', config: {} },
        },
      },
    ],
  }
  const { changes } = await plan(objects)
  const problems = Object.fromEntries(
    changes.flatMap(({ schemas = [] }: { schemas?: { pipeline: string; problem: string }[] }) =>
      schemas.map(({ pipeline: name, problem }) => [name, problem]),
    ),
  )
  assert.match(problems.nowhere, /public\.nowhere/)
  assert.match(problems.closed, /127\.0\.0\.1/)
  assert.equal(problems.tokens, 'it was not asked, because the provider may replace its refresh token')
  for (const problem of Object.values(problems)) assert.doesNotMatch(String(problem), /\n/)
  assert.ok(!JSON.stringify(changes).includes(password))
})

test('the base stays the same, applying asks nobody, and who may not change has no source asked', async () => {
  const objects = { connections: connections(), pipelines: [pipeline('orders', { columns: { include: ['id'] } })] }
  const [asked, unasked] = [await plan(objects), await plan(objects, { schemas: false })]
  assert.equal(asked.base, unasked.base)
  assert.deepEqual(
    asked.changes.map(({ schemas: _, ...rest }: { schemas: unknown }) => rest),
    unasked.changes,
  )
  const refused = await send({ objects, dry_run: true, schemas: true }, viewer)
  assert.equal(refused.status, 200)
  assert.ok(refused.body.problems.length > 0)
  assert.ok(refused.body.changes.every((change: object) => !('schemas' in change)))
  const applied = await send({ objects, schemas: true, base: asked.base })
  assert.equal(applied.status, 200, applied.text)
  assert.ok(applied.body.changes.every((change: object) => !('schemas' in change)))
})

test('a key of one domain learns nothing of a pipeline with the same name in another', async () => {
  await client.query('CREATE TABLE payroll (id int PRIMARY KEY, secret_salary int)')
  const domains = [{ name: 'Mine' }, { name: 'Theirs' }]
  const theirs = { ...pipeline('payroll'), domain: 'Theirs' }
  await applyAndRun({ domains, connections: connections(), pipelines: [theirs] })
  const mine = await engine.services.db.first<{ id: string }>(
    sql`SELECT id FROM domains WHERE organization_id = ${owner.organization_id} AND name = 'Mine'`,
  )
  const scopes = { permissions: ['domains:read', 'pipelines:read', 'pipelines:write'], domain_id: mine!.id }
  const key = await engine.call('POST', '/api/api-keys', { as: owner, body: { name: 'mine', scopes } })
  assert.equal(key.status, 201, key.text)
  const dummy = { name: 'dummy', stream: 'creatures', config: { records: 1 } }
  const own = { name: 'payroll', domain: 'Mine', config: { source: dummy, destination: { name: 'logger' } } }
  const answer = await engine.call('POST', '/api/changes', {
    as: { key: key.body.key },
    body: { objects: { domains: domains.slice(0, 1), pipelines: [own] }, dry_run: true, schemas: true, domain: 'Mine' },
  })
  assert.equal(answer.status, 200, answer.text)
  assert.deepEqual(answer.body.problems, [])
  assert.doesNotMatch(answer.text, /secret_salary/)
})

test('sluice plan shows it, also as Markdown and JSON; --no-schemas does not ask', async () => {
  const url = await engine.app.listen({ host: '127.0.0.1', port: 0 })
  const { key } = (await engine.call('POST', '/api/api-keys', { as: owner, body: { name: 'cli' } })).body
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-schemas-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  mkdirSync(path.join(folder, 'pipelines'))
  const file = path.join(folder, 'pipelines/orders.json.yaml')
  writeFileSync(file, JSON.stringify(pipeline('orders')))
  const sluice = (...args: string[]) =>
    startProgram(process.execPath, [MAIN, ...args, folder], {
      cwd: folder,
      env: { PATH: process.env.PATH ?? '', HOME: folder, SLUICE_URL: url, SLUICE_API_KEY: key, NO_COLOR: '1' },
    }).ended
  const shown = await sluice('plan')
  assert.equal(shown.code, 2, shown.stderr)
  assert.match(shown.stdout, /^ {4}\+ column note text: the target has it already$/m)
  assert.match((await sluice('plan', '--markdown')).stdout, /^ {2}- `\+ column note text: the target has it already`$/m)
  const data = JSON.parse((await sluice('plan', '--json')).stdout)
  assert.equal(data.changes[0].schemas[0].differences[0].change, 'added')
  assert.doesNotMatch((await sluice('plan', '--no-schemas')).stdout, /column note/)
})
