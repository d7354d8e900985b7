/**
 * Writes what an installation has after a year: a few organizations are large and most are small, some pipelines run far more
 * often than others, one run in twenty failed, and the last tenth of the runs still has its output and its log. Everything
 * is computed from the number of a row, so nothing has to be looked up, and the same command writes the same rows.
 */
import pg from 'pg'
import type { ConnectionSettings } from '../../server/src/database/database.ts'
import type { SecretBox } from '../../server/src/database/secret-box.ts'
import { placeOfPipeline } from '../../server/src/pipelines/resolve.ts'

export interface Seed {
  organizations: number
  pipelines: number
  runs: number
  audit: number
  /** An organization that exists becomes the largest one; otherwise all are new. */
  largest?: string
}

const BATCH = 500_000
const CONFIG_BATCH = 5000

/** The organization of a pipeline: the first has a tenth of all if there are a thousand. */
const organizationOf = (pipeline: string, organizations: number) =>
  `1 + floor(${organizations} * power(mod(${pipeline} * 0.7548776662::numeric, 1)::float8, 3))::int`
const pipelineOf = (row: string, pipelines: number) =>
  `1 + floor(${pipelines} * power(mod(${row} * 0.6180339887::numeric, 1)::float8, 2))::int`
const idOf = (kind: string, number: string) => `md5('seed ${kind} ' || ${number})::uuid`
/** Of one row of many, over a year. */
const timeOf = (row: string, rows: number) => `now() - (${rows} - ${row})::float8 / ${rows} * interval '365 days'`

const config = {
  name: 'seeded',
  source: { name: 'dummy', stream: 'creatures', config: { records: 10 } },
  destination: { name: 'file', config: {} },
}

/** Over a connection without timeouts; building the indexes at the end takes a quarter of the time of maintaining them. */
export async function seed(
  connection: ConnectionSettings,
  box: SecretBox,
  seed: Seed,
  say: (text: string) => void = console.log,
): Promise<void> {
  const client = new pg.Client(connection)
  await client.connect()
  try {
    await client.query(
      `SET maintenance_work_mem = '1GB'; SET synchronous_commit = off; SET max_parallel_maintenance_workers = 0`,
    )
    await client.query('BEGIN')
    // Neither triggers nor foreign keys: what is written here fits together.
    await client.query('SET LOCAL session_replication_role = replica')
    await insertOrganizations(client, seed)
    await insertPipelines(client, box, seed, say)
    await withoutIndexes(client, 'runs', say, () => insertRuns(client, seed, say))
    await withoutIndexes(client, 'audit_log', say, () => insertAudit(client, seed, say))
    await insertActivity(client)
    await insertDueTimes(client)
    await client.query('COMMIT')
    say('VACUUM ANALYZE')
    await client.query('VACUUM ANALYZE')
  } finally {
    await client.end()
  }
}

async function withoutIndexes(
  client: pg.Client,
  table: string,
  say: (text: string) => void,
  fill: () => Promise<void>,
) {
  const { rows } = await client.query<{ name: string; definition: string }>(
    `SELECT indexrelid::regclass AS name, pg_get_indexdef(indexrelid) AS definition FROM pg_index i
      WHERE indrelid = $1::regclass AND NOT EXISTS (SELECT FROM pg_constraint WHERE conindid = i.indexrelid)`,
    [table],
  )
  for (const { name } of rows) await client.query(`DROP INDEX ${name}`)
  await fill()
  for (const { name, definition } of rows) {
    say(`building ${name}`)
    await client.query(definition)
  }
}

/** In batches, with what has been written after each. */
async function inBatches(
  total: number,
  what: string,
  say: (text: string) => void,
  insert: (from: number, to: number) => Promise<unknown>,
) {
  for (let from = 1; from <= total; from += BATCH) {
    const to = Math.min(from + BATCH - 1, total)
    await insert(from, to)
    say(`${to.toLocaleString('en-US')} of ${total.toLocaleString('en-US')} ${what}`)
  }
}

async function insertOrganizations(client: pg.Client, { organizations, largest }: Seed): Promise<void> {
  await client.query(
    'CREATE TEMP TABLE seeded_organizations (n int PRIMARY KEY, id uuid NOT NULL, user_id uuid NOT NULL)',
  )
  await client.query(
    `INSERT INTO seeded_organizations
     SELECT n, CASE WHEN n = 1 THEN coalesce($2::uuid, ${idOf('organization', 'n')}) ELSE ${idOf('organization', 'n')} END, ${idOf('user', 'n')} FROM generate_series(1, $1::int) n`,
    [organizations, largest ?? null],
  )
  await client.query(
    `INSERT INTO organizations (id, name, slug) SELECT id, 'Seeded ' || n, 'seeded-' || n FROM seeded_organizations ON CONFLICT DO NOTHING`,
  )
  await client.query(
    `INSERT INTO users (id, email, name) SELECT user_id, 'seeded-' || n || '@example.com', 'Seeded ' || n FROM seeded_organizations`,
  )
  await client.query(
    `INSERT INTO memberships (organization_id, user_id, role) SELECT id, user_id, CASE WHEN $1 AND n = 1 THEN 'admin' ELSE 'owner' END FROM seeded_organizations`,
    [largest !== undefined],
  )
}

