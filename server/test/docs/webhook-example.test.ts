/** The example on the page of the webhook destination, through HTTP, and its quarantine sent again. */
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { startEngine } from '../harness/engine.ts'
import { startRecordReceiver } from '../harness/record-receiver.ts'

const engine = await startEngine({ EGRESS_ALLOW: '127.0.0.0/8' })
const receiver = await startRecordReceiver({ token: 'choose-one-Token1', secret: 'choose-one-Secret1' })
after(() => receiver.close())

const page = readFileSync(new URL('../../../docs/connectors/webhook.md', import.meta.url), 'utf8')
const body = JSON.parse(/The body of `POST \/api\/pipelines`:\n\n```json\n([\s\S]*?)```/.exec(page)![1]!)

test('the example sends three requests; what is refused is kept and sent again', async () => {
  await engine.work()
  body.config.destination.config.url = `${receiver.url}/records`
  body.config.sync.max_error_share = 1
  const created = await engine.call('POST', '/api/pipelines', { as: engine.person, body })
  assert.equal(created.status, 201, created.text)
  let requests = 0
  receiver.intercept = (_, response) => {
    if (++requests !== 2) return false
    response.writeHead(422).end('not today')
    return true
  }
  const run = await engine.finished(await engine.trigger(created.body.id))
  assert.equal(run.status, 'success', run.error ?? '')
  assert.deepEqual([requests, run.records_written, receiver.records('/records').length], [3, 15, 15])
  const sent = await engine.call('POST', `/api/pipelines/runs/${run.id}/quarantine/resend`, { as: engine.person })
  assert.equal(sent.status, 201, sent.text)
  assert.equal((await engine.finished(sent.body.id)).status, 'success')
  const ids = receiver.records('/records').map((record) => JSON.parse(record)._record_id ?? JSON.parse(record).id)
  assert.equal(ids.length, 25)
  assert.equal(new Set(ids).size, 25)
})
