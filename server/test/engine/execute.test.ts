import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { runPrefix } from '../../src/blobs/run-keys.ts'
import { ConnectorError, type Destination, type Page, type Source } from '../../src/connectors/contract.ts'
import { fileDestination } from '../../src/connectors/file/destination.ts'
import type { Part } from '../../src/engine/job.ts'
import { removeStrayParts } from '../../src/engine/stage.ts'
import { plainRows } from '../harness/conformance.ts'
import { lineSource } from '../harness/line-source.ts'
import { openRunBench, type RunBench } from '../harness/run-bench.ts'
import { sqliteDestination } from '../harness/sqlite-destination.ts'

let bench: RunBench
before(async () => {
  bench = await openRunBench()
})
after(() => bench.close())

function lines(bytes: Buffer): string[] {
  return bytes.toString().split('\n').slice(0, -1)
}

describe('a run into a file', () => {
  it('contains exactly the records of its source', async () => {
    const job = bench.job({ source: { name: 'dummy', config: { records: 1000 } }, destination: { name: 'file' } })
    const attempt = bench.start(job)
    const outcome = await attempt.done
    const records = lines(await bench.readOutput(outcome)).map((line) => JSON.parse(line))
    assert.deepEqual(
      records.map((record) => record.id),
      Array.from({ length: 1000 }, (_, index) => index + 1),
    )
    assert.equal(Object.keys(records[0])[0], '_record_id')
    assert.equal(outcome.records_read, 1000)
    assert.equal(outcome.records_written, 1000)
    assert.equal(outcome.output?.extension, 'jsonl')
    assert.equal(outcome.output?.size, outcome.bytes_written)
    assert.match(attempt.log.join('\n'), /Read 1,000 records/)
  })

  it('succeeds with an empty output if there is nothing to read', async () => {
    const job = bench.job({ source: { name: 'dummy', config: { records: 0 } }, destination: { name: 'file' } })
    const outcome = await bench.run(job)
    assert.deepEqual(outcome.output, { parts: [], extension: 'jsonl', content_type: 'application/x-ndjson', size: 0 })
  })

  it('is one valid gzip file although it is written in parts', async () => {
    const job = bench.job({
      source: { name: 'dummy', config: { records: 60_000 } },
      destination: { name: 'file', config: { compression: 'gzip' } },
    })
    const outcome = await bench.run(job)
    assert.ok(outcome.output!.parts.length > 1)
    assert.equal(lines(gunzipSync(await bench.readOutput(outcome))).length, 60_000)
    assert.equal(outcome.output?.extension, 'jsonl.gz')
  })

  it('stores nothing if the pipeline keeps no output', async () => {
    const job = bench.job(
      { source: { name: 'dummy', config: { records: 5 } }, destination: { name: 'logger' } },
      { keep_output: false },
    )
    const attempt = bench.start(job)
    assert.equal((await attempt.done).output, null)
    for await (const blob of bench.blobs.list(`${job.organization_id}/runs/${job.run_id}/`)) assert.fail(blob.key)
    assert.equal(attempt.log.filter((line) => line.startsWith('info Record: {"_record_id"')).length, 5)
  })
})

