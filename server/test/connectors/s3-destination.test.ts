import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { after, before, beforeEach, describe, it } from 'node:test'
import { ConnectorError, type Sync } from '../../src/connectors/contract.ts'
import { s3Destination } from '../../src/connectors/s3/destination/destination.ts'
import type { Job, Outcome } from '../../src/engine/execute.ts'
import { plainRows } from '../harness/conformance.ts'
import { assertSameRows } from '../harness/ledger.ts'
import { type LineSourceOptions, lineSource } from '../harness/line-source.ts'
import { type Attempt, type AttemptOptions, openRunBench, type RunBench } from '../harness/run-bench.ts'
import { type S3Server, startS3Server } from '../harness/s3-server.ts'
import { readManifest, readTarget } from '../harness/s3-target.ts'

let bench: RunBench
let server: S3Server
before(async () => {
  bench = await openRunBench()
  server = await startS3Server()
})
after(async () => {
  await server.close()
  await bench.close()
})
beforeEach(() => {
  server.objects.clear()
  server.uploads.clear()
  server.intercept = null
})

function configOf(more: Record<string, unknown> = {}): Record<string, unknown> {
  const { bucket, endpoint, region, accessKeyId, secretAccessKey } = server
  return { bucket, endpoint, region, access_key_id: accessKeyId, secret_access_key: secretAccessKey, ...more }
}

interface Wanted {
  config?: Record<string, unknown>
  sync?: Partial<Sync>
  source?: LineSourceOptions
  pipeline_id?: string
}

function jobOf(rows: readonly string[], { config, sync, source, pipeline_id }: Wanted = {}): Job {
  return bench.job(
    { source: lineSource(rows, source), destination: { name: 's3', config: configOf(config) }, sync: sync ?? {} },
    pipeline_id === undefined ? {} : { pipeline_id },
  )
}

const start = (job: Job, options: AttemptOptions = {}): Attempt =>
  bench.start(job, { destination: s3Destination as never, ...options })
const run = (job: Job, options: AttemptOptions = {}): Promise<Outcome> => start(job, options).done
const crash = (job: Job, point: string, nth = 1, options: AttemptOptions = {}) =>
  bench.crash(job, point, nth, { destination: s3Destination as never, ...options })

/** Nothing is in the target that the manifest does not list. */
async function assertNothingLeft(): Promise<void> {
  const manifest = await readManifest(configOf())
  const listed = manifest!.objects.map(({ key }) => key)
  assert.deepEqual([...server.objects.keys()].sort(), ['rows/_manifest.json', ...listed].sort())
}

