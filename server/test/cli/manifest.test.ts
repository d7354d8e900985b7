import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { fileURLToPath } from 'node:url'

const MAIN = fileURLToPath(new URL('../../src/main.js', import.meta.url))
let folder: string

const requester = { url_base: 'https://example.com' }
const stream = (name: string, extractor: object) => ({
  name,
  retriever: { requester, record_selector: { extractor } },
  schema_loader: { type: 'InlineSchemaLoader', schema: { type: 'object' } },
})
const good = stream('good', { field_path: ['data'] })
const custom = stream('custom', { type: 'CustomRecordExtractor', class_name: 'source_x.components.OwnExtractor' })

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'manifest-check-'))
  const write = (name: string, value: object) => writeFile(join(folder, name), JSON.stringify(value))
  await write('whole.yaml', { version: '6.0.0', streams: [good] })
  await write('part.yaml', { version: '6.0.0', streams: [good, custom] })
  await write('no.yaml', { version: '6.0.0', streams: [custom] })
})
after(() => rm(folder, { recursive: true }))

function check(...args: string[]): Promise<{ code: number; stdout: string }> {
  return new Promise((resolve) => {
    execFile(process.execPath, [MAIN, 'manifest', 'check', ...args], { cwd: folder }, (error, stdout) => {
      resolve({ code: typeof error?.code === 'number' ? error.code : 0, stdout })
    })
  })
}

test('the exit code is 0 only if every manifest runs whole', async () => {
  assert.equal((await check('whole.yaml')).code, 0)
  assert.equal((await check('whole.yaml', 'part.yaml')).code, 1)
})

test('a custom component is named with its stream, and other streams still run', async () => {
  const { stdout } = await check('--json', 'whole.yaml', 'part.yaml', 'no.yaml', 'missing.yaml')
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  assert.deepEqual(lines.slice(0, 3), [
    { file: 'whole.yaml', runs: 'whole', streams: 1, runnable: 1, reasons: [] },
    {
      file: 'part.yaml',
      runs: 'part',
      streams: 2,
      runnable: 1,
      reasons: ['custom: it needs custom Python code: CustomRecordExtractor OwnExtractor'],
    },
    {
      file: 'no.yaml',
      runs: 'no',
      streams: 1,
      runnable: 0,
      reasons: ['custom: it needs custom Python code: CustomRecordExtractor OwnExtractor'],
    },
  ])
  assert.equal(lines[3].runs, 'no')
  assert.match(lines[3].reasons[0], /cannot be read/)
})

test('many files are checked at once and answered in their order', async () => {
  const files = Array.from({ length: 60 }, (_, index) => ['whole.yaml', 'part.yaml', 'missing.yaml'][index % 3]!)
  const { code, stdout } = await check('--json', ...files)
  const lines = stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line))
  assert.equal(code, 1)
  assert.deepEqual(
    lines.map(({ file, runs }) => [file, runs]),
    files.map((file) => [file, { 'whole.yaml': 'whole', 'part.yaml': 'part' }[file] ?? 'no']),
  )
})
