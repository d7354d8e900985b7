/**
 * Hostile servers cause an error for the caller and nothing for anyone else: while each is checked, listed and
 * previewed, the service keeps answering. How it isolates such work is not tested here.
 */
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { type HostileHttp, hostileHttp, startHostileHttp } from '../harness/hostile-http.ts'
import { type HostilePostgres, hostilePostgres, startHostilePostgres } from '../harness/hostile-postgres.ts'
import {
  type Answer,
  startWatchedService,
  type Task,
  tryAll,
  type WatchedService,
  withPeer,
} from '../harness/watched-service.ts'

/** The time limit of an interactive call, plus the time it may wait, plus what a busy machine may add. */
const DEADLINE_MS = 30_000 + 30_000 + 15_000

let service: WatchedService
before(async () => {
  service = await startWatchedService()
})
after(() => service.stop())

function assertRefused(what: string, { status, body, ms }: Answer): void {
  const text = JSON.stringify(body).slice(0, 500)
  assert.equal(status, 200, `${what}: ${text}`)
  assert.equal(body.success, false, `${what}: ${text}`)
  const message: string = body.message ?? body.error
  assert.ok(message.length > 10 && message.length < 5000, `${what}: ${text}`)
  assert.ok(!/undefined|unexpected error|is not a function|code is not valid/.test(message), `${what}: ${text}`)
  assert.ok(ms < DEADLINE_MS, `${what} took ${Math.round(ms)} ms`)
}

const probe =
  (what: 'check' | 'streams', side: 'source' | 'destination') =>
  (name: string, kind: HostilePostgres): Task =>
  (as) =>
    withPeer(startHostilePostgres(kind), async (port) => {
      const config = { host: '127.0.0.1', port, user: 'u', password: 'p' }
      const answer = await service.call('POST', `/api/connectors/${what}`, as, { [side]: { name: 'postgres', config } })
      assertRefused(`${what} of a ${side} that ${name}`, answer)
    })

test('PostgreSQL: an error for the caller, and no effect on others', { timeout: 250_000 }, async () => {
  assert.ok(Object.keys(hostilePostgres).length >= 14)
  const ways = [probe('check', 'source'), probe('streams', 'source'), probe('check', 'destination')]
  await service.whileWatched(tryAll(hostilePostgres, ways))
})

const checkFile =
  (name: string, kind: HostileHttp): Task =>
  (as) =>
    withPeer(startHostileHttp(kind), async (port) => {
      const source = { name: 'file', config: { url: `http://127.0.0.1:${port}/rows.jsonl` } }
      const answer = await service.call('POST', '/api/connectors/check', as, { source })
      // A check reads only the first bytes of a file, and those may be fine.
      if (!kind.later || answer.body.success !== true) assertRefused(`check of a file that ${name}`, answer)
    })

const code = `
from svc.source.base import AbstractSource
from svc.source.models import SourceRecord


class Reader(AbstractSource):
    name = 'reader'

    def get_streams(self):
        return ['rows']

    def check_connection(self):
        return True

    def get_records(self, stream):
        yield SourceRecord(id='1', data=self.http.get(self.config.url, retries=0).json())
`

const preview =
  (name: string, kind: HostileHttp): Task =>
  (as) =>
    withPeer(startHostileHttp(kind), async (port) => {
      const config = { url: `http://127.0.0.1:${port}/` }
      const answer = await service.call('POST', '/api/custom-sources/preview', as, { code, stream: 'rows', config })
      assertRefused(`preview of a source that ${name}`, answer)
    })

test('HTTP: an error for the caller, and no effect on others', { timeout: 250_000 }, async () => {
  assert.ok(Object.keys(hostileHttp).length >= 12)
  await service.whileWatched(tryAll(hostileHttp, [checkFile, preview]))
})
