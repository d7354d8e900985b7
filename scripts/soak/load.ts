/**
 * Everything that people and machines do with a service, all the time: runs into files, tables and custom sources, previews, lists,
 * event streams that come and go, webhooks. Pipelines live for a while and are deleted, so what is stored stays the same.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { ACCOUNT } from '../../server/test/harness/service.ts'

const SOURCE = `
from svc.source.base import AbstractSource
from svc.source.models import SourceRecord


class Numbers(AbstractSource):
    name = "numbers"

    def get_streams(self):
        return ["numbers"]

    def check_connection(self):
        return True

    def get_records(self, stream):
        for number in range(200):
            yield SourceRecord(id=number, data={"number": number})
`

const PIPELINES = 12
/** A pipeline is replaced by a new one after this many runs. */
const RUNS_OF_A_PIPELINE = 20
const STREAM_MS = 20_000

export interface SoakLoad {
  counts: Map<string, number>
  failures: Map<string, number>
  stop(): Promise<void>
}

export async function startReceiver(): Promise<{ port: number; received: () => number; close(): void }> {
  let received = 0
  const server = createServer((request, response) => {
    received++
    request.resume().on('end', () => response.end('ok'))
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  return {
    port: (server.address() as AddressInfo).port,
    received: () => received,
    close() {
      server.closeAllConnections()
      server.close()
    },
  }
}

export async function beginSoak(url: string, receiver: number): Promise<SoakLoad> {
  const counts = new Map<string, number>()
  const failures = new Map<string, number>()
  let token = ''
  let going = true
  const stopping = new AbortController()
  const add = (map: Map<string, number>, what: string) => map.set(what, (map.get(what) ?? 0) + 1)
  const headers = (body?: unknown) => ({
    ...(token && { authorization: `Bearer ${token}` }),
    ...(body !== undefined && { 'content-type': 'application/json' }),
  })
  // biome-ignore lint/suspicious/noExplicitAny: a load reads whatever came back
  const call = async (method: string, target: string, body?: unknown): Promise<any> => {
    const answer = await fetch(`${url}/api${target}`, {
      method,
      headers: headers(body),
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    if (!answer.ok)
      throw new Error(`${method} ${target.replace(/[0-9a-f-]{36}/, '…')}: ${answer.status} ${text.slice(0, 100)}`)
    // An output of JSON lines is not one value.
    return answer.headers.get('content-type')?.startsWith('application/json') ? JSON.parse(text) : text
  }
  token = (await call('POST', '/auth/register', JSON.parse(ACCOUNT))).access_token
  await call('POST', '/custom-sources', { name: 'Numbers', source_name: 'numbers', code: SOURCE })
  await call('POST', '/webhooks', { url: `http://127.0.0.1:${receiver}/`, events: ['run.succeeded', 'run.failed'] })

  const repeat = async (what: string, everyMs: number, act: () => Promise<unknown>) => {
    while (going) {
      try {
        await act()
        add(counts, what)
      } catch (error) {
        if (going) add(failures, (error as Error).message)
      }
      await delay(everyMs, undefined, { signal: stopping.signal }).catch(() => {})
    }
  }
  const live = async (place: number) => {
    const config = describePipeline(place)
    const { id } = await call('POST', '/pipelines', { name: `pipeline ${place}`, config })
    for (let run = 0; run < RUNS_OF_A_PIPELINE && going; run++) {
      const begun = await call('POST', `/pipelines/${id}/run`)
      let ended = begun
      for (; !ended.finished_at; ended = await call('GET', `/pipelines/runs/${begun.id}`)) await delay(300)
      add(counts, `run ${ended.status}`)
      if (ended.output_file) await call('GET', `/pipelines/runs/${begun.id}/output`)
      await call('GET', `/pipelines/runs/${begun.id}/logs`)
    }
    await call('DELETE', `/pipelines/${id}`)
  }
  const follow = async () => {
    const signal = AbortSignal.any([AbortSignal.timeout(STREAM_MS), stopping.signal])
    const answer = await fetch(`${url}/api/runs/events`, { headers: headers(), signal })
    if (!answer.ok) throw new Error(`events: ${answer.status}`)
    for await (const _ of answer.body!) add(counts, 'pieces of event streams')
  }
  const all = Promise.all([
    ...Array.from({ length: PIPELINES }, (_, place) => repeat('pipeline created and deleted', 100, () => live(place))),
    repeat('preview of a custom source', 700, () =>
      call('POST', '/custom-sources/preview', { code: SOURCE, stream: 'numbers', config: {} }),
    ),
    repeat('list', 300, async () => {
      for (const list of ['/pipelines', '/runs', '/audit', '/webhooks', '/runs/timeline']) await call('GET', list)
    }),
    ...[1, 2, 3, 4].map(() =>
      repeat('event stream', 500, () =>
        follow().catch((error: Error) => {
          if (error.name !== 'TimeoutError' && error.name !== 'AbortError') throw error
        }),
      ),
    ),
  ])
  return {
    counts,
    failures,
    async stop() {
      going = false
      stopping.abort()
      await all
    },
  }
}

function describePipeline(place: number): object {
  const dummy = { name: 'dummy', stream: 'creatures', config: { records: 2000, seed: place } }
  const ways = [
    { source: dummy, destination: { name: 'file', config: {} } },
    { source: dummy, destination: { name: 'file', config: { format: 'parquet' } } },
    { source: dummy, destination: { name: 'sqlite', config: { table: 'creatures' } } },
    {
      source: { name: 'numbers', stream: 'numbers', config: {} },
      destination: { name: 'logger', config: {} },
    },
  ]
  return { name: `pipeline ${place}`, ...ways[place % ways.length] }
}
