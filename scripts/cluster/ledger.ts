/**
 * The ledger: every record exactly once in the destination and in the outputs, every acknowledged run with a true end, every
 * commit in the destination by the attempt that owned the run, and nothing left over.
 */
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { assertSameRows } from '../../server/test/harness/ledger.ts'
import { type Blow, LEASE_SECONDS, pidOf } from './faults.ts'
import { type Flow, FULL, isIncremental, readGenerated } from './flows.ts'
import type { Client } from './load.ts'
import type { Postgres } from './servers.ts'

/** A worker that was hit may lose its lease this long after. */
const AFTERMATH_MS = LEASE_SECONDS * 4000
const SETTLE_MS = 6 * 60_000
const DOWNLOADS = 4

export interface Finding {
  what: string
  figure: string
  problems: string[]
}

/** Every commit of a load writes its mark, in the same transaction, and while it holds the lock of that row. */
export const watchCommits = ({ pool }: Postgres) =>
  pool.query(`
    CREATE SCHEMA ledger;
    CREATE TABLE ledger.commits (place bigserial PRIMARY KEY, at timestamptz, machine text, pipeline_id text, run_id text, seq int8, attempt int4);
    CREATE FUNCTION ledger.note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
      INSERT INTO ledger.commits (at, machine, pipeline_id, run_id, seq, attempt)
      VALUES (clock_timestamp(), host(inet_client_addr()), NEW.pipeline_id, NEW.run_id, NEW.seq, NEW.attempt); RETURN NULL; END $$;
    CREATE TRIGGER note AFTER INSERT OR UPDATE ON target._sluice_marks FOR EACH ROW EXECUTE FUNCTION ledger.note()`)

export async function untilFinished({ pool }: Postgres, say: (line: string) => void): Promise<void> {
  const deadline = Date.now() + SETTLE_MS
  for (let turn = 0; ; turn++) {
    const { rows } = await pool
      .query<{ left: number }>(`SELECT count(*)::int AS left FROM runs WHERE finished_at IS NULL`)
      .catch(() => ({ rows: [] }))
    if (rows[0]?.left === 0 || Date.now() > deadline) return
    if (turn % 20 === 0) say(`${rows[0]?.left ?? 'unknown'} runs have not ended`)
    await delay(500)
  }
}

interface RunRow {
  id: string
  pipeline_id: string
  status: string
  error: string | null
  attempt: number
  records_written: number
  triggered_by: string
  has_output: boolean
}

export interface Books {
  database: Postgres
  warehouse: Postgres
  client: Client
  flows: Flow[]
  acknowledged: string[]
  blows: Blow[]
}

export async function closeBooks(books: Books): Promise<Finding[]> {
  const { rows: runs } = await books.database.pool.query<RunRow>(
    `SELECT id, pipeline_id, status, error, attempt, records_written::int AS records_written, triggered_by, output_parts IS NOT NULL AS has_output FROM runs ORDER BY seq`,
  )
  const outputs = await readOutputs(books.client, runs)
  return [
    checkEnds(runs, books.acknowledged),
    await checkDead(books, runs),
    await checkCommits(books.warehouse),
    ...(await Promise.all(
      books.flows.map((flow) =>
        checkFlow(
          books,
          flow,
          runs.filter((run) => run.pipeline_id === flow.id),
          outputs,
        ),
      ),
    )),
  ]
}

/** The sentence of a run whose workers were lost again and again, which is true here. */
const GIVEN_UP = /^internal: the run was given up after its worker was lost/

function checkEnds(runs: RunRow[], acknowledged: string[]): Finding {
  const by = Map.groupBy(runs, ({ status }) => status)
  const known = new Set(runs.map(({ id }) => id))
  const lost = acknowledged.filter((id) => !known.has(id))
  const open = [...(by.get('pending') ?? []), ...(by.get('running') ?? [])]
  const failed = by.get('failed') ?? []
  const resumed = runs.filter(({ attempt }) => attempt > 1).length
  return {
    what: 'runs',
    figure: `${runs.length} (${by.get('success')?.length ?? 0} success, ${failed.length} failed, ${open.length} open); ${acknowledged.length} acknowledged, ${lost.length} of them lost; ${runs.filter(({ triggered_by }) => triggered_by === 'schedule').length} by schedule; ${resumed} needed another attempt`,
    problems: [
      ...lost.map((id) => `the acknowledged run ${id} does not exist`),
      ...open.map(({ id, status }) => `run ${id} is still ${status}`),
      ...failed.filter(({ error }) => !GIVEN_UP.test(error ?? '')).map(({ id, error }) => `run ${id} failed: ${error}`),
    ],
  }
}

