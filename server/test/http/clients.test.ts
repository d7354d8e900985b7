/**
 * Clients that are generated from the OpenAPI document, against the running platform. `npm run check` compiles this file,
 * so the document also has to describe what is sent and answered here.
 */
import assert from 'node:assert/strict'
import { execFile, spawnSync } from 'node:child_process'
import { rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { createClient, type Schemas } from '../../../clients/typescript/src/client.ts'
import { makeDataDir, root, startService } from '../harness/service.ts'

const folder = makeDataDir()
const service = await startService(folder)
after(async () => {
  service.child.kill('SIGTERM')
  await service.ended
  rmSync(folder, { recursive: true, force: true })
})

const { url } = service
const account = { email: 'ada@example.com', password: 'Correct-horse-1', name: 'Ada', organization_name: 'Engines' }
const registered = await createClient({ url }).POST('/api/auth/register', { body: account })
assert.ok(registered.data, registered.error?.detail)
const sluice = createClient({ url, accessToken: registered.data.access_token })

const config: Schemas['PipelineConfig'] = {
  source: { name: 'dummy', stream: 'creatures', config: { records: 3 } },
  destination: { name: 'file', config: { format: 'jsonl' } },
  sync: { mode: 'full_refresh', write: 'replace' },
  columns: { include: ['id', 'name'] },
}

test('a pipeline is created, run and read with the types of the document', async () => {
  const created = await sluice.POST('/api/pipelines', { body: { name: 'creatures', config } })
  assert.ok(created.data, created.error?.detail)
  const path = { id: created.data.id }
  const run = await sluice.POST('/api/pipelines/{id}/run', { params: { path } })
  assert.ok(run.data, run.error?.detail)
  const finished = await whenFinished(run.data.id)
  assert.deepEqual([finished.status, finished.records_written, finished.error], ['success', 3, null])
  const output = await sluice.GET('/api/pipelines/runs/{run_id}/output', {
    params: { path: { run_id: finished.id } },
    parseAs: 'blob',
  })
  assert.ok(output.data, output.error?.detail)
  const lines = (await output.data.text()).trimEnd().split('\n')
  assert.deepEqual(
    lines.map((line) => Object.keys(JSON.parse(line) as object)),
    Array(3).fill(['id', 'name']),
  )
})

test('what GET returned is changed in one field and sent back', async () => {
  const listed = await sluice.GET('/api/pipelines', { params: { query: { limit: 1 } } })
  assert.equal(listed.response.headers.get('x-total-count'), '1')
  const path = { id: listed.data![0]!.id }
  const { data: pipeline } = await sluice.GET('/api/pipelines/{id}', { params: { path } })
  assert.deepEqual(pipeline!.config, config)
  const renamed: Schemas['Pipeline'] = { ...pipeline!, name: 'renamed', schedule: '0 4 * * *' }
  const { data } = await sluice.PUT('/api/pipelines/{id}', { params: { path }, body: renamed })
  assert.deepEqual([data?.name, data?.schedule], ['renamed', '0 4 * * *'])
})

test('an error is the one Error of the document', async () => {
  const { error, response } = await sluice.GET('/api/runs', { params: { query: { status: 'faild' } } })
  const problem: Schemas['Error'] | undefined = error
  assert.deepEqual([response.status, typeof problem?.detail], [400, 'string'])
  const stranger = await createClient({ url, apiKey: 'svc_live_' }).GET('/api/auth/me')
  assert.equal(stranger.response.status, 401)
  // @ts-expect-error a stream that the source does not have is found by the compiler
  const wrong: Schemas['DummySource'] = { name: 'dummy', stream: 'minerals' }
  assert.ok(wrong)
})

const python = process.env.PYTHON ?? 'python3'

test('a Python client is generated and does the same, where its generator is installed', async (context) => {
  if (spawnSync(python, ['-m', 'openapi_python_client', '--version']).status !== 0)
    return context.diagnostic('no Python client was tried: pip install openapi-python-client')
  const run = promisify(execFile)
  const settings = path.join(folder, 'generator.yml')
  writeFileSync(settings, 'post_hooks: []\n')
  const document = path.join(root, 'docs/openapi.json')
  const into = ['--meta', 'none', '--output-path', path.join(folder, 'sluice_client'), '--config', settings]
  const generated = await run(python, ['-m', 'openapi_python_client', 'generate', '--path', document, ...into])
  assert.doesNotMatch(generated.stdout + generated.stderr, /warning|error/i)
  const script = path.join(import.meta.dirname, 'python-client.py')
  const { stdout } = await run(python, ['-B', script, url, account.email, account.password], {
    env: { PATH: process.env.PATH, PYTHONPATH: folder },
  })
  assert.equal(stdout, 'used\n')
})

/** The log is followed until the run ends. */
async function whenFinished(run_id: string): Promise<Schemas['Run']> {
  const params = { path: { run_id } }
  const log = await sluice.GET('/api/pipelines/runs/{run_id}/logs/stream', { params, parseAs: 'text' })
  assert.match(log.data ?? '', /^event: end$/m, log.error?.detail)
  const { data, error } = await sluice.GET('/api/pipelines/runs/{run_id}', { params })
  assert.ok(data, error?.detail)
  return data
}
