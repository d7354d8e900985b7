import assert from 'node:assert/strict'
import { test } from 'node:test'
import { pino } from 'pino'
import { createLineLog, describeError, writeSentences } from '../src/log-lines.ts'
import { startProgram } from './harness/processes.ts'

test('on a terminal a line reads like a sentence', () => {
  const lines: string[] = []
  const log = pino(
    {
      base: null,
      timestamp: () => ',"time":"2026-01-02T03:04:05.678Z"',
      formatters: { level: (level) => ({ level }) },
      serializers: { err: describeError },
    },
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

test('an error is logged with only what helps to find it', () => {
  const error = Object.assign(new Error('broken', { cause: new Error('why') }), {
    code: '57P01',
    client: { secret: 1 },
  })
  const described = describeError(error)
  assert.deepEqual(Object.keys(described), ['type', 'message', 'stack', 'code', 'cause'])
  assert.equal(described.cause?.message, 'why')
})

for (const [writer, make] of [
  ['pino', `import { createLog } from './server/src/log.ts'; const log = createLog({ LOG_LEVEL: 'info' })`],
  ['no pino', `import { createLineLog } from './server/src/log-lines.ts'; const log = createLineLog('info')`],
])
  test(`a JSON line contains its level as a name (${writer})`, async () => {
    const program = `${make}
      log.debug({}, 'not shown')
      log.info({ runs: 3 }, 'runs wait')
      log.fatal({ err: Object.assign(new TypeError('no'), { code: 'X', secret: 1 }) }, 'failed')`
    const { stdout, stderr } = await startProgram(process.execPath, ['--input-type=module', '--eval', program]).ended
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.equal(lines.length, 2, stderr)
    // A fatal line is written at once, ahead of those that wait for the disk or the pipe.
    const [failed, waiting] = lines.sort((a, b) => a.level.localeCompare(b.level))
    assert.match(waiting.time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
    assert.deepEqual({ ...waiting, time: '' }, { level: 'info', time: '', runs: 3, msg: 'runs wait' })
    assert.deepEqual([failed.level, failed.err.type, failed.err.code], ['fatal', 'TypeError', 'X'])
    assert.match(failed.err.stack, /TypeError: no\n +at /)
    assert.equal(failed.err.secret, undefined)
  })

test('without pino a terminal gets sentences too', () => {
  const lines: string[] = []
  const log = createLineLog('warn', { write: (text) => lines.push(text) }, true)
  log.info({}, 'not shown')
  log.error({ code: 1 }, 'it ended')
  assert.equal(lines.length, 1)
  assert.match(lines[0]!, /^\d\d:\d\d:\d\d error: it ended \(code 1\)\n$/)
})
