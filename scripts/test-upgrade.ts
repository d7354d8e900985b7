/**
 * Expand and contract: `npm run test:upgrade`. The commit before the newest migration runs on the schema of this one, as
 * during a rolling upgrade: it serves requests and executes runs before and after `sluice migrate`, beside the new version,
 * and again after a restart. Outside `npm test`, because it checks out a second copy of the project.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { startServer } from '../server/test/harness/postgres-server.ts'
import { startProgram } from '../server/test/harness/processes.ts'
import { ACCOUNT, environment, MAIN, root, type Service, whenReady } from '../server/test/harness/service.ts'

const { values } = parseArgs({ options: { from: { type: 'string' }, help: { type: 'boolean', default: false } } })
if (values.help) {
  console.log(`npm run test:upgrade -- [--from COMMIT]

Runs the code of COMMIT, by default the one before the newest migration, on the schema of this version.`)
  process.exit(0)
}

const git = (...args: string[]) => execFileSync('git', args, { cwd: root, encoding: 'utf8' }).trim()
const MIGRATIONS = 'server/src/database/migrations'
const from = git(
  'rev-parse',
  values.from ?? `${git('log', '-1', '--diff-filter=A', '--format=%H', '--', MIGRATIONS)}~1`,
)
const count = (commit: string) => git('ls-tree', '--name-only', commit, `${MIGRATIONS}/`).split('\n').length
console.log(
  `old: ${from.slice(0, 10)} with ${count(from)} migrations; new: ${count('HEAD')} (and what is not committed yet)`,
)

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-upgrade-'))
const copy = path.join(folder, 'old')
git('worktree', 'add', '--detach', copy, from)
// The dependencies of both are the same but for the few that a commit may have added.
for (const place of ['', 'server', 'web', 'clients/typescript']) {
  const modules = path.join(root, place, 'node_modules')
  if (existsSync(modules) && existsSync(path.join(copy, place)))
    symlinkSync(modules, path.join(copy, place, 'node_modules'))
}
const OLD = path.join(copy, 'server/src/main.js')
const server = await startServer({ max_connections: '120' })
const database = await server.createDatabase()
const env = environment(folder, {
  DATABASE_URL: server.url(database),
  JWT_SECRET_KEY: 'x'.repeat(32),
  ENCRYPTION_KEY: 'x'.repeat(32),
  LOG_LEVEL: 'warn',
})
const started: Service[] = []
const start = async (main: string, ...args: string[]): Promise<Service> => {
  const service = await whenReady(startProgram(process.execPath, [main, ...args], { cwd: root, env }))
  started.push(service)
  return service
}
const stop = async (service: Service) => {
  service.child.kill('SIGTERM')
  await service.ended
}

async function call(url: string, token: string, body?: unknown, method = 'POST'): Promise<Record<string, unknown>> {
  const answer = await fetch(url, {
    method,
    headers: {
      ...(token && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    },
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })
  if (answer.status >= 300) throw new Error(`${method} ${url}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as Record<string, unknown>
}

const config = {
  name: 'p',
  source: { name: 'dummy', stream: 'creatures', config: { records: 30 } },
  destination: { name: 'file', config: {} },
}

/** Everything a person does in a day: lists, a new pipeline, a change, a run and its output. */
async function useService(name: string, url: string, token: string): Promise<void> {
  const { id } = await call(`${url}/api/pipelines`, token, { name, config })
  await call(`${url}/api/pipelines/${id}`, token, { name: `${name} again` }, 'PUT')
  const run = await call(`${url}/api/pipelines/${id}/run`, token)
  for (const deadline = Date.now() + 120_000; ; ) {
    const { status, error } = await call(`${url}/api/pipelines/runs/${run.id}`, token, undefined, 'GET')
    if (status === 'success') break
    if (status === 'failed' || Date.now() > deadline) throw new Error(`${name}: the run is ${status}: ${error}`)
    await delay(200)
  }
  for (const list of ['pipelines', 'domains', 'users', 'audit', 'webhooks', 'runs'])
    await call(`${url}/api/${list}`, token, undefined, 'GET').catch((error: Error) => {
      // A route that this version does not have yet is no matter of the schema.
      if (!/: 404 /.test(error.message)) throw error
    })
  console.log(`ok  ${name}`)
}

try {
  const old = await start(OLD, 'start')
  const { access_token: token } = (await call(`${old.url}/api/auth/register`, '', ACCOUNT)) as { access_token: string }
  await useService('the old version on its own schema', old.url, token)
  const migrated = await startProgram(process.execPath, [MAIN, 'migrate'], { cwd: root, env }).ended
  if (migrated.code !== 0) throw new Error(`sluice migrate: ${migrated.stderr}`)
  await useService('the old version on the new schema, while it runs', old.url, token)
  const fresh = await start(MAIN, 'start')
  await useService('the new version beside the old one', fresh.url, token)
  await useService('the old version beside the new one', old.url, token)
  await stop(old)
  const again = await start(OLD, 'start').catch((error: Error) => error)
  if (again instanceof Error) {
    // Until the rule, every version refused a newer schema at its start.
    if (
      !/migrated by a newer Sluice/.test(again.message) ||
      git('show', `${from}:server/src/database/migrate.ts`).includes('.contract.sql')
    )
      throw again
    console.log('--  the old version refuses to start again: it is older than the rule for contract migrations')
  } else await useService('the old version, started again on the new schema', again.url, token)
  await useService('the new version alone', fresh.url, token)
} finally {
  for (const service of started) service.child.kill('SIGTERM')
  await Promise.all(started.map(({ ended }) => ended))
  await server.stop()
  git('worktree', 'remove', '--force', copy)
  rmSync(folder, { recursive: true, force: true })
}
