import assert from 'node:assert/strict'
import { test } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { registerPerson } from '../harness/app.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine()
await engine.work()
const { call, person } = engine
const run = await engine.trigger(await engine.createPipeline({ dummy: { records: 300_000 } }))
assert.equal((await engine.finished(run)).status, 'success')
const url = `/api/pipelines/runs/${run}/output`
const whole = await call('GET', url, { as: person })

test('the output consists of several parts and is served as one file', async () => {
  const row = await engine.services.db.first<{ parts: number; output_file_size: number }>(
    sql`SELECT jsonb_array_length(output_parts) AS parts, output_file_size FROM runs WHERE id = ${run}`,
  )
  assert.ok(row!.parts > 1)
  assert.equal(Buffer.byteLength(whole.text), row!.output_file_size)
  const lines = whole.text.trimEnd().split('\n')
  assert.equal(lines.length, 300_000)
  assert.equal(new Set(lines.map((line) => JSON.parse(line)._record_id)).size, 300_000)
  assert.match(String(whole.headers['content-disposition']), /^attachment; filename="test-[0-9a-f]{8}\.jsonl"$/)
  const same = await call('GET', `/api/pipelines/runs/${run}/download`, { as: person })
  assert.equal(same.text.length, whole.text.length)
})

test('ranges span the parts', async () => {
  const bytes = Buffer.from(whole.text)
  const size = bytes.length
  for (const [range, start, end] of [
    ['bytes=0-0', 0, 0],
    ['bytes=100-199', 100, 199],
    [`bytes=${size - 10}-`, size - 10, size - 1],
    ['bytes=-5', size - 5, size - 1],
    ['bytes=8000000-17000000', 8_000_000, 17_000_000],
    [`bytes=0-${size + 50}`, 0, size - 1],
  ] as const) {
    const part = await call('GET', url, { as: person, headers: { range } })
    assert.equal(part.status, 206, range)
    assert.equal(part.headers['content-range'], `bytes ${start}-${end}/${size}`)
    assert.ok(Buffer.from(part.text).equals(bytes.subarray(start, end + 1)), range)
  }
  const outside = await call('GET', url, { as: person, headers: { range: `bytes=${size}-` } })
  assert.equal(outside.status, 416)
  assert.equal(outside.headers['content-range'], `bytes */${size}`)
  const unchanged = await call('GET', url, { as: person, headers: { 'if-none-match': String(whole.headers.etag) } })
  assert.equal(unchanged.status, 304)
})

test('a ticket opens the output once, without other credentials', async () => {
  const ticket = await call('POST', `${url}/ticket`, { as: person })
  assert.equal(ticket.status, 201)
  assert.equal((await call('GET', ticket.body.url)).status, 200)
  assert.equal((await call('GET', ticket.body.url)).status, 401, 'used up')
  const late = await call('POST', `${url}/ticket`, { as: person })
  await engine.services.db.execute(sql`UPDATE output_tickets SET expires_at = now() - interval '1 second'`)
  assert.equal((await call('GET', late.body.url)).status, 401, 'too late')
  const mine = await call('POST', `${url}/ticket`, { as: person })
  const other = await registerPerson(engine, 'Other')
  const theirs = await engine.trigger(await engine.createPipeline({}, other), other)
  const elsewhere = mine.body.url.replace(run, theirs)
  assert.equal((await call('GET', elsewhere)).status, 401, 'for another run')
})

test('whatever the row says, nothing outside the run is read', async () => {
  const victim = await engine.trigger(await engine.createPipeline({}))
  await engine.finished(victim)
  for (const key of [
    '../../../../etc/passwd',
    `${person.organization_id}/runs/${run}/1-1.part`,
    `${person.organization_id}/runs/${victim}/../../x`,
  ]) {
    await engine.services.db.execute(
      sql`UPDATE runs SET output_parts = ${JSON.stringify([{ key, size: 10 }])} WHERE id = ${victim}`,
    )
    assert.equal((await call('GET', `/api/pipelines/runs/${victim}/output`, { as: person })).status, 500, key)
  }
})

test('csv, parquet and gzip have their own names and types', async () => {
  for (const [config, extension, type] of [
    [{ format: 'csv' }, 'csv', 'text/csv'],
    [{ format: 'parquet' }, 'parquet', 'application/vnd.apache.parquet'],
    [{ format: 'jsonl', compression: 'gzip' }, 'jsonl.gz', 'application/gzip'],
  ] as const) {
    const id = await engine.trigger(
      await engine.createPipeline({ dummy: { records: 5 }, destination: { name: 'file', config } }),
    )
    const ended = await engine.finished(id)
    assert.equal(ended.status, 'success', String(ended.error))
    const file = await call('GET', `/api/pipelines/runs/${id}/output`, { as: person })
    assert.equal(file.headers['content-type'], type)
    assert.equal(file.headers['content-encoding'], undefined)
    assert.ok(String(file.headers['content-disposition']).endsWith(`.${extension}"`))
  }
})

test('a pipeline that keeps no output leaves nothing in the store', async () => {
  const id = await engine.trigger(
    await engine.createPipeline({ destination: { name: 'logger' }, run: { keep_output: false } }),
  )
  const ended = await engine.finished(id)
  assert.deepEqual([ended.status, ended.output_file], ['success', null])
  const blobs = []
  for await (const blob of engine.services.blobs.list(`${person.organization_id}/runs/${id}/`)) blobs.push(blob.key)
  assert.deepEqual(blobs, [])
})
