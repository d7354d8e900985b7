import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listStreams, previewSource, requireConnection } from '../../src/cell/preview.ts'
import { validateCode } from '../../src/cell/validate.ts'
import { openCells, readSource, SMALL_LIMITS, writeSource } from './harness.ts'

const zygote = openCells({ limits: SMALL_LIMITS })
const validate = (code: string, name?: string) => validateCode(code, name, { zygote })
const GOOD = writeSource('for i in range(10**9): yield SourceRecord(str(i), {"i": i})')

test('valid code yields its name, its streams and its schema', async () => {
  const { valid, errors, extracted_source_name, extracted_streams, extracted_schema } = await validate(GOOD)
  assert.deepEqual(
    { valid, errors, extracted_source_name, extracted_streams, extracted_schema },
    {
      valid: true,
      errors: [],
      extracted_source_name: 'mine',
      extracted_streams: ['a'],
      extracted_schema: { config_class_name: null, config_fields: [], auth_class_name: null, auth_type: null },
    },
  )
})

test('invalid code is refused with line, column and name, and nothing of it runs', async () => {
  const { valid, errors, extracted_streams } = await validate(`import os\nimport json\n${GOOD}\nos.system("id")`)
  assert.equal(valid, false)
  assert.equal(extracted_streams, null)
  assert.deepEqual([errors[0]?.line, errors[0]?.column, errors[0]?.severity], [1, 0, 'error'])
  assert.match(errors[0]!.message, /os/)
  const broken = await validate('def f(:\n')
  assert.match(broken.errors[0]!.message, /syntax error/)
})

test('streams that are not a literal come from a second cell', async () => {
  const computed = GOOD.replace('return ["a"]', 'return sorted(f"s{i}" for i in range(3))')
  assert.deepEqual((await validate(computed)).extracted_streams, ['s0', 's1', 's2'])
  assert.deepEqual(await listStreams({ code: computed, zygote }), ['s0', 's1', 's2'])
  const failing = await validate(GOOD.replace('return ["a"]', 'return [{}["missing"]]'))
  assert.equal(failing.valid, false)
  assert.equal(failing.errors[0]?.message, "get_streams failed: KeyError: 'missing'")
  const wrong = await validate(GOOD.replace('return ["a"]', 'return list(range(3))'))
  assert.match(wrong.errors[0]!.message, /stream names are strings/)
})

test('more streams, or longer names, than a list can show are refused', async () => {
  for (const [streams, message] of [
    ['[str(n) for n in range(1001)]', /returns 1001 streams; at most 1000/],
    ['["x" * 501]', /whose name has 501 characters/],
    [`["${'x'.repeat(600)}"]`, /whose name has 600 characters/],
  ] as const) {
    const { valid, errors } = await validate(GOOD.replace('return ["a"]', `return ${streams}`))
    assert.equal(valid, false)
    assert.match(errors[0]!.message, message)
  }
})

test('streams that only a server knows are dynamic', async () => {
  const asking = GOOD.replace('return ["a"]', 'return self.http.get("https://example.com/streams").json()')
  const { valid, extracted_streams, warnings } = await validate(asking)
  assert.equal(valid, true)
  assert.deepEqual(extracted_streams, ['dynamic'])
  assert.ok(warnings.some(({ message }) => message.includes('dynamic')))
})

test('code designed to break the parser ends in an error within a second', async () => {
  for (const code of [
    `${'('.repeat(100_000)}${')'.repeat(100_000)}`,
    `x = ${'-'.repeat(200_000)}1`,
    'x = 1\n'.repeat(1_000_000),
    `${'if 1:\n'}${Array.from({ length: 200 }, (_, depth) => `${' '.repeat(depth + 1)}if 1:\n`).join('')}${' '.repeat(202)}pass`,
    `x = "${'a'.repeat(600_000)}"`,
    '\ud800',
    'x = 1\0',
  ]) {
    const started = performance.now()
    const { valid, errors } = await validate(code)
    assert.equal(valid, false)
    assert.ok(errors.length > 0)
    assert.ok(performance.now() - started < 3000, `${code.slice(0, 20)} took ${performance.now() - started} ms`)
  }
})

