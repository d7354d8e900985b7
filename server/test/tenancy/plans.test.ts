/** Lists of ten thousand among many others: read by index alone, whatever page and filter is asked for. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Database, type Queryable, type Statement, script, sql } from '../../src/database/database.ts'
import type { Actor } from '../../src/tenancy/actor.ts'
import { listApiKeys } from '../../src/tenancy/api-keys.ts'
import { type AuditFilter, exportAuditLines, listAuditLines } from '../../src/tenancy/audit-log.ts'
import { listDomains } from '../../src/tenancy/domains.ts'
import { listInvitations } from '../../src/tenancy/invitations.ts'
import { listMembers } from '../../src/tenancy/members.ts'
import { noteStatements } from '../harness/count-pages.ts'
import { cloneDatabase } from '../harness/database.ts'

const MANY = 10_000
const database = await cloneDatabase()
test.after(() => database.drop())
const { db } = database
const organizationId = await fill(db)
/** PostgreSQL 16 and later show the plan that is kept for any value. */
const explainsAnyValue =
  (await db.first(sql`SELECT 1 WHERE current_setting('server_version_num')::int >= 160000`)) !== null
const actor = { organization_id: organizationId } as Actor

const pages = [
  { limit: 100, offset: 0 },
  { limit: 1000, offset: 5000 },
  { limit: null, offset: 0 },
]

for (const page of pages) {
  const name = `limit ${page.limit}, offset ${page.offset}`
  const expected = page.limit ?? MANY
  const lists: Record<string, (db: Queryable) => Promise<{ rows: unknown[]; total: number }>> = {
    members: (db) => listMembers(db, actor, page),
    domains: (db) => listDomains(db, actor, page, false),
    'domains with counts': (db) => listDomains(db, actor, page, true),
    'API keys': (db) => listApiKeys(db, actor, page),
    invitations: (db) => listInvitations(db, actor, page),
  }
  for (const [what, list] of Object.entries(lists)) {
    test(`${what} are read by index: ${name}`, async () => {
      const { rows, total } = await assertIndexed(list)
      assert.deepEqual([rows.length, total], [expected, MANY])
    })
  }
}

const middle = { since: '2026-01-01T01:00:00Z', until: '2026-01-01T02:00:00Z' }
const filters: Record<string, { filter: AuditFilter; before?: number }> = {
  'without a filter': { filter: {} },
  'after a cursor': { filter: {}, before: MANY },
  'by actor': { filter: { actor_id: '00000000-0000-4000-8000-000000000003' } },
  'by action': { filter: { action: 'action.3' } },
  'by kind of object': { filter: { object_type: 'type3' } },
  'by object': { filter: { object_id: 'object-33' } },
  'by time': { filter: middle },
  'by all of them': {
    filter: {
      actor_id: '00000000-0000-4000-8000-000000000003',
      action: 'action.3',
      object_type: 'type3',
      object_id: 'object-33',
      ...middle,
    },
    before: MANY,
  },
}
for (const [name, { filter, before }] of Object.entries(filters)) {
  test(`the audit log is read by index: ${name}`, async () => {
    const { rows } = await assertIndexed((db) => listAuditLines(db, actor, filter, { limit: 100, offset: 0, before }))
    assert.ok(rows.length > 0)
  })
}

test('an export reads chunk after chunk by index', async () => {
  const { rows } = await assertIndexed(async (db) => {
    const chunks: number[] = []
    for await (const chunk of exportAuditLines(db, actor, {}, { offset: 0 })) chunks.push(chunk.length)
    return { rows: chunks, total: 0 }
  })
  assert.deepEqual(
    rows,
    Array.from({ length: 10 }, () => 1000),
  )
})

/** Runs a list, then has every statement of it explained, with its values and as the plan that is kept for any. */
async function assertIndexed<T extends { rows: unknown[] }>(list: (db: Queryable) => Promise<T>): Promise<T> {
  const { result, statements } = await noteStatements(db, list)
  for (const { text, values } of statements) {
    await assertNoSequentialScan({ text: `EXPLAIN (FORMAT JSON) ${text}`, values, name: '' })
    if (explainsAnyValue) await assertNoSequentialScan(script(`EXPLAIN (GENERIC_PLAN, FORMAT JSON) ${text}`))
  }
  return result
}

async function assertNoSequentialScan(explain: Statement): Promise<void> {
  const row = await db.first<{ 'QUERY PLAN': unknown }>(explain)
  const plan = JSON.stringify(row!['QUERY PLAN'])
  assert.match(plan, /Index/)
  assert.doesNotMatch(plan, /Seq Scan/, `${explain.text}\n${plan}`)
}

/** One organization with ten thousand of everything, and three times as much in a hundred others. */
async function fill(db: Database): Promise<string> {
  await db.transaction(fillTables)
  await db.execute(script('VACUUM ANALYZE'))
  const row = await db.first<{ id: string }>(sql`SELECT id FROM organizations WHERE slug = 'o0'`)
  return row!.id
}

async function fillTables(tx: Queryable): Promise<void> {
  // What is written here fits together; checking every row of it would take most of the test's time.
  await tx.execute(script('SET LOCAL session_replication_role = replica'))
  await tx.execute(sql`
    INSERT INTO organizations (id, name, slug) SELECT lpad(to_hex(n), 32, '0')::uuid, 'o', 'o' || n FROM generate_series(0, 100) n`)
  await tx.execute(sql`
    INSERT INTO users (id, email, name) SELECT lpad(to_hex(n), 32, '0')::uuid, 'u' || n || '@example.com', 'User ' || n FROM generate_series(1, ${4 * MANY}) n`)
  const mine = sql`CASE WHEN n <= ${MANY} THEN 0 ELSE 1 + n % 100 END`
  const at = sql`timestamptz '2026-01-01' + n * interval '1 second'`
  const rows = sql`(SELECT n, lpad(to_hex(${mine}), 32, '0')::uuid AS org, lpad(to_hex(n), 32, '0')::uuid AS usr, ${at} AS at FROM generate_series(1, ${4 * MANY}) n) x`
  await tx.execute(sql`
    INSERT INTO memberships (organization_id, user_id, role, joined_at) SELECT org, usr, 'member', at FROM ${rows}`)
  await tx.execute(
    sql`INSERT INTO domains (id, organization_id, name, created_at) SELECT usr, org, 'd' || n, at FROM ${rows}`,
  )
  await tx.execute(sql`
    INSERT INTO pipelines (organization_id, name, config_box, stream, domain_id) SELECT org, 'p', '\\x00', 's', usr FROM ${rows}`)
  await tx.execute(sql`
    INSERT INTO api_keys (organization_id, created_by, name, key_prefix, key_hash, created_at)
    SELECT org, usr, 'k', 'svc_live_abc', sha256(n::text::bytea), at FROM ${rows}`)
  await tx.execute(sql`
    INSERT INTO invitations (organization_id, email, role, token_hash, invited_by, created_at, expires_at)
    SELECT org, n || '@example.com', 'member', sha256(n::text::bytea), usr, at, 'infinity' FROM ${rows}`)
  await tx.execute(sql`
    INSERT INTO audit_log (organization_id, at, actor_id, action, object_type, object_id)
    SELECT org, at, ('00000000-0000-4000-8000-00000000000' || n % 10)::uuid, 'action.' || n % 10, 'type' || n % 10, 'object-' || n % 100 FROM ${rows}`)
}
