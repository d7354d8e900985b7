/**
 * An organization as people find it after some weeks: a shop and a warehouse on a real PostgreSQL, pipelines between them that
 * have really run, one that fails, one that is running, and two weeks of runs before today.
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { type Database, sql } from '../../src/database/database.ts'
import type { Call, Tokens } from './console.ts'
import type { PostgresServer } from './postgres-server.ts'
import { root } from './service.ts'

export const PASSWORD = 'Correct-horse-1'
const LONG = 'Invoices of the last quarter with all of their line items, taxes and discounts'
/** Names are text, wherever they appear. */
const NASTY = '<img src=x onerror=alert(1)>'

const SHOP = `
  CREATE TABLE customers (id int PRIMARY KEY, name text, email text, country text, created_at timestamptz);
  INSERT INTO customers SELECT n, (ARRAY['Ada','Grace','Linus','Edsger','Barbara','Alan'])[1 + n % 6] || ' ' ||
    (ARRAY['Meyer','Okafor','Tanaka','Silva','Novak'])[1 + n % 5], 'customer' || n || '@example.com',
    (ARRAY['DE','FR','US','BR','JP','NG'])[1 + n % 6], now() - n * interval '7 hours' FROM generate_series(1, 1800) n;
  CREATE TABLE orders (id int PRIMARY KEY, customer_id int REFERENCES customers, status text, total numeric(10,2),
    placed_at timestamptz, updated_at timestamptz);
  INSERT INTO orders SELECT n, 1 + n % 1800, (ARRAY['paid','shipped','open','returned'])[1 + n % 4], (n * 37 % 49000) / 100.0 + 5,
    now() - (12001 - n) * interval '5 minutes', now() - (12001 - n) * interval '4 minutes' FROM generate_series(1, 12000) n;
  CREATE TABLE products (sku text PRIMARY KEY, name text, price numeric(8,2), stock int);
  INSERT INTO products SELECT 'SKU-' || lpad(n::text, 5, '0'), 'Product ' || n, (n * 13 % 9900) / 100.0 + 1,
    CASE WHEN n % 211 = 0 THEN -1 ELSE n % 90 END FROM generate_series(1, 900) n;
  CREATE VIEW refunds AS SELECT id, customer_id, total, updated_at FROM orders WHERE status = 'returned';
  CREATE TABLE tickets AS SELECT n AS id, 'It does not arrive ' || n AS subject, 1 + n % 7 AS priority FROM generate_series(1, 400) n;
  ${['rates', 'invoices', 'stock', 'shipments', 'subscribers']
    .map((name) => `CREATE TABLE ${name} AS SELECT n AS id, now() AS noted_at FROM generate_series(1, 200) n`)
    .join(';')}`
/** Two tables refuse what the shop should not have: less than nothing in stock, and a priority that nobody knows. */
const WAREHOUSE = `
  CREATE SCHEMA raw;
  CREATE TABLE raw.products (sku text PRIMARY KEY, name text, price numeric, stock int CHECK (stock >= 0));
  CREATE TABLE raw.tickets (id int, subject text, priority int CONSTRAINT known_priority CHECK (priority BETWEEN 1 AND 5))`

export interface Ids {
  pipeline: string
  succeeded: string
  failed: string
  running: string
  refused: string
  connection: string
  source: string
  manifest: string
  webhook: string
  alert: string
  member: string
  invitation: string
}

interface Made {
  name: string
  stream?: string
  config?: object
  sync?: object
  domain?: string
  schedule?: string | null
  /** Minutes between its runs of the last two weeks, how long they took in seconds, how many records; none if it never ran. */
  past?: [everyMinutes: number, seconds: number, records: number]
  /** Why its newest runs failed, and how many did. */
  failing?: [error: string, times: number]
}