/** Every lost worker in a log was really hit at that time: killed, frozen or cut off, not only without a database. */
async function checkDead({ client, blows }: Books, runs: RunRow[]): Promise<Finding> {
  const problems: string[] = []
  let lost = 0
  for (const run of runs.filter(({ attempt }) => attempt > 1)) {
    const { logs } = (await client.get(`/pipelines/runs/${run.id}/logs`)) as { logs: string[] | string }
    const lines = Array.isArray(logs) ? logs : logs.split('\n')
    for (const line of lines) {
      const [, worker] = /The worker on (\S+) was lost/.exec(line) ?? []
      if (worker === undefined) continue
      lost++
      const at = Date.parse(/\d{4}-\d\d-\d\dT[\d:.]+Z/.exec(line)?.[0] ?? '')
      const hit = blows.some(
        ({ pid, from, until, what }) =>
          pid === pidOf(worker) &&
          what !== 'stopped' &&
          !(at < from) &&
          // Outages in a row may delay that it is noticed; a killed one does not come back meanwhile.
          (what === 'killed' || !(at > until + AFTERMATH_MS)),
      )
      if (!hit) problems.push(`run ${run.id}: ${line.trim()}`)
    }
  }
  return { what: 'workers counted as lost', figure: `${lost}, ${problems.length} of them without cause`, problems }
}

/** The marks of a pipeline are written one after another: once a later attempt has one, an earlier one must not follow. */
async function checkCommits({ pool }: Postgres): Promise<Finding> {
  const { rows } = await pool.query<{ commits: number; taken_over: number; wrong: number }>(`
    SELECT count(*)::int AS commits, count(*) FILTER (WHERE run_id = before_run AND attempt > before_attempt AND machine <> before_machine)::int AS taken_over,
           count(*) FILTER (WHERE (seq, attempt) < (before_seq, before_attempt))::int AS wrong
      FROM (SELECT c.*, lag(run_id) OVER w AS before_run, lag(seq) OVER w AS before_seq, lag(attempt) OVER w AS before_attempt, lag(machine) OVER w AS before_machine
              FROM ledger.commits c WINDOW w AS (PARTITION BY pipeline_id ORDER BY place)) o`)
  const { commits, taken_over, wrong } = rows[0]!
  return {
    what: 'commits in the destination',
    figure: `${commits}, ${taken_over} of them took a run over from another machine, ${wrong} by an attempt that had lost it`,
    problems: wrong > 0 ? [`${wrong} commits by an attempt that had lost its run`] : [],
  }
}

async function readOutputs(client: Client, runs: RunRow[]): Promise<Map<string, string>> {
  const outputs = new Map<string, string>()
  const left = runs.filter(({ has_output }) => has_output)
  const download = async () => {
    for (let run = left.pop(); run !== undefined; run = left.pop())
      for (let tries = 1; ; tries++) {
        const { status, body } = await client.send('GET', `/pipelines/runs/${run.id}/output`)
        if (status === 200) outputs.set(run.id, body)
        if (status === 200 || tries === 5) break
        await delay(1000)
      }
  }
  await Promise.all(Array.from({ length: DOWNLOADS }, download))
  return outputs
}

async function checkFlow(
  { warehouse }: Books,
  flow: Flow,
  runs: RunRow[],
  outputs: Map<string, string>,
): Promise<Finding> {
  const problems: string[] = []
  const done = runs.filter(({ status }) => status === 'success')
  const lines = new Map<string, string[]>()
  for (const run of done) {
    const output = outputs.get(run.id)
    // A run that found nothing new may have none.
    if (output === undefined && run.records_written > 0) problems.push(`run ${run.id} has no output that can be read`)
    const own = (output ?? '').split('\n').filter(Boolean)
    if (own.length !== run.records_written)
      problems.push(`run ${run.id} says ${run.records_written} records and has ${own.length} in its output`)
    lines.set(run.id, own)
  }
  const rows = flow.kind === 'file' ? '' : ` ${await countRows(warehouse, flow)} rows,`
  try {
    await check[flow.kind]({ warehouse, flow, runs, lines })
  } catch (error) {
    problems.push((error as Error).message)
  }
  if (isIncremental(flow)) problems.push(...findRepeated(flow, lines))
  return {
    what: flow.name,
    figure: `${runs.length} runs, ${done.length} success,${rows} ${sum(lines)} in outputs`,
    problems,
  }
}

