/** Writes millions of ended runs of 20,000 pipelines; half of both belong to one organization. */
import pg from 'pg'
import type { ConnectionSettings } from '../../server/src/database/database.ts'

interface Filling {
  organization: string
  /** One in five hundred pipelines is in it. */
  domain: string
  runs: number
}

const PIPELINES = 10_000
const BATCH = 1_000_000

/** Over a connection without timeouts. Building the indexes at the end takes a quarter of the time of maintaining them. */
export async function fillRuns(connection: ConnectionSettings, { organization, domain, runs }: Filling): Promise<void> {
  const client = new pg.Client(connection)
  await client.connect()
  try {
    const { rows: indexes } = await client.query(`
      SELECT indexrelid::regclass AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index i
       WHERE indrelid = 'runs'::regclass AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid)`)
    await client.query("SET maintenance_work_mem = '1GB'; SET synchronous_commit = off")
    await client.query('BEGIN')
    // Neither triggers nor foreign keys: what is written here fits together.
    await client.query('SET LOCAL session_replication_role = replica')
    for (const { name } of indexes) await client.query(`DROP INDEX ${name}`)
    await client.query(
      `INSERT INTO pipelines (id, organization_id, name, config_box, stream, domain_id)
       SELECT ('00000000-0000-4000-8000-' || lpad(to_hex(n), 12, '0'))::uuid, CASE WHEN n <= $1 THEN $2::uuid ELSE gen_random_uuid() END,
              'Pipeline ' || n, '\\x00', 's', CASE WHEN n % 500 = 0 THEN $3::uuid END
         FROM generate_series(1, 2 * $1::int) n`,
      [PIPELINES, organization, domain],
    )
    for (let from = 1; from <= runs; from += BATCH) {
      const to = Math.min(from + BATCH - 1, runs)
      await insertRuns(client, { from, to, runs })
      console.log(`${to.toLocaleString('en-US')} of ${runs.toLocaleString('en-US')} runs written`)
    }
    console.log('building the indexes')
    for (const { definition } of indexes) await client.query(definition)
    await client.query(`
      INSERT INTO pipeline_activity (pipeline_id, organization_id, created_at, last_run_seq, last_run_status, last_run_at)
      SELECT p.id, p.organization_id, p.created_at, r.seq, r.status, r.created_at
        FROM pipelines p CROSS JOIN LATERAL (SELECT * FROM runs r WHERE r.pipeline_id = p.id ORDER BY seq DESC LIMIT 1) r ON CONFLICT DO NOTHING`)
    await client.query('COMMIT')
    await client.query('VACUUM ANALYZE')
  } finally {
    await client.end()
  }
}

async function insertRuns(
  client: pg.Client,
  { from, to, runs }: Record<'from' | 'to' | 'runs', number>,
): Promise<void> {
  await client.query(
    `INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, created_at, started_at, finished_at, attempt, worker,
                       records_read, records_written, bytes_written, output_file, output_file_size, log_key)
     SELECT p.organization_id, p.id, CASE WHEN n % 1000 = 0 THEN 'manual' ELSE 'schedule' END, true, CASE WHEN failed THEN 'failed' ELSE 'success' END,
            at, at, at + interval '2 seconds', 1, 'bench', 1000, 1000, 100000,
            CASE WHEN NOT failed AND recent THEN 'output.jsonl' END, CASE WHEN NOT failed AND recent THEN 100000 END, CASE WHEN recent THEN 'log' END
       FROM (SELECT n, n % 200 = 0 AS failed, n > $3 * 0.9 AS recent, now() - ($3 - n)::float8 / $3 * interval '300 days' AS at FROM generate_series($1::int, $2::int) n) x
       JOIN pipelines p ON p.id = ('00000000-0000-4000-8000-' || lpad(to_hex(1 + (n * 7919::bigint) % (2 * $4::int)), 12, '0'))::uuid`,
    [from, to, runs, PIPELINES],
  )
}
