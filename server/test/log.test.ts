import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import { describeError, writeSentences } from '../src/log.ts'

test('on a terminal a line reads like a sentence', () => {
  const lines: string[] = []
  const log = pino(
    { base: null, timestamp: () => ',"time":"2026-01-02T03:04:05.678Z"', serializers: { err: describeError } },
    writeSentences({ write: (text) => lines.push(text) }),
  )
  log.info({ request_id: 'r1', method: 'POST', path: '/api/pipelines', status: 201, ms: 8.2 }, 'request')
  log.info('stopping')
  log.warn({ runs: 3 }, 'runs wait')
  log.error({ err: new TypeError('no such thing') }, 'request failed')
  assert.equal(lines[0], '03:04:05 POST /api/pipelines answered 201 in 8.2 ms (request_id r1)\n')
  assert.equal(lines[1], '03:04:05 stopping\n')
  assert.equal(lines[2], '03:04:05 warning: runs wait (runs 3)\n')
  assert.match(lines[3]!, /^03:04:05 error: request failed\nTypeError: no such thing\n +at /)
})

test('of an error only what helps to find it is logged', () => {
  const error = Object.assign(new Error('broken', { cause: new Error('why') }), {
    code: '57P01',
    client: { secret: 1 },
  })
  const described = describeError(error)
  assert.deepEqual(Object.keys(described), ['type', 'message', 'stack', 'code', 'cause'])
  assert.equal(described.cause?.message, 'why')
})