const sum = (lines: Map<string, string[]>): number => [...lines.values()].reduce((total, own) => total + own.length, 0)

const countRows = async ({ pool }: Postgres, { name }: Flow): Promise<number> =>
  (await pool.query<{ count: number }>(`SELECT count(*)::int AS count FROM target.${name}`)).rows[0]!.count

/** An incremental pipeline reads each version of a record once, so no two outputs have it. */
function findRepeated({ kind }: Flow, lines: Map<string, string[]>): string[] {
  const seen = new Map<string, string>()
  const problems: string[] = []
  for (const [run, own] of lines)
    for (const line of own) {
      const key = keyOf(kind, line)
      const before = seen.get(key)
      if (before !== undefined && problems.length < 3)
        problems.push(`record ${key} is in the outputs of ${before} and ${run}`)
      seen.set(key, run)
    }
  return problems
}

/** Rows from one table to another are kept as tab-separated text, generated ones as JSON lines. */
function keyOf(kind: Flow['kind'], line: string): string {
  if (kind === 'grown') return String((JSON.parse(line) as { id: number }).id)
  const [id, version] = line.split('\t')
  return kind === 'accounts' ? `${id} ${version}` : id!
}

interface Checked {
  warehouse: Postgres
  flow: Flow
  runs: RunRow[]
  lines: Map<string, string[]>
}

const check: Record<Flow['kind'], (checked: Checked) => Promise<void>> = {
  grown: async ({ warehouse, flow }) => compareGenerated(warehouse, flow),
  events: ({ warehouse, flow }) => compareTables(warehouse, flow),
  accounts: ({ warehouse, flow }) => compareTables(warehouse, flow),
  async replaced(checked) {
    await compareGenerated(checked.warehouse, checked.flow)
    await compareOutputs(checked)
  },
  file: compareOutputs,
  async readings({ warehouse, flow, runs, lines }) {
    const { rows } = await warehouse.pool.query<{ reading: string; count: number; ids: number }>(
      `SELECT extract(epoch FROM reading)::text AS reading, count(*)::int AS count, count(DISTINCT id)::int AS ids FROM target.${flow.name} GROUP BY 1`,
    )
    const partial = rows.filter(({ count, ids }) => count !== FULL || ids !== FULL)
    if (partial.length > 0)
      throw new Error(`${partial.length} readings are not ${FULL} rows: ${JSON.stringify(partial[0])}`)
    // A run that was given up may have published before its last worker was lost.
    const most = runs.filter(({ status }) => status !== 'cancelled').length
    if (rows.length < lines.size || rows.length > most)
      throw new Error(`${lines.size} runs succeeded and the table has ${rows.length} readings`)
  },
}

async function compareTables({ pool }: Postgres, { name }: Flow): Promise<void> {
  const { rows } = await pool.query<{ missing: number; extra: number }>(`
    SELECT (SELECT count(*)::int FROM (SELECT to_jsonb(o) FROM origin.${name} o EXCEPT ALL SELECT to_jsonb(t) FROM target.${name} t) x) AS missing,
           (SELECT count(*)::int FROM (SELECT to_jsonb(t) FROM target.${name} t EXCEPT ALL SELECT to_jsonb(o) FROM origin.${name} o) x) AS extra`)
  const { missing, extra } = rows[0]!
  if (missing > 0 || extra > 0)
    throw new Error(`${missing} rows are missing in the destination, ${extra} are doubled or unexpected`)
}

async function compareGenerated({ pool }: Postgres, flow: Flow): Promise<void> {
  const { rows } = await pool.query<{ row: string }>(`SELECT row_to_json(t)::text AS row FROM target.${flow.name} t`)
  const expected = (await readGenerated(flow)).split('\n').filter(Boolean)
  assertSameRows(
    rows.map(({ row }) => row),
    expected,
    flow.name,
  )
}

async function compareOutputs({ flow, lines }: Checked): Promise<void> {
  const hash = (text: string) => createHash('sha256').update(text).digest('hex')
  const expected = hash((await readGenerated(flow)).trimEnd())
  const wrong = [...lines].filter(([, own]) => hash(own.join('\n')) !== expected)
  if (wrong.length > 0)
    throw new Error(`${wrong.length} outputs differ from their source, the first that of run ${wrong[0]![0]}`)
}
