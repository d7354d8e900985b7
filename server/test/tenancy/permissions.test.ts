import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'node:test'
import pg from 'pg'
import { can, canSomewhere, permissions, permissionsTable, ROLES } from '../../src/tenancy/permissions.ts'
import { type Answer, startApp } from '../harness/app.ts'
import { type Line, matrix, type Prepared } from './matrix.ts'
import { CALLERS, type Caller, createWorld } from './world.ts'

const app = await startApp()
const world = await createWorld(app)

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

function send({ route }: Line, caller: Caller, { params = {}, query, body, as }: Prepared): Promise<Answer> {
  const [method, path] = route.split(' ') as [string, string]
  const url = path.replace(/:(\w+)/g, (_, name: string) => params[name] ?? assert.fail(`${route}: no ${name}`))
  return app.call(method, query ? `${url}?${query}` : url, {
    as: (as === undefined ? world.as(caller) : as) ?? null,
    ...(body === undefined ? {} : { body }),
  })
}

test('every route has its line in the matrix, and every line its route', () => {
  const registered = app.app.routeList.map(({ method, url }) => `${method} ${url}`)
  const lines = matrix.map(({ route }) => route)
  assert.deepEqual(
    registered.filter((route) => !lines.includes(route)),
    [],
    'routes without a line: add them to matrix.ts',
  )
  assert.deepEqual(
    lines.filter((route) => !registered.includes(route)),
    [],
    'lines without a route',
  )
  assert.equal(new Set(lines).size, lines.length, 'a route has two lines')
})

test('every route answers every kind of caller as the matrix says, with a status that its documentation names', async (t) => {
  const documented = app.app.swagger().paths as Record<string, Record<string, { responses: Record<string, unknown> }>>
  for (const line of matrix) {
    await t.test(line.route, async () => {
      const [method, path] = line.route.split(' ') as [string, string]
      const operation = documented[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]
      const statuses: Partial<Record<Caller, number>> = {}
      for (const caller of CALLERS) {
        const answer = await send(line, caller, await line.prepare(world, caller))
        statuses[caller] = answer.status
        if (operation) assert.ok(operation.responses[answer.status], `${caller}: ${answer.status} is not documented`)
        if (answer.status >= 400) assert.equal(typeof answer.body?.detail, 'string', `${caller}: ${answer.text}`)
      }
      assert.deepEqual(statuses, line.expected)
    })
  }
})

test("another organization's id, or one outside the key's domain, is answered as one that does not exist: same body, same statements", async (t) => {
  const statements = recordStatements()
  t.after(() => statements.stop())
  for (const line of matrix) {
    const { route, expected } = line
    if (route.includes('/:')) assert.equal(expected.stranger, 404, `${route}: another organization's id must be 404`)
    for (const caller of ['stranger', 'elsewhere_key'] as const) {
      if (expected[caller] !== 404) continue
      await t.test(`${route} as ${caller}`, async () => {
        const foreign = await line.prepare(world, caller)
        const [theirs, theirStatements] = await statements.during(() => send(line, caller, foreign))
        const [unknown, unknownStatements] = await statements.during(() => send(line, caller, withOtherIds(foreign)))
        assert.deepEqual([theirs.status, theirs.text], [404, unknown.text])
        assert.deepEqual(theirStatements, unknownStatements)
      })
    }
  }
})

/** The same request with ids that nobody has. */
function withOtherIds({ params, body, ...rest }: Prepared): Prepared {
  const replace = (fields: object) =>
    Object.fromEntries(
      Object.entries(fields).map(([name, value]) => [name, UUID.test(String(value)) ? randomUUID() : value]),
    )
  return {
    ...rest,
    ...(params && { params: replace(params) }),
    ...(body !== undefined && { body: replace(body as object) }),
  }
}

/** The SQL texts that reach PostgreSQL meanwhile, except those of timers: the use of keys, and whether a connection lives. */
function recordStatements() {
  const original = pg.Client.prototype.query
  let seen: string[] = []
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    const [query] = args as [string | { text: string }]
    const text = typeof query === 'string' ? query : query.text
    if (!text.includes('SET last_used_at') && text !== 'SELECT 1') seen.push(text)
    return (original as (...all: unknown[]) => unknown).apply(this, args)
  } as never
  return {
    async during<T>(work: () => Promise<T>): Promise<[T, string[]]> {
      seen = []
      const result = await work()
      return [result, [...seen]]
    },
    stop() {
      pg.Client.prototype.query = original
    },
  }
}

test('a role in a domain raises what a domain is about, there and nowhere else', () => {
  const [here, elsewhere] = [randomUUID(), randomUUID()]
  const viewer = { role: 'viewer' as const, domain_roles: { [here]: 'admin' as const }, scope: null }
  const raised = ['pipelines:write', 'pipelines:run', 'domains:write'] as const
  for (const permission of raised) {
    assert.equal(can(viewer, permission, here), true)
    assert.equal(can(viewer, permission, here.toUpperCase()), true)
    assert.equal(can(viewer, permission, elsewhere), false)
    assert.equal(can(viewer, permission), false)
    assert.equal(canSomewhere(viewer, permission), true)
  }
  const kept = Object.keys(permissions).filter(
    (name) => !name.endsWith(':read') && !(raised as readonly string[]).includes(name),
  ) as (keyof typeof permissions)[]
  for (const permission of kept) {
    assert.equal(can(viewer, permission, here), false, permission)
    assert.equal(canSomewhere(viewer, permission), false, permission)
  }
})

test('a role in a domain never lowers', () => {
  const domain = randomUUID()
  for (const role of ROLES) {
    for (const permission of Object.keys(permissions) as (keyof typeof permissions)[]) {
      const alone = can({ role, domain_roles: {}, scope: null }, permission)
      assert.ok(!alone || can({ role, domain_roles: { [domain]: 'member' }, scope: null }, permission, domain))
    }
  }
})

test('the table for the documentation has a row per permission', () => {
  const rows = permissionsTable().split('\n').slice(2)
  assert.equal(rows.length, Object.keys(permissions).length)
  assert.ok(rows.includes('| `api_keys:write` | – | yes | yes | yes | – |'))
  assert.ok(rows.includes('| `organization:transfer` | – | – | – | yes | – |'))
})
