/** Runs that ask for a pod of their own: only a worker that was started for their class takes them, one each. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { after, test } from 'node:test'
import { connectDatabase, script, sql } from '../../src/database/database.ts'
import { NIL_UUID } from '../../src/database/lists.ts'
import { claim } from '../../src/runs/claim.ts'
import { failRunsOfWithdrawnClasses } from '../../src/runs/withdrawn-classes.ts'
import { scheduleDuePipelines } from '../../src/scheduler/due-pipelines.ts'
import { registerPerson, SECRET } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'
import { databaseSettings, environment, makeDataDir, runSluice } from '../harness/service.ts'

const engine = await startEngine({ POD_CLASSES: 'small,large', RUN_CHECKPOINT_MS: '50' })
const { services } = engine
const { db } = services
const folder = makeDataDir()
after(() => rmSync(folder, { recursive: true, force: true }))

const pod = (resources?: string) => ({ isolation: 'pod', ...(resources && { resources }) })
const triggerPod = async (resources?: string, more: Record<string, unknown> = {}) =>
  engine.trigger(await engine.createPipeline({ run: pod(resources), ...more }))
const once = (podClass: string, env: Record<string, string> = {}) =>
  runSluice(
    ['worker', '--once', '--class', podClass],
    environment(folder, {
      ...databaseSettings(engine.connection),
      JWT_SECRET_KEY: SECRET,
      ENCRYPTION_KEY: SECRET,
      POD_CLASSES: 'small,large',
      BLOB_URL: `file://${services.config.DATA_DIR}/blobs`,
      RUN_CHECKPOINT_MS: '50',
      ...env,
    }),
  )
const endAll = () =>
  db.execute(sql`UPDATE runs SET status = 'cancelled', finished_at = now() WHERE status IN ('pending', 'running')`)
const depth = async (name: string, share: number | null = null) =>
  (await db.first<{ depth: number }>(sql`SELECT queue_depth(${name}, ${share}) AS depth`))!.depth

test('a claim takes runs of its own class only, and a run without a class is of the first', async () => {
  const [shared, small, large] = [
    await engine.trigger(await engine.createPipeline({})),
    await triggerPod(),
    await triggerPod('large'),
  ]
  const take = async (podClass?: string) =>
    (await claim(db, { worker: 'w', free: 8, perOrganization: 8, leaseSeconds: 60, after: NIL_UUID, podClass })).run_ids
  assert.deepEqual(await take(), [shared])
  assert.deepEqual(await take('large'), [large])
  assert.deepEqual(await take('small'), [small])
  await endAll()
})

test('a run says what it waits for, and that no worker of its class has come', async () => {
  const waiting = async (run: string) =>
    (await engine.call('GET', `/api/pipelines/runs/${run}`, { as: engine.person })).body.waiting
  const pipeline = await engine.createPipeline({ run: pod('large') })
  const first = await engine.trigger(pipeline)
  assert.equal(await waiting(first), "It waits for a worker of the class 'large', which is started for it.")
  assert.equal(await waiting(await engine.trigger(pipeline)), 'The previous run of this pipeline has to end first.')
  const since = (start: string) =>
    db.execute(
      sql`UPDATE runs SET created_at = now() - ${start}::interval, available_at = now() - ${start}::interval WHERE id = ${first}`,
    )
  await since('7 minutes')
  assert.match(await waiting(first), /class 'large', and none has taken it for 7 minutes: ask the operator/)
  const shared = await engine.trigger(await engine.createPipeline({}))
  assert.equal(await waiting(shared), 'It waits for a free worker.')
  await since('-1 hour')
  assert.match(await waiting(first), /^The next attempt begins at 20\S+Z\.$/)
  await endAll()
  assert.equal(await waiting(first), null)
})

test('an older worker, which names no class, takes only shared runs', async () => {
  await triggerPod('small')
  const shared = await engine.trigger(await engine.createPipeline({}))
  const row = await db.first<{ run_ids: string[] }>(sql`SELECT run_ids FROM claim_runs('old', 8, 8, 60, ${NIL_UUID})`)
  assert.deepEqual(row?.run_ids, [shared])
  await endAll()
})

test('runs in pods count towards the share of their organization', async () => {
  await triggerPod('small')
  const shared = await engine.trigger(await engine.createPipeline({}))
  const request = { worker: 'w', free: 8, perOrganization: 1, leaseSeconds: 60, after: NIL_UUID }
  assert.deepEqual((await claim(db, request)).run_ids, [shared])
  assert.deepEqual((await claim(db, { ...request, podClass: 'small' })).run_ids, [])
  assert.equal(await depth('small', 1), 0, 'so no pod is started for it')
  assert.equal(await depth('small'), 1)
  await endAll()
})

test('a worker for one run takes one of its class, sees it through and exits; workers that stay leave it alone', async () => {
  const worker = await engine.work()
  const [first, second, other] = [await triggerPod('small'), await triggerPod('small'), await triggerPod('large')]
  const shared = await engine.trigger(await engine.createPipeline({}))
  assert.equal((await engine.finished(shared)).status, 'success')
  const { code, stdout } = await once('small').ended
  assert.equal(code, 0, stdout)
  assert.equal((await engine.run(first)).status, 'success')
  assert.equal((await engine.run(second)).status, 'pending')
  assert.equal((await engine.run(other)).status, 'pending')
  await worker.stop(AbortSignal.abort())
  await endAll()
})

test('a failed run is its own affair: the worker exits with 0', async () => {
  const run = await triggerPod('small', { dummy: { records: 10, fail_after: 5 } })
  assert.equal((await once('small').ended).code, 0)
  assert.equal((await engine.run(run)).status, 'failed')
})

test('with nothing to take it exits with 0 by itself', async () => {
  const { code, stderr } = await once('large').ended
  assert.deepEqual([code, stderr], [0, ''])
})

test('asked to stop, it hands its run over, and the next one resumes from the checkpoint', async () => {
  const run = await triggerPod('large', { dummy: { records: 3000, delay_ms: 5 } })
  const evicted = once('large', { DRAIN_SECONDS: '0' })
  await engine.until(run, ({ checkpoint }) => checkpoint > 0)
  evicted.child.kill('SIGTERM')
  assert.equal((await evicted.ended).code, 0)
  const waiting = await engine.run(run)
  assert.deepEqual([waiting.status, waiting.lost_attempts], ['pending', 0])
  assert.equal((await once('large').ended).code, 0)
  const { status, attempt, records_written } = await engine.run(run)
  assert.deepEqual([status, attempt, records_written], ['success', 2, 3000])
})

test('a run whose class is no longer offered fails with a sentence, triggered or scheduled', async () => {
  const pipeline = await engine.createPipeline({ run: pod('large') })
  const classes = services.config.POD_CLASSES
  services.config.POD_CLASSES = ['small']
  const worker = await engine.work()
  try {
    const manual = await engine.finished(await engine.trigger(pipeline))
    const sentence =
      "config: The run wants a pod of the class 'large', but here there is small; change config.run, or ask the operator to set POD_CLASSES."
    assert.deepEqual([manual.status, manual.error], ['failed', sentence])
    await db.execute(sql`UPDATE pipelines SET schedule = '0 0 1 1 *', next_run_at = now() WHERE id = ${pipeline}`)
    assert.equal(await scheduleDuePipelines(db, services.box, services.log, []), 1)
    const row = await db.first<{ id: string }>(
      sql`SELECT id FROM runs WHERE pipeline_id = ${pipeline} AND triggered_by = 'schedule'`,
    )
    const scheduled = await engine.finished(row!.id)
    assert.equal(scheduled.error, sentence.replace('there is small', 'pods of their own are not offered'))
  } finally {
    services.config.POD_CLASSES = classes
    await worker.stop(AbortSignal.abort())
  }
})

test('what waits for a class that has been withdrawn fails with a sentence, and what is behind it comes next', async () => {
  const pipeline = await engine.createPipeline({ run: pod('large') })
  const [first, behind] = [await engine.trigger(pipeline), await engine.trigger(pipeline)]
  const offered = await triggerPod('small')
  const shared = await engine.trigger(await engine.createPipeline({}))
  const fail = () => failRunsOfWithdrawnClasses(db, ['small'])
  assert.equal(await fail(), 0, 'not at once: other processes may still offer it')
  await db.execute(sql`UPDATE runs SET available_at = now() - interval '11 minutes' WHERE status = 'pending'`)
  assert.equal(await fail(), 1)
  const { status, error } = await engine.run(first)
  const sentence =
    "config: The run wants a pod of the class 'large', but here there is small; change config.run, or ask the operator to set POD_CLASSES."
  assert.deepEqual([status, error], ['failed', sentence])
  assert.equal(await fail(), 1)
  assert.equal((await engine.run(behind)).status, 'failed')
  assert.equal(await fail(), 0)
  for (const run of [offered, shared]) assert.equal((await engine.run(run)).status, 'pending')
  await endAll()
})

test('a scheduled run gets the class of its pipeline', async () => {
  const pipeline = await engine.createPipeline({ run: pod('large') })
  await db.execute(sql`UPDATE pipelines SET schedule = '0 0 1 1 *', next_run_at = now() WHERE id = ${pipeline}`)
  assert.equal(await scheduleDuePipelines(db, services.box, services.log, services.config.POD_CLASSES), 1)
  assert.equal(await depth('large'), 1)
  await endAll()
})

test('the depth of a queue is what runs and what could begin, per class', async () => {
  const other = await registerPerson(engine, 'Neighbour')
  for (let index = 0; index < 3; index++) await engine.trigger(await engine.createPipeline({ run: pod('small') }))
  await engine.trigger(await engine.createPipeline({ run: pod('small') }, other), other)
  await engine.trigger(await engine.createPipeline({}))
  assert.deepEqual([await depth('small'), await depth('large'), await depth('shared')], [4, 0, 1])
  assert.equal(await depth('small', 2), 3, 'two of the one organization, one of the other')
  const request = { worker: 'w', free: 1, perOrganization: 2, leaseSeconds: 60, after: NIL_UUID, podClass: 'small' }
  await claim(db, request)
  await claim(db, request)
  assert.equal(await depth('small', 2), 3, 'a claimed run still counts: its worker is not superfluous')
  await db.execute(sql`UPDATE runs SET available_at = now() + interval '1 hour' WHERE status = 'pending'`)
  assert.equal(await depth('small'), 2, 'what waits for its back-off needs no worker yet')
  await endAll()
})

test('a role that may only ask for the depth can do that and read nothing', async () => {
  const role = `scaler_${process.pid}`
  await db.execute(script(`CREATE ROLE ${role} LOGIN PASSWORD 'scaler'`))
  const scaler = connectDatabase({ ...engine.connection, user: role, password: 'scaler' }, 1, () => {})
  try {
    const ask = sql`SELECT queue_depth('shared') AS depth`
    await assert.rejects(scaler.first(ask), /permission denied for function queue_depth/)
    await db.execute(script(`GRANT EXECUTE ON FUNCTION queue_depth(text, integer) TO ${role}`))
    assert.deepEqual(await scaler.first(ask), { depth: 0 })
    await assert.rejects(scaler.first(sql`SELECT 1 FROM runs`), /permission denied for table runs/)
    await scaler.transaction(async (tx) => {
      await tx.execute(
        script(
          `CREATE TEMPORARY TABLE runs (status text, organization_id uuid, pod_class text, ready boolean, available_at timestamptz)`,
        ),
      )
      await tx.execute(script(`INSERT INTO runs VALUES ('running', NULL, '', false, NULL)`))
      assert.deepEqual(await tx.first(ask), { depth: 0 }, 'a table of its own does not stand in for ours')
    })
  } finally {
    await scaler.close()
    await db.execute(script(`DROP OWNED BY ${role}; DROP ROLE ${role}`))
  }
})
