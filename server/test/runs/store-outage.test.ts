/** An object store that is unavailable for a moment. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startEngine } from '../harness/engine.ts'
import { startS3Server } from '../harness/s3-server.ts'

const server = await startS3Server()
after(() => server.close())
const engine = await startEngine({
  BLOB_URL: `s3://${server.bucket}/test`,
  S3_ENDPOINT: server.endpoint,
  S3_REGION: server.region,
  S3_ACCESS_KEY_ID: server.accessKeyId,
  S3_SECRET_ACCESS_KEY: server.secretAccessKey,
})
const download = (run: string) => engine.call('GET', `/api/pipelines/runs/${run}/output`, { as: engine.person })

test('only costs a run that keeps output time', async () => {
  await engine.work()
  // Two seconds of errors, as the client paces its retries.
  server.failNext(5, 503)
  const run = await engine.trigger(await engine.createPipeline({}))
  const ended = await engine.finished(run)
  assert.deepEqual([ended.status, ended.error], ['success', null])
  assert.equal((await download(run)).text.trim().split('\n').length, 10)
})

test('is reported to a downloading client like every other error', async () => {
  const run = await engine.trigger(await engine.createPipeline({}))
  await engine.finished(run)
  server.failNext(1000, 503)
  const answer = await download(run)
  server.failNext(0, 503)
  assert.equal(answer.status, 503)
  assert.equal(answer.headers['retry-after'], '5')
  assert.deepEqual(answer.body, { detail: 'The object store does not answer; try again in a moment' })
})
