/** What a list of pipelines reads in an organization with 100,000 of them, with the statistics that PostgreSQL takes by itself. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Queryable, type Statement, script, sql } from '../../src/database/database.ts'
import { listPipelines, PIPELINE_SORTS, type PipelineFilter, type PipelineSort } from '../../src/pipelines/list.ts'
import type { Actor } from '../../src/tenancy/actor.ts'
import { cloneDatabase } from '../harness/database.ts'

const PIPELINES = 100_000
const database = await cloneDatabase()
test.after(() => database.drop())
const { db } = database
const organization = '00000000-0000-4000-8000-000000000001'
const domain = '00000000-0000-4000-8000-0000000000d1'
const actor: Pick<Actor, 'organization_id' | 'scope'> = { organization_id: organization, scope: null }
await fill()

const filters: Record<string, PipelineFilter> = {
  'no filter': {},
  'a status that is rare': { status: 'failed' },
  'the status that is common': { status: 'success' },
  'a source that is rare': { source: 'postgres' },
  'the source that is common': { source: 'dummy' },
  'a destination that is rare': { destination: 'postgres' },
  'being disabled, which is rare': { enabled: false },
  'being enabled': { enabled: true },
  'having no schedule, which is rare': { scheduled: false },
  'having a schedule': { scheduled: true },
  'a small domain': { domain_id: domain },
  'a rare source and a common status': { source: 'postgres', status: 'success' },
}
// A page of a hundred rows, each with its activity. Sorted otherwise than its index, a filter reads what matches it, or goes
// through the order until it has a page; reading everything would be 400,000 pages.
for (const [name, filter] of Object.entries(filters))
  for (const sort of ['-created_at', 'name', '-last_run_at', 'next_run_at'] as const)
    test(`pipelines by ${name}, sorted by ${sort}, read little`, async () => {
      const { items, pages, counted } = await countPages(filter, sort)
      assert.ok(items > 0)
      const most = sort === '-created_at' && Object.keys(filter).length < 2 ? 4000 : 60_000
      assert.ok(pages < most, `${pages} pages`)
      // The total is counted to ten thousand.
      assert.ok(counted < pages + 45_000, `${counted} pages with the total`)
    })

test('a search reads names from an index, whatever it finds', async () => {
  for (const [q, least] of [
    ['number 99999', 1],
    ['nothing like this', 0],
    ['NUMBER', 100],
  ] as const)
    for (const sort of PIPELINE_SORTS) {
      const { items, pages } = await countPages({ q }, sort)
      assert.ok(items >= least, `${q}: ${items}`)
      // The table itself has more than this.
      assert.ok(pages < 3500 || sort.endsWith('_run_at'), `${q}, ${sort}: ${pages} pages`)
    }
  const { whole } = (await db.first<{ whole: number }>(
    sql`SELECT pg_relation_size('pipelines') / current_setting('block_size')::int AS whole`,
  ))!
  assert.ok(whole > 10_000, `the table has ${whole} pages`)
})

/** Of the page alone, and with its total. */
async function countPages(filter: PipelineFilter, sort: PipelineSort) {
  const statements: Statement[] = []
  const searches: Statement[] = []
  const noting: Queryable = {
    query: (statement) => {
      searches.push(statement)
      return db.query(statement)
    },
    execute: (statement) => db.execute(statement),
    first: (statement) => {
      statements.push(statement)
      return db.first(statement)
    },
  }
  const { json } = await listPipelines(noting, actor, filter, { limit: 100, offset: 0, sort })
  const [{ name, text, values }] = statements as [Statement]
  // Planned each time: a plan for any organization is one for an average one.
  assert.equal(name, '')
  const total = text.lastIndexOf('(SELECT count(*)')
  const page = total === -1 ? text : `${text.slice(0, text.lastIndexOf(',', total))}`
  const used = values.slice(0, new Set(page.match(/\$\d+/g)).size)
  let searched = 0
  for (const search of searches) searched += await pagesOf(search.text, search.values)
  return {
    items: (JSON.parse(json) as unknown[]).length,
    pages: searched + (await pagesOf(page, used)),
    counted: searched + (await pagesOf(text, values)),
  }
}

async function pagesOf(text: string, values: unknown[]): Promise<number> {
  const row = await db.first<{ 'QUERY PLAN': { Plan: Record<string, number> }[] }>({
    text: `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${text}`,
    values,
    name: '',
  })
  const { Plan } = row!['QUERY PLAN'][0]!
  return Plan['Shared Hit Blocks']! + Plan['Shared Read Blocks']!
}

/** One of a hundred is off, by hand, from or to somewhere else; one of fifty failed. Some more belong to others. */
async function fill(): Promise<void> {
  await db.transaction(async (tx) => {
    await tx.execute(script('SET LOCAL session_replication_role = replica'))
    await tx.execute(sql`
      INSERT INTO pipelines (id, organization_id, name, config_box, stream, source_name, destination_name, schedule, enabled, domain_id, next_run_at, created_at)
      SELECT gen_random_uuid(), CASE WHEN n <= ${PIPELINES} THEN ${organization}::uuid ELSE gen_random_uuid() END, 'Pipeline number ' || n, decode(repeat('ab', 900), 'hex'), 's',
             CASE WHEN n % 100 = 1 THEN 'postgres' ELSE 'dummy' END, CASE WHEN n % 100 = 2 THEN 'postgres' ELSE 'file' END,
             CASE WHEN n % 100 <> 3 THEN '0 6 * * *' END, n % 100 <> 4, CASE WHEN n % 1000 = 5 THEN ${domain}::uuid END,
             CASE WHEN n % 100 <> 3 THEN timestamptz '2027-01-01' + n % 1440 * interval '1 minute' END, timestamptz '2026-01-01' + n * interval '1 second'
        FROM generate_series(1, ${PIPELINES + 10_000}) n`)
    await tx.execute(sql`
      INSERT INTO pipeline_activity (pipeline_id, organization_id, created_at, last_run_seq, last_run_status, last_run_at)
      SELECT id, organization_id, created_at, 1, CASE WHEN random() < 0.02 THEN 'failed' ELSE 'success' END, created_at + random() * interval '9 days' FROM pipelines`)
    await tx.execute(sql`
      INSERT INTO pipeline_due (pipeline_id, organization_id, next_run_at)
      SELECT id, organization_id, CASE WHEN enabled THEN next_run_at END FROM pipelines`)
  })
  await db.execute(script('VACUUM ANALYZE'))
}
