import assert from 'node:assert/strict'
import { test } from 'node:test'
import { unleashChaos } from './chaos.ts'

test('killing workers, executors and databases loses no run and duplicates no record', {
  timeout: 240_000,
}, async (context) => {
  const result = await unleashChaos({ seed: 7, runs: 16, pipelines: 8, records: 600, seconds: 8, say: () => {} })
  context.diagnostic(JSON.stringify(result))
  assert.equal(result.runs >= 16, true)
  assert.ok(result.succeeded > 0)
  assert.ok(result.resumed > 0, 'some attempt went on past checkpoint 0')
})
