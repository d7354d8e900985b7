/**
 * `npm run demo`: a first look at the platform. In a temporary folder it starts the service, registers, creates a
 * pipeline, runs it, follows its log and shows the first lines of its output.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { styleText } from 'node:util'

const MAIN = new URL('../server/src/main.js', import.meta.url).pathname
const began = performance.now()
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-demo-'))
const port = await freePort()
const base = `http://127.0.0.1:${port}`

const step = (text: string) => console.log(`\n${styleText('bold', `▸ ${text}`)}`)
const quiet = (text: string) => console.log(styleText('dim', `  ${text}`))

step('Starting Sluice: an API, a scheduler, a worker and an embedded PostgreSQL')
const service = spawn(process.execPath, [MAIN, 'start'], {
  env: { PATH: process.env.PATH!, DATA_DIR: folder, PORT: String(port), LOG_LEVEL: 'error' },
  stdio: ['ignore', 'ignore', 'inherit'],
})
let token = ''
try {
  await untilReady()
  quiet(`ready at ${base} after ${((performance.now() - began) / 1000).toFixed(1)} s`)

  step('Registering an account with its organization')
  const account = await call('POST', '/api/auth/register', {
    email: 'ada@example.com',
    password: 'Analytical-1-engine',
    name: 'Ada',
    organization_name: 'Engines',
  })
  token = account.access_token
  quiet(`${account.user.name} is ${account.user.role} of ${account.organization.name}`)

  step('Creating a pipeline: 250,000 creatures from the dummy source into a file')
  const pipeline = await call('POST', '/api/pipelines', {
    name: 'Creatures',
    schedule: '0 6 * * *',
    config: {
      name: 'Creatures',
      source: { name: 'dummy', stream: 'creatures', config: { records: 250_000 } },
      destination: { name: 'file', config: { format: 'jsonl' } },
    },
  })
  quiet(`${pipeline.name}, every day at six, and once now`)

  step('Running it, with its log as it is written')
  const run = await call('POST', `/api/pipelines/${pipeline.id}/run`)
  await followLog(run.id)
  const ended = await call('GET', `/api/pipelines/runs/${run.id}`)
  quiet(
    `${ended.status}: ${ended.records_written.toLocaleString('en-US')} records, ${(ended.output_file_size / 1e6).toFixed(1)} MB, trigger to running in ${Date.parse(ended.started_at) - Date.parse(ended.created_at)} ms`,
  )

  step('The first lines of its output')
  const output = await fetch(`${base}/api/pipelines/runs/${run.id}/output`, {
    headers: { authorization: `Bearer ${token}`, range: 'bytes=0-2000' },
  })
  for (const line of (await output.text()).split('\n').slice(0, 3))
    console.log(`  ${line.length > 150 ? `${line.slice(0, 150)}…` : line}`)

  step('Done. Start your own with: npm start')
} finally {
  service.kill('SIGTERM')
  await new Promise((resolve) => (service.exitCode === null ? service.once('exit', resolve) : resolve(null)))
  rmSync(folder, { recursive: true, force: true })
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

async function untilReady(): Promise<void> {
  for (;;) {
    if (service.exitCode !== null) throw new Error('The service exited during startup; see above.')
    if (
      await fetch(`${base}/readyz`).then(
        (answer) => answer.ok,
        () => false,
      )
    )
      return
    await delay(50)
  }
}

// biome-ignore lint/suspicious/noExplicitAny: the demo reads whatever came back
async function call(method: string, target: string, body?: unknown): Promise<any> {
  const answer = await fetch(base + target, {
    method,
    headers: {
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${target}: ${answer.status} ${text}`)
  return JSON.parse(text)
}

async function followLog(runId: string): Promise<void> {
  const answer = await fetch(`${base}/api/pipelines/runs/${runId}/logs/stream`, {
    headers: { authorization: `Bearer ${token}` },
  })
  let rest = ''
  for await (const piece of answer.body!.pipeThrough(new TextDecoderStream())) {
    const events = (rest + piece).split('\n\n')
    rest = events.pop()!
    for (const event of events) {
      const line = /^event: line\ndata: (.*)$/m.exec(event.replace(/^id: .*\n/, ''))?.[1]
      if (line) console.log(`  ${line}`)
    }
  }
}