describe('a checkpoint', () => {
  it('never begins after a cancel, and a source that ignores the cancel does not delay the run', async () => {
    let reached: () => void = () => undefined
    const waiting = new Promise<void>((resolve) => {
      reached = resolve
    })
    const source = lineSource(plainRows(100), {
      pageRecords: 10,
      beforePage: (given) => {
        if (given < 50) return undefined
        reached()
        return new Promise<void>(() => undefined)
      },
    })
    const attempt = bench.start(bench.job({ source, destination: { name: 'file' } }), { checkpointRecords: 10 })
    await waiting
    const before = attempt.commits
    const started = performance.now()
    attempt.cancel()
    await assert.rejects(attempt.done, /cancelled/)
    assert.ok(performance.now() - started < 3000)
    assert.ok(attempt.commits <= before + 1)
  })

  it('is saved with everything before it, and the next attempt resumes right there', async () => {
    const rows = plainRows(95)
    const doomed = bench.job({ source: lineSource(rows, { pageRecords: 10 }), destination: { name: 'file' } })
    assert.ok(await bench.crash(doomed, 'commit:after', 4, { checkpointRecords: 20 }))
    const again = bench.again(doomed)
    assert.deepEqual(
      again.resume?.parts.map((part) => part.records),
      [20, 20, 20, 20],
    )
    const attempt = bench.start(again, { checkpointRecords: 20 })
    const outcome = await attempt.done
    assert.deepEqual(
      outcome.output?.parts.map((part) => part.records),
      [20, 20, 20, 20, 15],
    )
    assert.equal(outcome.records_read, 95)
    assert.equal(outcome.bytes_written, outcome.output?.size)
    assert.deepEqual(lines(await bench.readOutput(outcome)), rows)
    assert.match(attempt.log.join(), /Resuming after checkpoint 4, with 80 records already loaded/)
  })

  it('of an older version, whose parts are stored plain, is continued with compressed ones', async () => {
    const rows = plainRows(95)
    const doomed = bench.job({ source: lineSource(rows, { pageRecords: 10 }), destination: { name: 'file' } })
    assert.ok(await bench.crash(doomed, 'commit:after', 4, { checkpointRecords: 20 }))
    const again = bench.again(doomed)
    const old: Part[] = []
    for (const part of again.resume!.parts) {
      const { checkpoint, records, size } = part
      const key = part.key.replace(/\.zst$/, '')
      await bench.blobs.put(key, await bench.readParts([part]))
      old.push({ checkpoint, records, size, key })
    }
    await bench.blobs.delete(again.resume!.parts.map(({ key }) => key))
    again.resume!.parts = old
    const outcome = await bench.run(again, { checkpointRecords: 20 })
    assert.deepEqual(
      outcome.output?.parts.map(({ key, stored_bytes }) => [key.endsWith('.zst'), stored_bytes !== undefined]),
      [...Array(4).fill([false, false]), [true, true]],
    )
    assert.deepEqual(lines(await bench.readOutput(outcome)), rows)
    assert.equal(outcome.output?.size, Buffer.byteLength(`${rows.join('\n')}\n`))
  })

  it('is not saved by an attempt that lost its run, and its parts are swept', async () => {
    const rows = plainRows(50)
    let release: () => void = () => undefined
    const held = new Promise<void>((resolve) => {
      release = resolve
    })
    const job = bench.job({ source: lineSource(rows, { pageRecords: 10 }), destination: { name: 'file' } })
    let saves = 0
    let arrive: () => void = () => undefined
    const arrived = new Promise<void>((resolve) => {
      arrive = resolve
    })
    const zombie = bench.start(job, {
      checkpointRecords: 10,
      fault: (point) => {
        if (point !== 'save:before' || ++saves !== 2) return undefined
        arrive()
        return held
      },
    })
    await arrived
    const outcome = await bench.run(bench.again(job), { checkpointRecords: 10 })
    release()
    await assert.rejects(zombie.done, /fenced/)
    assert.deepEqual(lines(await bench.readOutput(outcome)), rows)
    const prefix = runPrefix({ id: job.run_id, organization_id: job.organization_id })
    assert.ok((await removeStrayParts(bench.blobs, prefix, outcome.output!.parts)) > 0)
    assert.equal(await removeStrayParts(bench.blobs, prefix, outcome.output!.parts), 0)
    assert.deepEqual(lines(await bench.readOutput(outcome)), rows)
  })
})

describe('a slow destination', () => {
  it('slows its source down', async () => {
    let given = 0
    let open: () => void = () => undefined
    const gate = new Promise<void>((resolve) => {
      open = resolve
    })
    let blocked: () => void = () => undefined
    const stuck = new Promise<void>((resolve) => {
      blocked = resolve
    })
    const slow: Destination = {
      ...(fileDestination as unknown as Destination),
      name: 'slow',
      open: async (context) => ({
        ...(await fileDestination.open(context as never)),
        write: async () => {
          blocked()
          await gate
        },
      }),
    }
    // 400 pages of a quarter of a megabyte: a hundred megabytes that must not accumulate.
    const rows = Array.from({ length: 400 }, (_, id) => `{"id":${id},"fill":"${'x'.repeat(250_000)}"}`)
    const beforePage = (count: number): void => {
      given = count
    }
    const source = lineSource(rows, { pageRecords: 1, beforePage })
    const attempt = bench.start(bench.job({ source, destination: { name: 'slow' } }, { keep_output: false }), {
      destination: slow,
    })
    await stuck
    // Once the event loop is idle, everything that could be read without the destination has been read.
    for (let turn = 0; turn < 1000; turn++) await new Promise((resolve) => setImmediate(resolve))
    assert.ok(given < 60, `${given} pages were read`)
    open()
    assert.equal((await attempt.done).records_read, 400)
  })
})

