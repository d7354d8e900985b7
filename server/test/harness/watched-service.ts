/**
 * The service as a separate process, with two organizations that do harm and one that only wants its answers. Meanwhile
 * that one and the health check send requests continuously.
 */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { availableParallelism, loadavg } from 'node:os'
import { setTimeout as delay } from 'node:timers/promises'
import type { Peer } from './peers.ts'
import { makeDataDir, startService } from './service.ts'
import { watchHealth } from './watch-health.ts'

/** The maximum delay that is acceptable on a machine with enough cores. */
const FELT_MS = 1000
/** Concurrent tasks; the service may answer 429 to some of them. */
const AT_ONCE = 8

export interface Person {
  access_token: string
}

export interface Answer {
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever came back
  body: any
  ms: number
}

export type Task = (as: Person) => Promise<void>

export interface WatchedService {
  bystander: Person
  /** Repeats a call that is answered with 429. */
  call(method: string, path: string, as: Person | null, body?: unknown): Promise<Answer>
  /** Performs the tasks as the harmful organizations, and asserts that no one else is affected. */
  whileWatched(tasks: readonly Task[]): Promise<void>
  stop(): Promise<void>
}

export async function startWatchedService(env: Record<string, string> = {}): Promise<WatchedService> {
  const folder = makeDataDir()
  const service = await startService(folder, { EGRESS_ALLOW: '127.0.0.1', LOG_LEVEL: 'warn', ...env })

  async function ask(method: string, path: string, as: Person | null, body?: unknown): Promise<Answer> {
    const began = performance.now()
    const response = await fetch(`${service.url}${path}`, {
      method,
      headers: {
        ...(as ? { authorization: `Bearer ${as.access_token}` } : {}),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: await response.json(), ms: performance.now() - began }
  }

  async function call(method: string, path: string, as: Person | null, body?: unknown): Promise<Answer> {
    for (;;) {
      const answer = await ask(method, path, as, body)
      if (answer.status !== 429) return answer
      await delay(500)
    }
  }

  async function register(name: string): Promise<Person> {
    const account = { email: `${name}@example.com`, password: 'Correct-horse-1', name, organization_name: name }
    const { status, body } = await call('POST', '/api/auth/register', null, account)
    assert.equal(status, 201, JSON.stringify(body))
    return body
  }

  const harmful = [await register('one'), await register('two')]
  const bystander = await register('three')
  const authorization = `Bearer ${bystander.access_token}`

  return {
    bystander,
    call,
    async whileWatched(tasks) {
      const watch = watchHealth([
        { url: `${service.url}/healthz` },
        { url: `${service.url}/api/auth/me`, headers: { authorization } },
      ])
      const failures = await perform(tasks, harmful)
      const felt = await watch.end()
      if (failures.length > 0) throw new AggregateError(failures, failures.map(String).join('\n'))
      const crowd = Math.max(1, loadavg()[0]! / availableParallelism())
      for (const { answers, slowestMs, failures } of felt) {
        assert.deepEqual(failures, [])
        assert.ok(answers > 10)
        assert.ok(slowestMs < FELT_MS * crowd, `somebody waited ${Math.round(slowestMs)} ms`)
      }
    },
    async stop() {
      service.child.kill('SIGTERM')
      await service.ended
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** A few tasks at a time. Failures are reported at the end, so that one does not hide the others. */
async function perform(tasks: readonly Task[], people: readonly Person[]): Promise<unknown[]> {
  const failures: unknown[] = []
  let next = 0
  const work = async (): Promise<void> => {
    for (let index = next++; index < tasks.length; index = next++)
      await tasks[index]!(people[index % people.length]!).catch((error) => failures.push(error))
  }
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  return failures
}

/** With a server that is closed at the end. */
export async function withPeer(starting: Promise<Peer>, work: (port: number) => Promise<void>): Promise<void> {
  const peer = await starting
  try {
    await work(peer.port)
  } finally {
    await peer.close()
  }
}

/**
 * Every kind in every way. Those that only a timeout ends are tried in one way each, and first, so that they are waited
 * for together.
 */
export function tryAll<Kind extends { silent?: boolean }>(
  kinds: Readonly<Record<string, Kind>>,
  ways: readonly ((name: string, kind: Kind) => Task)[],
): Task[] {
  const all = Object.entries(kinds)
  const silent = all.filter(([, kind]) => kind.silent)
  const others = all.filter(([, kind]) => !kind.silent)
  return [
    ...silent.map(([name, kind], index) => ways[index % ways.length]!(name, kind)),
    ...others.flatMap(([name, kind]) => ways.map((way) => way(name, kind))),
  ]
}
