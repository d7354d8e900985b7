/** Hostile servers fail the runs that use them, with the side that is to blame; the worker and the API continue. */
import assert from 'node:assert/strict'
import type { Socket } from 'node:net'
import { after, before, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { hostileHttp, startHostileHttp } from '../harness/hostile-http.ts'
import {
  hostileCopyIn,
  hostileCopyOut,
  hostileCursors,
  hostilePostgres,
  startHostilePostgres,
  startTamperedPostgres,
} from '../harness/hostile-postgres.ts'
import { type PostgresServer, startPostgresServer, stopPostgresServer } from '../harness/postgres-server.ts'
import {
  type Person,
  startWatchedService,
  type Task,
  type WatchedService,
  withPeer,
} from '../harness/watched-service.ts'

/** Of the servers that fail a check, those that fail in different places: each run costs a process. */
const servers = [
  'speaks HTTP',
  'sends an empty error',
  'asks for authentication of an unknown type',
  'asks for a thousand rounds of SASL',
  'answers the TLS request with noise',
  'describes 65,535 columns',
  'sends rows endlessly',
  'is ready three times',
]
const sites = [
  'sends invalid chunks',
  'announces more than it sends',
  'redirects in a circle',
  'sends bytes that are not text',
]

let service: WatchedService
let database: PostgresServer
before(async () => {
  ;[service, database] = await Promise.all([startWatchedService(), startPostgresServer()])
  const client = await database.connect('postgres')
  await client.query('CREATE TABLE people (id int8 PRIMARY KEY, at timestamptz); INSERT INTO people VALUES (1, now())')
})
after(async () => {
  await service.stop()
  await stopPostgresServer()
})

async function run(as: Person, config: object): Promise<{ status: string; error: string }> {
  const made = await service.call('POST', '/api/pipelines', as, { name: 'test', config: { name: 'test', ...config } })
  assert.equal(made.status, 201, JSON.stringify(made.body))
  const started = await service.call('POST', `/api/pipelines/${made.body.id}/run`, as)
  assert.equal(started.status, 201, JSON.stringify(started.body))
  for (;;) {
    const { body } = await service.call('GET', `/api/pipelines/runs/${started.body.id}`, as)
    if (body.finished_at !== null) return body
    await delay(100)
  }
}

async function assertFailed(as: Person, kind: string, name: string, config: object): Promise<void> {
  const { status, error } = await run(as, config)
  assert.equal(status, 'failed', `${kind} that ${name}`)
  assert.ok(error.startsWith(`${kind}: `), `${kind} that ${name}: ${error.slice(0, 500)}`)
}

const file = { name: 'file', config: {} }
const dummy = { name: 'dummy', stream: 'creatures', config: {} }
const settings = (port: number) => {
  const { user, password } = database
  return { host: '127.0.0.1', port, user, password, database: 'postgres' }
}
const readFrom = (port: number) => ({ name: 'postgres', stream: 'public.people', config: settings(port) })
const writeTo = (port: number) => ({ name: 'postgres', config: settings(port) })

const tamperWith = (
  text: string,
  answers: Record<string, (socket: Socket) => void>,
  kind: 'source' | 'destination',
  config: (port: number) => object,
): Task[] =>
  Object.entries(answers).map(
    ([name, answer]) =>
      (as) =>
        withPeer(startTamperedPostgres(database, text, answer), (port) => assertFailed(as, kind, name, config(port))),
  )

test('a hostile server fails the runs that use it, and nothing else', { timeout: 250_000 }, async () => {
  const incremental = { mode: 'incremental', cursor_field: 'at', write: 'append' }
  await service.whileWatched([
    ...servers.flatMap((name): Task[] => [
      (as) =>
        withPeer(startHostilePostgres(hostilePostgres[name]!), (port) =>
          assertFailed(as, 'source', name, { source: readFrom(port), destination: file }),
        ),
      (as) =>
        withPeer(startHostilePostgres(hostilePostgres[name]!), (port) =>
          assertFailed(as, 'destination', name, { source: dummy, destination: writeTo(port) }),
        ),
    ]),
    ...tamperWith('TO STDOUT', hostileCopyOut, 'source', (port) => ({ source: readFrom(port), destination: file })),
    ...tamperWith('TO STDOUT', hostileCursors, 'source', (port) => ({
      source: readFrom(port),
      destination: file,
      sync: incremental,
    })),
    ...tamperWith('FROM STDIN', hostileCopyIn, 'destination', (port) => ({
      source: dummy,
      destination: writeTo(port),
    })),
    ...sites.map(
      (name): Task =>
        (as) =>
          withPeer(startHostileHttp(hostileHttp[name]!), (port) => {
            const config = { url: `http://127.0.0.1:${port}/rows.jsonl` }
            return assertFailed(as, 'source', name, {
              source: { name: 'file', stream: 'rows', config },
              destination: file,
            })
          }),
    ),
  ])
  const good = await run(service.bystander, { source: dummy, destination: file })
  assert.equal(good.status, 'success', good.error)
})