describe('a failure', () => {
  it('is attributed to the party at work', async () => {
    const source = lineSource(plainRows(5), { beforePage: () => Promise.reject(new Error('no route')) })
    await assert.rejects(bench.run(bench.job({ source, destination: { name: 'file' } })), (error: unknown) => {
      assert.ok(error instanceof ConnectorError)
      assert.deepEqual([error.kind, error.message], ['source', 'no route'])
      return true
    })
    const broken: Destination = {
      ...(fileDestination as unknown as Destination),
      name: 'broken',
      fence: () => Promise.reject(Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })),
    }
    const job = bench.job({ source: { name: 'dummy' }, destination: { name: 'broken' } })
    await assert.rejects(bench.run(job, { destination: broken }), (error: unknown) => {
      assert.ok(error instanceof ConnectorError)
      assert.deepEqual([error.kind, error.transient], ['destination', true])
      return true
    })
  })

  it('of the destination makes the source release its resources, whether it had started or not', async () => {
    for (const failing of ['open', 'write']) {
      let closed = 0
      const plain = lineSource(plainRows(50), { pageRecords: 5 })
      const source: Source = {
        ...plain,
        name: `${plain.name}_closing`,
        async read(context) {
          const reading = await plain.read(context)
          async function* pages(): AsyncGenerator<Page> {
            try {
              yield* reading.pages
            } finally {
              closed++
            }
          }
          return { ...reading, pages: pages() }
        },
      }
      const no = (): Promise<never> => Promise.reject(new Error('no room'))
      const broken: Destination = {
        ...(fileDestination as unknown as Destination),
        name: 'broken',
        open: async (context) =>
          failing === 'open' ? no() : { ...(await fileDestination.open(context as never)), write: no },
      }
      const job = bench.job({ source, destination: { name: 'broken' } })
      await assert.rejects(bench.run(job, { destination: broken }), /no room/)
      assert.equal(closed, 1, failing)
    }
  })

  it('of the store is internal', async () => {
    const blobs = {
      ...bench.blobs,
      writer: () => Promise.reject(Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' })),
    }
    const job = bench.job({ source: { name: 'dummy' }, destination: { name: 'file' } })
    await assert.rejects(bench.run(job, { blobs }), (error: unknown) => {
      assert.ok(error instanceof ConnectorError)
      assert.equal(error.kind, 'internal')
      assert.match(error.message, /no space left/)
      return true
    })
  })

  it('of a state that is too large, or that no database can store, is explained', async () => {
    const rows = plainRows(5)
    for (const [text, why] of [
      ['x'.repeat(5 * 1024 * 1024), /a state larger than 8 MB, which cannot be stored/],
      ['a\0b', /U\+0000/],
    ] as const) {
      const plain = lineSource(rows)
      const source: Source = {
        ...plain,
        name: `${plain.name}_state`,
        async read(context) {
          async function* pages(): AsyncGenerator<Page> {
            for await (const page of (await plain.read(context)).pages) yield { ...page, cursor: { text } }
          }
          return { columns: null, pages: pages() }
        },
      }
      const job = bench.job({
        source,
        destination: { name: 'sqlite_rows', config: { file: ':memory:' } },
        sync: { mode: 'incremental', write: 'append' },
      })
      const attempt = bench.run(job, { destination: sqliteDestination as unknown as Destination })
      await assert.rejects(attempt, (error: unknown) => {
        assert.ok(error instanceof ConnectorError)
        assert.equal(error.kind, 'limit')
        assert.match(error.message, why)
        return true
      })
    }
  })

  it('of a config that is no longer valid names the place', async () => {
    const job = bench.job({ source: { name: 'dummy', config: { recods: 3 } }, destination: { name: 'file' } })
    await assert.rejects(bench.run(job), /config.source.config.recods: unknown field; did you mean 'records'/)
  })
})
