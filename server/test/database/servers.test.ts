/** Several servers in DATABASE_URL: the primary is used, and the next one when it changes. */
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { connectDatabase, type Database, script, sql } from '../../src/database/database.ts'
import { readDatabaseUrl } from '../../src/database/database-url.ts'
import { namesOfServers, splitServers } from '../../src/database/server-list.ts'
import { DatabaseUnavailable } from '../../src/database/unreachable.ts'
import { type CuttingProxy, startCuttingProxy } from '../harness/cutting-proxy.ts'
import { type PostgresServer, startServer } from '../harness/postgres-server.ts'

describe('the list of servers', () => {
  test('is read as libpq does', () => {
    const names = (address: string) => namesOfServers(address).map(({ host, port }) => `${host}:${port}`)
    assert.deepEqual(names('postgres://u:p@a:1,b:2/db?target_session_attrs=read-write'), ['a:1', 'b:2'])
    assert.deepEqual(names('postgresql://u:p%40@a,b/db'), ['a:5432', 'b:5432'])
    assert.deepEqual(names('postgres://u@[::1]:7,b/db'), ['[::1]:7', 'b:5432'])
    assert.deepEqual(names('postgres:///db?host=a,b&port=7'), ['a:7', 'b:7'])
    assert.deepEqual(names('postgres:///db?host=a,b&port=7,8'), ['a:7', 'b:8'])
    assert.deepEqual(names('postgres://u@localhost/db?host=%2Frun%2Fpg'), [])
    for (const wrong of [
      'mysql://a,b/db',
      'postgres://a:x,b/db',
      'postgres://a,,b/db',
      'postgres:///db?host=a,b&port=1,2,3',
    ])
      assert.equal(splitServers(wrong), null, wrong)
  })

  test('a target that cannot be written is refused', () => {
    for (const target of ['standby', 'prefer-standby', 'read-only', 'typo'])
      assert.throws(
        () => readDatabaseUrl(`postgres://a,b/db?target_session_attrs=${target}`),
        /must be read-write or primary/,
      )
  })
})

const report = (error: Error) => void error
let servers: PostgresServer[] = []
let proxies: CuttingProxy[] = []
before(async () => {
  const one = await startServer({})
  // With the same account, as a replica has.
  const two = await startServer({})
  servers = [one, two]
  await setPassword(two, one.password)
  proxies = await Promise.all(servers.map(({ port }) => startCuttingProxy({ host: '127.0.0.1', port })))
  await demote(two)
})
after(async () => {
  for (const proxy of proxies) await proxy.close()
  for (const server of servers) await server.stop()
})

async function setPassword(server: PostgresServer, password: string): Promise<void> {
  const client = await server.connect('postgres')
  await client.query(`ALTER ROLE tester PASSWORD '${password}'`)
  await client.end()
}

/** As `tester` with the password of the first server. */
async function on(server: PostgresServer, statement: string): Promise<{ state?: string }[]> {
  const client = await server.connect('postgres', { name: 'tester', password: servers[0]!.password })
  const { rows } = await client.query(statement)
  await client.end()
  return rows
}

/** A server that refuses writes stands for a standby; open sessions lose the right too. */
async function makeReadOnly(server: PostgresServer, state: 'on' | 'off'): Promise<void> {
  await on(server, `ALTER SYSTEM SET default_transaction_read_only = ${state}`)
  await on(server, 'SELECT pg_reload_conf()')
  const ask = () => on(server, "SELECT current_setting('default_transaction_read_only') AS state")
  while ((await ask())[0]!.state !== state);
}
const demote = (server: PostgresServer) => makeReadOnly(server, 'on')
const promote = (server: PostgresServer) => makeReadOnly(server, 'off')

function connect(order: number[], parameters = ''): Database {
  const list = order.map((index) => `127.0.0.1:${proxies[index]!.port}`).join(',')
  const address = `postgres://tester:${servers[0]!.password}@${list}/postgres?target_session_attrs=read-write${parameters}`
  return connectDatabase(readDatabaseUrl(address).connection, 3, report)
}

const portOf = async (db: Pick<Database, 'first'>) =>
  (await db.first<{ port: string }>(sql`SELECT current_setting('port') AS port`))!.port

const eventually = async (check: () => Promise<boolean>): Promise<void> => {
  const deadline = Date.now() + 30_000
  while (!(await check().catch(() => false))) {
    if (Date.now() > deadline) throw new Error('it did not happen')
    await delay(10)
  }
}