describe('objects', () => {
  const rows = plainRows(500).map((row) => row.replace(/,"tags":\[.*\]/, ''))

  for (const format of ['jsonl', 'csv', 'parquet'] as const)
    for (const compression of ['none', 'gzip', 'zstd'] as const)
      it(`are ${format} with compression ${compression}, named by run and checkpoint`, async () => {
        const job = jobOf(rows, { config: { format, compression } })
        await run(job, { checkpointRecords: 200 })
        assertSameRows(await readTarget(configOf()), rows)
        const packed = format === 'parquet' ? '' : { none: '', gzip: '.gz', zstd: '.zst' }[compression]
        const { objects } = (await readManifest(configOf()))!
        assert.deepEqual(
          objects.map(({ key }) => key),
          [1, 2, 3].map((checkpoint) => `rows/${job.run_id}-1-${checkpoint}-1.${format}${packed}`),
        )
        assert.deepEqual(
          objects.map(({ key }) => server.objects.get(key)!.body.length),
          objects.map(({ bytes }) => bytes),
        )
        await assertNothingLeft()
      })

  it('are uploaded in parts when they are large, and nothing is left of an upload that failed', async () => {
    const large = Array.from({ length: 30 }, (_, at) => `{"id":${at},"text":"${'x'.repeat(500_000)}"}`)
    server.intercept = (request, response) => {
      if (!request.url!.includes('partNumber=2')) return false
      response.writeHead(403).end('<Error><Code>AccessDenied</Code></Error>')
      return true
    }
    await assert.rejects(run(jobOf(large)), /may not write to the bucket/)
    assert.equal(server.uploads.size, 0)
    server.intercept = null
    await run(jobOf(large))
    assertSameRows(await readTarget(configOf()), large)
  })

  it('leave nothing behind when the run is cancelled in the middle of an upload', async () => {
    const large = Array.from({ length: 60 }, (_, at) => `{"id":${at},"text":"${'x'.repeat(500_000)}"}`)
    let attempt: Attempt | null = null
    server.intercept = (request) => {
      if (request.url!.includes('partNumber=2')) attempt!.cancel()
      return false
    }
    attempt = start(jobOf(large))
    await assert.rejects(attempt.done, /cancelled/)
    assert.equal(server.uploads.size, 0)
  })

  it('are cut by their bytes, so that a checkpoint that arrives in other pages is the same objects', async () => {
    const large = Array.from({ length: 100 }, (_, at) => `{"id":${at},"text":"${String(at % 10).repeat(500_000)}"}`)
    const job = jobOf(large, { source: { pageRecords: 7 } })
    // Frozen before its last note: the batch is sent again, in pages of another size.
    assert.ok(await crash(job, 's3:note', 1, { checkpointRecords: 1000 }))
    const before = new Map([...server.objects].map(([key, { body }]) => [key, body]))
    await run(bench.again(job), { checkpointRecords: 1000 })
    const { objects } = (await readManifest(configOf()))!
    assert.ok(objects.length >= 2)
    for (const { key } of objects) assert.ok(server.objects.get(key)!.body.equals(before.get(key)!), key)
  })

  it('go to folders by field and by date', async () => {
    const given = [
      '{"id":1,"country":"DE","at":"2026-11-16T10:00:00Z"}',
      '{"id":2,"country":"a/b=c é","at":"2026-11-16 23:59:59"}',
      '{"id":3,"country":null,"at":"2026-12-01"}',
      '{"id":4,"at":"2026-12-31T00:00:00+02:00","country":"DE"}',
      '{"id":5,"country":"..","at":null}',
      '{"id":6,"country":"","at":null}',
      '{"id":7,"country":12.50,"at":"2026-11-16T10:00:00Z"}',
    ]
    const partition_by = [{ field: 'country' }, { field: 'at', unit: 'month' }]
    await run(jobOf(given, { config: { partition_by, format: 'parquet' } }))
    const folders = (await readManifest(configOf()))!.objects.map(({ key }) => key.split('/').slice(1, -1).join('/'))
    assert.deepEqual(folders.sort(), [
      'country=%2E%2E/at_month=__HIVE_DEFAULT_PARTITION__',
      'country=12.50/at_month=2026-11',
      'country=DE/at_month=2026-11',
      'country=DE/at_month=2026-12',
      'country=__HIVE_DEFAULT_PARTITION__/at_month=2026-12',
      'country=__HIVE_DEFAULT_PARTITION__/at_month=__HIVE_DEFAULT_PARTITION__',
      'country=a%2Fb%3Dc%20%C3%A9/at_month=2026-11',
    ])
    assert.equal((await readTarget(configOf())).length, given.length)
  })

  it('are not made where a partition makes no sense', async () => {
    const refused = async (rows: string[], partition_by: object[], message: RegExp) =>
      assert.rejects(run(jobOf(rows, { config: { partition_by } })), (error: unknown) => {
        assert.ok(error instanceof ConnectorError && error.kind === 'config')
        assert.match(error.message, message)
        return true
      })
    await refused(plainRows(1000), [{ field: 'id' }], /more than 500 folders/)
    await refused(plainRows(1), [{ field: 'tags' }], /holds nested values/)
    await refused(plainRows(1), [{ field: 'name', unit: 'day' }], /'row 1', which has no day/)
    assert.equal(await readManifest(configOf()), null)
  })
})