export async function fillOrganization(call: Call, owner: Tokens, db: Database, shop: PostgresServer): Promise<Ids> {
  const post = <T = { id: string }>(address: string, body?: unknown) => call<T>('POST', address, { body, as: owner })
  const [from, to] = [await shop.createDatabase(), await shop.createDatabase()]
  const [inShop, inWarehouse] = [await shop.connect(from), await shop.connect(to)]
  await inShop.query(SHOP)
  await inWarehouse.query(WAREHOUSE)
  const server = { host: shop.host, port: shop.port, user: shop.user, password: shop.password }
  const saved = (name: string, connector_name: string, config: object) => ({ name, connector_name, config })
  const connection = (
    await post('/saved/sources', saved('Shop database', 'postgres', { config: { ...server, database: from } }))
  ).id
  await post('/saved/sources', saved('Sample data', 'dummy', { config: { records: 300 } }))
  const warehouse = (
    await post('/saved/destinations', saved('Warehouse', 'postgres', { ...server, database: to, schema: 'raw' }))
  ).id
  const domains: Record<string, string> = {}
  for (const [name, color] of [
    ['Sales', '#2457c5'],
    ['Finance', '#855300'],
    ['Operations', '#14703a'],
  ] as const)
    domains[name] = (await post('/domains', { name, color })).id

  const create = async ({ name, stream, config, sync, domain, schedule = null }: Made): Promise<string> => {
    const between = {
      source: { saved_connector_id: connection, stream },
      destination: { saved_connector_id: warehouse },
      ...(sync && { sync }),
    }
    const body = { name, config: config ?? between, schedule, ...(domain && { domain_id: domains[domain] }) }
    return (await post('/pipelines', body)).id
  }
  const ids: string[] = []
  for (const made of PIPELINES) {
    const id = await create(made)
    ids.push(id)
    await addPast(db, id, made)
  }
  const run = async (id: string): Promise<string> => (await post(`/pipelines/${id}/run`)).id
  const source = await addSources(post)
  const first = await run(ids[0]!)
  await ended(call, owner, first)
  // The shop gets a column, so the second run has a change to show.
  await inShop.query(
    `ALTER TABLE orders ADD channel text; UPDATE orders SET channel = 'web', updated_at = now() WHERE id % 7 = 0`,
  )
  const runs = await Promise.all(ids.slice(0, 5).map(run))
  const people = await addPeople(call, owner, domains)
  for (const id of runs) await ended(call, owner, id)
  const [succeeded, failed, refused] = runs as [string, string, string]
  const running = await run(ids[5]!)
  return { pipeline: ids[0]!, succeeded, failed, refused, running, connection, ...source, ...people }
}

/** The first five really run, the sixth is running while the pages are shown. */
const PIPELINES: Made[] = [
  {
    name: 'Orders to warehouse',
    stream: 'public.orders',
    sync: { mode: 'incremental', cursor_field: 'updated_at', write: 'upsert', primary_key: ['id'] },
    domain: 'Sales',
    schedule: '5 * * * *',
    past: [60, 24, 1240],
  },
  {
    name: 'Tickets',
    stream: 'public.tickets',
    sync: { write: 'append' },
    domain: 'Operations',
    past: [180, 40, 310],
    failing: ['destination: the table raw.tickets refused a row: it violates check constraint "known_priority"', 2],
  },
  {
    name: 'Products',
    stream: 'public.products',
    sync: { write: 'upsert', primary_key: ['sku'], on_error: 'quarantine', max_error_share: 0.5 },
    domain: 'Operations',
    schedule: '25 */2 * * *',
    past: [120, 9, 900],
  },
  {
    name: 'Customers',
    stream: 'public.customers',
    sync: { mode: 'incremental', cursor_field: 'created_at', write: 'upsert', primary_key: ['id'] },
    domain: 'Sales',
    schedule: '40 */4 * * *',
    past: [240, 15, 96],
  },
  {
    name: 'Refunds',
    stream: 'public.refunds',
    domain: 'Finance',
    past: [720, 12, 280],
  },
  {
    name: 'Web events',
    config: {
      source: { name: 'dummy', stream: 'creatures', config: { records: 10_000_000, delay_ms: 1 } },
      destination: { name: 'logger' },
      run: { keep_output: false },
    },
    domain: 'Operations',
    past: [60, 1500, 84_000],
  },
  {
    name: 'Payments',
    stream: 'public.payments',
    domain: 'Finance',
    schedule: '50 */6 * * *',
    past: [360, 31, 4100],
    failing: ['auth: the server refused the password of the role "loader"', 3],
  },
  { name: 'Exchange rates', stream: 'public.rates', domain: 'Finance', schedule: '55 5 * * *', past: [1440, 3, 170] },
  { name: LONG, stream: 'public.invoices', domain: 'Finance', schedule: '55 3 * * 1-5', past: [1440, 420, 58_000] },
  { name: NASTY, stream: 'public.stock', schedule: null, past: [2880, 5, 12] },
  {
    name: 'Shipments',
    stream: 'public.shipments',
    domain: 'Operations',
    schedule: '35 */3 * * *',
    past: [180, 52, 640],
  },
  { name: 'Newsletter', stream: 'public.subscribers', domain: 'Sales', schedule: '58 7 * * *' },
]