test('the one that can be written is used by requests, claims and notifications, in whatever order', async () => {
  for (const order of [
    [0, 1],
    [1, 0],
  ]) {
    const db = connect(order)
    try {
      const primary = String(servers[0]!.port)
      assert.equal(await portOf(db), primary)
      assert.equal(await portOf(db.control), primary)
      const heard = Promise.withResolvers<string>()
      await db.listen('news', heard.resolve)
      await on(servers[0]!, "NOTIFY news, 'hello'")
      assert.equal(await heard.promise, 'hello')
    } finally {
      await db.close()
    }
  }
})

test('sessions have the settings of `options` as well as ours', async () => {
  const db = connect([0, 1], `&options=${encodeURIComponent('-c work_mem=7MB --geqo=off -c random_page_cost=3')}`)
  try {
    for (const pool of [db, db.control])
      assert.deepEqual(
        await pool.first(sql`
          SELECT current_setting('work_mem') AS work_mem, current_setting('geqo') AS geqo, current_setting('jit') AS jit,
                 current_setting('random_page_cost') AS random_page_cost, current_setting('TimeZone') AS zone`),
        { work_mem: '7MB', geqo: 'off', jit: 'off', random_page_cost: '3', zone: 'UTC' },
      )
  } finally {
    await db.close()
  }
  const wrong = connect([0, 1], `&options=${encodeURIComponent('-c no_such_setting=1')}`)
  await assert.rejects(wrong.first(sql`SELECT 1`), /DATABASE_URL: options cannot be used: .*no_such_setting/)
  await wrong.close()
  const read = (options: string) => readDatabaseUrl(`postgres://a/db?options=${encodeURIComponent(options)}`)
  assert.throws(() => read('-c statement_timeout=0'), /options sets statement_timeout, which Sluice sets itself/)
  assert.throws(() => read('-c nothing'), /write -c name=value/)
  assert.match(read('-c a.b=c\\ d endpoint=x').connection.connectionString!, /options=endpoint%3Dx$/)
  assert.deepEqual(read('-c a.b=c\\ d endpoint=x').connection.session, { 'a.b': 'c d' })
})

test('when another server becomes the primary, statements and notifications move there', async () => {
  const db = connect([0, 1])
  try {
    const gaps: number[] = []
    const heard = Promise.withResolvers<string>()
    await db.listen('news', heard.resolve, () => gaps.push(1))
    await db.execute(sql`CREATE TABLE moved (id int)`)
    proxies[0]!.refuse(true)
    await assert.rejects(db.execute(sql`INSERT INTO moved VALUES (1)`), DatabaseUnavailable)
    await promote(servers[1]!)
    await eventually(async () => (await portOf(db)) === String(servers[1]!.port))
    assert.equal(await portOf(db.control), String(servers[1]!.port))
    await eventually(async () => gaps.length > 1)
    await on(servers[1]!, "NOTIFY news, 'from the other'")
    assert.equal(await heard.promise, 'from the other')
  } finally {
    proxies[0]!.refuse(false)
    await db.close()
  }
})

test('a server that became a standby is left, and its statement counts as not done', async () => {
  await demote(servers[0]!)
  const db = connect([0, 1])
  try {
    assert.equal(await portOf(db), String(servers[1]!.port))
    await db.execute(sql`CREATE TABLE demoted (id int)`)
    await demote(servers[1]!)
    await promote(servers[0]!)
    await eventually(async () => {
      await db.execute(sql`CREATE TABLE IF NOT EXISTS demoted (id int)`)
      return (await portOf(db)) === String(servers[0]!.port)
    })
  } finally {
    await db.close()
  }
})

test('a primary that falls silent is left within seconds, and so are requests that wait for it', async () => {
  const db = connect([0, 1])
  try {
    assert.equal(await portOf(db.control), String(servers[0]!.port))
    await db.first(sql`SELECT 1`)
    const waits = assert.rejects(db.first(sql`SELECT pg_sleep(40)`), DatabaseUnavailable)
    proxies[0]!.fallSilent(true)
    await promote(servers[1]!)
    const began = performance.now()
    // The limit of a control statement is 10 s; the request's own would be a minute.
    await assert.rejects(db.control.first(sql`SELECT 1`), DatabaseUnavailable)
    assert.equal(await portOf(db.control), String(servers[1]!.port))
    await waits
    assert.equal(await portOf(db), String(servers[1]!.port))
    assert.ok(performance.now() - began < 20_000)
  } finally {
    proxies[0]!.recover()
    await db.close()
    await demote(servers[1]!)
  }
})

test('no server that can be written is an outage, not a defect', async () => {
  await demote(servers[0]!)
  const db = connect([0, 1])
  try {
    await assert.rejects(db.execute(script('CREATE TABLE never (id int)')), DatabaseUnavailable)
  } finally {
    await db.close()
    await promote(servers[0]!)
  }
})