describe('the manifest', () => {
  it('of a replace lists the new run alone, and what was there before is deleted, also after a crash', async () => {
    const first = jobOf(plainRows(5))
    await run(first)
    for (const point of ['s3:manifest', 's3:published', 'publish:after']) {
      const doomed = { ...jobOf(plainRows(7), { pipeline_id: first.pipeline_id }) }
      assert.ok(await crash(doomed, point), point)
      const seen = (await readTarget(configOf())).length
      assert.ok(seen === 5 || seen === 7, `${seen} rows after a crash at ${point}`)
      await run(jobOf(plainRows(5), { pipeline_id: first.pipeline_id }))
      assertSameRows(await readTarget(configOf()), plainRows(5))
      await assertNothingLeft()
    }
  })

  it('does not remember what was deleted long ago', async () => {
    const { pipeline_id } = jobOf([])
    const jobs = [1, 2, 3, 4].map(() => jobOf(plainRows(5), { pipeline_id }))
    for (const job of jobs) await run(job)
    const { replaced } = (await readManifest(configOf())) as unknown as { replaced: string[] }
    assert.deepEqual(replaced, [`rows/${jobs[2]!.run_id}-1-1-1.jsonl`])
  })

  it('never lists a run that died, and the next run removes what it left', async () => {
    const sync = { write: 'append' } as const
    const source = { pageRecords: 5 }
    const first = jobOf(plainRows(5), { sync })
    await run(first)
    for (const point of ['s3:upload', 's3:note', 's3:noted', 's3:manifest']) {
      const doomed = jobOf(plainRows(30, 1001), { sync, source, pipeline_id: first.pipeline_id })
      assert.ok(await crash(doomed, point, point === 's3:manifest' ? 1 : 2, { checkpointRecords: 10 }), point)
      assert.equal((await readTarget(configOf())).length % 5, 0)
    }
    await run(jobOf(plainRows(5, 6), { sync, pipeline_id: first.pipeline_id }))
    assertSameRows(await readTarget(configOf()), plainRows(10))
    await assertNothingLeft()
  })

  it('refuses a run that wakes up after a newer one removed its objects', async () => {
    const pipeline_id = randomUUID()
    const held = Promise.withResolvers<void>()
    const reached = Promise.withResolvers<void>()
    const zombie = start(jobOf(plainRows(5), { pipeline_id }), {
      fault(point) {
        if (point !== 's3:manifest') return undefined
        reached.resolve()
        return held.promise
      },
    })
    await reached.promise
    await run(jobOf(plainRows(3), { pipeline_id }))
    held.resolve()
    await assert.rejects(zombie.done, /fenced/)
    assertSameRows(await readTarget(configOf()), plainRows(3))
  })

  it('takes the runs of two pipelines that publish at the same time', async () => {
    const jobs = Array.from({ length: 5 }, (_, at) => jobOf(plainRows(10, at * 10 + 1), { sync: { write: 'append' } }))
    await Promise.all(jobs.map((job) => run(job)))
    assertSameRows(await readTarget(configOf()), plainRows(50))
    await assertNothingLeft()
  })

  it('is written without a condition where the store knows none, and the log says so', async () => {
    server.intercept = (request, response) => {
      if (!request.headers['if-match'] && !request.headers['if-none-match']) return false
      response.writeHead(501).end('<Error><Code>NotImplemented</Code></Error>')
      return true
    }
    const attempt = start(jobOf(plainRows(3)))
    await attempt.done
    assert.ok(attempt.log.some((line) => line.includes('no conditional writes')))
    assertSameRows(await readTarget(configOf()), plainRows(3))
  })

  it('of somebody else is refused, and no key that we did not make is ever deleted', async () => {
    const other = { body: Buffer.from('precious'), modified: new Date() }
    for (const key of ['precious', 'rows/precious.parquet', `other/${randomUUID()}-1-1-1.jsonl`])
      server.objects.set(key, other)
    const manifest = {
      sluice: 1,
      updated_at: '',
      writers: {},
      columns: null,
      objects: [] as object[],
      replaced: [...server.objects.keys()],
    }
    manifest.objects = manifest.replaced.map((key) => ({ key, run_id: 'x', records: 0, bytes: 0 }))
    server.objects.set('rows/_manifest.json', { body: Buffer.from(JSON.stringify(manifest)), modified: new Date() })
    await run(jobOf(plainRows(3)))
    for (const key of manifest.replaced) assert.ok(server.objects.has(key), key)
    for (const body of ['{}', 'null', '[]', 'not json', '{"sluice":2}']) {
      server.objects.set('rows/_manifest.json', { body: Buffer.from(body), modified: new Date() })
      await assert.rejects(run(jobOf(plainRows(3))), /is not a manifest of this version of Sluice/)
    }
  })
})