/** Two weeks of runs that are over, up to the last time that its schedule could have been due. */
async function addPast(db: Database, pipeline: string, { past, failing }: Made): Promise<void> {
  if (past === undefined) return
  const [everyMinutes, seconds, records] = past
  const [error, times] = failing ?? ['destination: the connection was closed by the server', 0]
  await db.execute(sql`
    INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, attempt, created_at, started_at, finished_at,
      records_read, records_written, bytes_written, error)
    SELECT p.organization_id, p.id, 'schedule', false, CASE WHEN failed THEN 'failed' ELSE 'success' END, 1, t, t + interval '1 second',
      t + ${seconds}::int * (0.6 + (n * 7 % 11) / 12.0) * interval '1 second', amount, CASE WHEN failed THEN 0 ELSE amount END, amount * 240,
      CASE WHEN failed THEN ${error}::text END
      FROM pipelines p, generate_series(1, 14 * 1440 / ${everyMinutes}::int) AS at (n),
        LATERAL (SELECT now() - n * ${everyMinutes}::int * interval '1 minute' - interval '20 minutes',
          n <= ${times}::int OR (n % 97 = 50 AND ${times}::int >= 0),
          (${records}::int * (0.5 + (n * 13 % 17) / 16.0))::int) AS of (t, failed, amount)
     WHERE p.id = ${pipeline} ORDER BY t`)
}

type Post = <T = { id: string }>(address: string, body?: unknown) => Promise<T>

async function addSources(post: Post): Promise<Pick<Ids, 'source' | 'manifest' | 'webhook' | 'alert'>> {
  const code = readFileSync(path.join(root, 'python/examples/greenhouse.py'), 'utf8')
  const { id: source } = await post('/custom-sources', { name: 'Greenhouse', source_name: 'greenhouse', code })
  const { id: manifest } = await post('/manifests', { name: 'Weather', source_name: 'weather', manifest: MANIFEST })
  const hook = { url: 'https://hooks.example.com/sluice', events: ['run.failed'], description: NASTY }
  const alert = {
    name: NASTY,
    on: ['failed', 'recovered', 'late', 'row_count'],
    late_after_minutes: 1440,
    min_records: 1,
    channel: { type: 'slack', url: 'https://hooks.example.com/services/T0/B0/secret' },
    quiet_hours: { from: '22:00', to: '07:00', time_zone: 'Europe/Berlin' },
  }
  const [webhook, { id: rule }] = [(await post('/webhooks', hook)).id, await post('/alerts', alert)]
  return { source, manifest, webhook, alert: rule }
}

const MANIFEST = `version: 6.0.0
type: DeclarativeSource
check:
  type: CheckStream
  stream_names: [stations]
streams:
  - type: DeclarativeStream
    name: stations
    primary_key: [id]
    retriever:
      type: SimpleRetriever
      requester:
        type: HttpRequester
        url_base: https://api.example.com
        path: /v1/stations
      record_selector:
        type: RecordSelector
        extractor:
          type: DpathExtractor
          field_path: [stations]
`

async function addPeople(call: Call, owner: Tokens, domains: Record<string, string>) {
  const invite = async (email: string, role: string): Promise<string> => {
    const body = { email, role }
    const { invite_url } = await call<{ invite_url: string }>('POST', '/users/invite', { body, as: owner })
    return new URL(invite_url).searchParams.get('token')!
  }
  const join = async (email: string, name: string, role: string): Promise<string> => {
    const invitation_token = await invite(email, role)
    const body = { email, password: PASSWORD, name, invitation_token }
    return (await call<{ user: { id: string } }>('POST', '/auth/register', { body })).user.id
  }
  await join('vera@example.com', `Vera ${NASTY}`, 'viewer')
  const member = await join('linus@example.com', 'Linus Okafor', 'viewer')
  const grant = { domain_id: domains.Sales, role: 'member' }
  await call('POST', `/users/${member}/domain-roles`, { body: grant, as: owner })
  return { member, invitation: await invite('grace@example.com', 'viewer') }
}

async function ended(call: Call, as: Tokens, id: string): Promise<void> {
  for (;;) {
    const { finished_at } = await call<{ finished_at: string | null }>('GET', `/pipelines/runs/${id}`, { as })
    if (finished_at !== null) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}