/** Their configs are encrypted, and open: a due one runs. */
async function insertPipelines(
  client: pg.Client,
  box: SecretBox,
  { organizations, pipelines }: Seed,
  say: (text: string) => void,
) {
  await client.query(
    'CREATE TEMP TABLE seeded_pipelines (n int PRIMARY KEY, id uuid NOT NULL, organization_id uuid NOT NULL)',
  )
  await client.query(
    `INSERT INTO seeded_pipelines SELECT i, ${idOf('pipeline', 'i')}, o.id
       FROM generate_series(1, $1::int) i JOIN seeded_organizations o ON o.n = ${organizationOf('i', organizations)}`,
    [pipelines],
  )
  for (let from = 1; from <= pipelines; from += CONFIG_BATCH) {
    const { rows } = await client.query<{ id: string; organization_id: string }>(
      'SELECT id, organization_id FROM seeded_pipelines WHERE n BETWEEN $1 AND $2 ORDER BY n',
      [from, from + CONFIG_BATCH - 1],
    )
    await client.query(
      `INSERT INTO pipelines (id, organization_id, name, config_box, source_name, stream, destination_name, schedule, next_run_at, created_at)
       SELECT p.id, p.organization_id, 'Pipeline ' || p.n, b.config_box, 'dummy', 'creatures', 'file', CASE WHEN p.n % 10 < 7 THEN '0 6 * * *' END,
              CASE WHEN p.n % 10 < 7 THEN now() + (1 + p.n % 300) * interval '1 day' END, now() - (p.n % 365) * interval '1 day'
         FROM unnest($1::uuid[], $2::bytea[]) AS b (id, config_box) JOIN seeded_pipelines p ON p.id = b.id`,
      [rows.map(({ id }) => id), rows.map((row) => box.seal(placeOfPipeline(row), config))],
    )
  }
  say(`${pipelines.toLocaleString('en-US')} pipelines of ${organizations.toLocaleString('en-US')} organizations`)
}

/** Ids begin with the number of the run: at random places of its index, millions of them take an hour. */
const insertRuns = (client: pg.Client, { pipelines, runs }: Seed, say: (text: string) => void) =>
  inBatches(runs, 'runs', say, (from, to) =>
    client.query(
      `INSERT INTO runs (id, organization_id, pipeline_id, triggered_by, ready, status, created_at, started_at, finished_at, attempt, worker,
                         records_read, records_written, bytes_written, error, output_file, output_file_size, output_stored_bytes, log_key)
       SELECT (lpad(to_hex(i), 8, '0') || substr(md5(i::text), 9))::uuid, p.organization_id, p.id, CASE WHEN i % 33 = 0 THEN 'manual' ELSE 'schedule' END, true, status,
              at, at + interval '1 second', at + (2 + i % 600) * interval '1 second', 1, 'seeded', 1000, 1000, 100000,
              CASE WHEN status = 'failed' THEN 'source: the server did not answer within 30 seconds' END,
              CASE WHEN status = 'success' AND recent THEN 'output.jsonl' END, CASE WHEN status = 'success' AND recent THEN 100000 END,
              CASE WHEN status = 'success' AND recent THEN 20000 END, CASE WHEN recent THEN 'log' END
         FROM (SELECT i, ${pipelineOf('i', pipelines)} AS pipeline, ${timeOf('i', runs)} AS at, i > ${runs} * 0.9 AS recent,
                      CASE WHEN i % 20 = 0 THEN 'failed' WHEN i % 97 = 0 THEN 'cancelled' ELSE 'success' END AS status
                 FROM generate_series($1::int, $2::int) i) x
         JOIN seeded_pipelines p ON p.n = x.pipeline ORDER BY i`,
      [from, to],
    ),
  )

const ACTIONS = `(ARRAY['run.triggered', 'pipeline.updated', 'pipeline.created', 'run.cancelled', 'member.role_changed', 'api_key.created'])`

const insertAudit = (client: pg.Client, { organizations, pipelines, audit }: Seed, say: (text: string) => void) =>
  inBatches(audit, 'entries of the audit log', say, (from, to) =>
    client.query(
      `INSERT INTO audit_log (organization_id, at, actor_id, actor_email, action, object_type, object_id, details, request_id, client_address)
       SELECT p.organization_id, at, ${idOf('user', 'o')}, 'seeded-' || o || '@example.com', action, split_part(action, '.', 1), p.id::text,
              jsonb_build_object('pipeline', 'Pipeline ' || p.n), md5(i::text), '192.0.2.' || i % 250
         FROM (SELECT i, ${pipelineOf('i', pipelines)} AS pipeline, ${timeOf('i', audit)} AS at,
                      ${ACTIONS}[1 + least(5, floor(8 * power(mod(i * 0.3819660113::numeric, 1)::float8, 3))::int)] AS action
                 FROM generate_series($1::int, $2::int) i) x
         JOIN seeded_pipelines p ON p.n = x.pipeline
        CROSS JOIN LATERAL (SELECT ${organizationOf('p.n', organizations)} AS o) y ORDER BY i`,
      [from, to],
    ),
  )

const insertActivity = (client: pg.Client) =>
  client.query(`
    INSERT INTO pipeline_activity (pipeline_id, organization_id, created_at, last_run_seq, last_run_status, last_run_at)
    SELECT p.id, p.organization_id, n.created_at, r.seq, r.status, r.started_at
      FROM seeded_pipelines p JOIN pipelines n ON n.id = p.id
      LEFT JOIN LATERAL (SELECT * FROM runs r WHERE r.pipeline_id = p.id ORDER BY r.seq DESC LIMIT 1) r ON true`)

const insertDueTimes = (client: pg.Client) =>
  client.query(`
    INSERT INTO pipeline_due (pipeline_id, organization_id, next_run_at)
    SELECT p.id, p.organization_id, p.next_run_at FROM seeded_pipelines s JOIN pipelines p ON p.id = s.id`)