test('a preview stops reading as soon as it has its records', async () => {
  const preview = await previewSource({ code: GOOD, stream: 'a', max_records: 3, zygote })
  assert.deepEqual(
    { ...preview, records: JSON.parse(String(preview.records)), execution_time_ms: 0 },
    {
      success: true,
      records: [0, 1, 2].map((i) => ({ id: String(i), data: { i } })),
      total_count: 3,
      execution_time_ms: 0,
      error: null,
      logs: [],
    },
  )
})

test('a preview of a failing, invalid or unknown stream says why and has no records', async () => {
  const failing = writeSource('print("before")\nyield SourceRecord("1", {})\nraise ValueError("no luck")')
  const preview = await previewSource({ code: failing, stream: 'a', zygote })
  assert.deepEqual([preview.success, preview.total_count], [false, 0])
  assert.equal(preview.error, 'ValueError: no luck')
  assert.equal(preview.logs[0], 'INFO before')
  assert.ok(preview.logs.some((line) => line.includes('raise ValueError("no luck")')))
  const invalid = await previewSource({ code: `import os\n${GOOD}`, stream: 'a', zygote })
  assert.match(invalid.error ?? '', /^the code is not valid: line 1: .*os/)
  const unknown = await previewSource({ code: GOOD, stream: 'b', zygote })
  assert.match(unknown.error ?? '', /unknown stream 'b'; the source has: a/)
})

test('a failed preview keeps what was yielded before, however it ends', async () => {
  const yielding = 'for i in range(3): yield SourceRecord(str(i), {"i": i})\n'
  const before = [0, 1, 2].map((i) => ({ id: String(i), data: { i } }))
  for (const [end, error] of [
    ['raise ValueError("no luck")', /^ValueError: no luck$/],
    ['yield None', /get_records yielded None/],
    ['import time; time.sleep(60)', /within 2 seconds/],
    ['import ctypes; ctypes.string_at(0)', /crashed \(SIGSEGV\)/],
  ] as const) {
    const code = writeSource(yielding + end)
    const preview = await previewSource({ code, stream: 'a', validate: false, wall_seconds: 2, zygote })
    assert.match(preview.error ?? '', error)
    assert.deepEqual([preview.success, preview.total_count], [false, 0])
    assert.deepEqual(JSON.parse(String(preview.records)), before, end)
  }
})

test('a missing required setting is reported by preview, check and run before the source does anything', async () => {
  const code = writeSource(
    'print("reads")\nyield {}',
    'from svc.source.models import SourceConfig\nclass C(SourceConfig):\n    base_url: str\n    size: int = 1\n',
  ).replace('return True', 'print("checks"); return True')
  const error = "ConfigError: config does not fit C: 'base_url' is missing"
  for (const config of [undefined, {}, { size: 2 }]) {
    const given = config === undefined ? {} : { config }
    const preview = await previewSource({ code, stream: 'a', zygote, ...given })
    assert.deepEqual([preview.success, preview.error, preview.logs.includes('INFO reads')], [false, error, false])
    await assert.rejects(requireConnection({ code, zygote, ...given }), { message: error })
    const { failure, logs } = await readSource(zygote, code, given)
    assert.deepEqual([failure?.kind, failure?.message], ['config', error])
    assert.ok(!logs.some((line) => line.includes('reads')))
  }
})

test('a check returns the result of check_connection', async () => {
  const check = (body: string) => requireConnection({ code: GOOD.replace('return True', body), zygote })
  await check('return True')
  await assert.rejects(check('return False'), { kind: 'auth' })
  await assert.rejects(check('raise ValueError("wrong key")'), { message: 'ValueError: wrong key' })
  await assert.rejects(check('pass'), /returned None; return True or False/)
})
