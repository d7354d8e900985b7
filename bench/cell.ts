/**
 * The promises of the Python cell, each beside what it is measured against in the same run:
 *
 *   node bench/cell.ts [records]
 *
 * The file comparison alternates the two sides and takes the best of each, so that a neighbour on the machine harms both.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Agent, request } from 'undici'
import { previewSource } from '../server/src/cell/preview.ts'
import { findPython } from '../server/src/cell/python.ts'
import { pythonSource } from '../server/src/cell/python-source.ts'
import { validateCode } from '../server/src/cell/validate.ts'
import { startZygote } from '../server/src/cell/zygote.ts'
import type { ReadContext } from '../server/src/connectors/contract.ts'
import { createEgress } from '../server/src/egress/policy.ts'

const RECORDS = Number(process.argv[2] ?? 1_000_000)
const ROUNDS = 3
const ROW = `{"id": i, "name": "customer number %d" % i, "email": "customer%d@example.com" % i, "active": True,
    "balance": i * 1.25, "city": "Rotterdam", "tags": ["a", "b"], "updated_at": "2024-01-01T00:00:00Z", "note": None}`

const SOURCE = `
from typing import Iterator
from svc.source.base import AbstractSource
from svc.source.models import SourceRecord

class Customers(AbstractSource):
    name = "customers"

    def get_streams(self) -> list:
        return ["customers"]

    def check_connection(self) -> bool:
        return True

    def get_records(self, stream: str) -> Iterator[SourceRecord]:
        for i in range(self.config.get("records", 10)):
            yield SourceRecord(id=str(i), data=${ROW})
`

const BARE = `
import json, sys
def records():
    for i in range(int(sys.argv[2])):
        yield {"_record_id": str(i), **${ROW}}
with open(sys.argv[1], "w") as file:
    for record in records():
        file.write(json.dumps(record))
        file.write("\\n")
`

const folder = mkdtempSync(path.join(tmpdir(), 'bench-cell-'))
const zygote = startZygote()
const egress = createEgress({ allow: ['127.0.0.1'], self: [] })

function percentile(times: number[], share: number): number {
  const sorted = times.toSorted((a, b) => a - b)
  return sorted[Math.min(Math.floor(sorted.length * share), sorted.length - 1)]!
}

function report(name: string, value: string, goal: string, met: boolean): void {
  console.log(`${met ? 'ok  ' : 'MISS'} ${name.padEnd(52)} ${value.padStart(22)}   goal ${goal}`)
}

async function time(times: number, act: () => Promise<unknown>): Promise<number[]> {
  const taken: number[] = []
  for (let index = 0; index < times; index++) {
    const started = performance.now()
    await act()
    taken.push(performance.now() - started)
  }
  return taken
}

function context(code: string, config: Record<string, unknown>): Promise<ReadContext<object>> {
  const log = { debug() {}, info() {}, warn() {}, error: console.error }
  const authentication = { type: 'none', params: {} }
  const { signal } = new AbortController()
  return { code, config, log, authentication, signal, egress, stream: 'customers', state: null, resume: null } as never
}

async function readToFile(code: string, config: Record<string, unknown>, file: string): Promise<number> {
  const source = pythonSource({
    source_name: 'customers',
    display_name: 'Customers',
    description: '',
    code,
    streams: ['customers'],
    zygote,
  })
  const handle = await open(file, 'w')
  let records = 0
  let writing: Promise<unknown> = Promise.resolve()
  const { pages } = await source.read(await context(code, config))
  for await (const page of pages) {
    await writing
    writing = handle.write(page.bytes)
    records += page.records
  }
  await writing
  await handle.close()
  return records
}

async function compareFiles(): Promise<void> {
  const python = await findPython()
  const bareFile = path.join(folder, 'bare.py')
  writeFileSync(bareFile, BARE)
  const out = path.join(folder, 'out.jsonl')
  const ours: number[] = []
  const bare: number[] = []
  let memory = 0
  for (let round = 0; round < ROUNDS; round++) {
    let started = performance.now()
    execFileSync(python, [bareFile, out, String(RECORDS)])
    bare.push(performance.now() - started)
    started = performance.now()
    const read = await readToFile(SOURCE, { records: RECORDS }, out)
    ours.push(performance.now() - started)
    if (read !== RECORDS) throw new Error(`${read} records instead of ${RECORDS}`)
    memory = Math.max(memory, process.memoryUsage().rss)
  }
  const rate = (times: number[]) => Math.round(RECORDS / (Math.min(...times) / 1000))
  const ratio = Math.min(...bare) / Math.min(...ours)
  report(
    `file, ${RECORDS} records: ours / bare json.dumps loop`,
    `${ratio.toFixed(2)} (${rate(ours)} / ${rate(bare)} per s)`,
    '>= 1.0',
    ratio >= 1,
  )
  report('   memory of the host at its most', `${memory >> 20} MB`, 'flat', memory < 300 << 20)
}

async function measureCalls(): Promise<void> {
  const preview = () => previewSource({ code: SOURCE, stream: 'customers', zygote })
  await time(20, preview)
  const starts = await time(200, () => zygote.call({ op: 'run_file', code: '' }))
  const previews = await time(200, preview)
  const validations = await time(200, () => validateCode(SOURCE, undefined, { zygote }))
  const show = (times: number[]) =>
    `p50 ${percentile(times, 0.5).toFixed(1)}, p95 ${percentile(times, 0.95).toFixed(1)} ms`
  report('cell start (an empty file, to its end)', show(starts), 'p95 < 15 ms', percentile(starts, 0.95) < 15)
  report('preview of ten records, warm', show(previews), 'p50 < 25 ms', percentile(previews, 0.5) < 25)
  report('validate', show(validations), 'p50 < 10 ms', percentile(validations, 0.5) < 10)
  const together = await Promise.all(Array.from({ length: 50 }, () => time(1, preview)))
  const all = together.flat()
  report('50 previews at once', show(all), 'p95 < 2000 ms', percentile(all, 0.95) < 2000)
}

async function compareRequests(): Promise<void> {
  const server = createServer((_, response) => response.end('{"rows":[{"id":1,"name":"one"}]}'))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/rows`
  const code = SOURCE.replace(
    'for i in range(self.config.get("records", 10)):',
    'for i in range(self.config["records"]):\n            self.http.get(self.config["url"]).json()',
  )
  const count = 2000
  const agent = new Agent()
  const ours: number[] = []
  const bare: number[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const loop = await time(count, async () => (await request(url, { dispatcher: agent })).body.json())
    bare.push(loop.reduce((sum, each) => sum + each, 0))
    const started = performance.now()
    await readToFile(code, { records: count, url }, path.join(folder, 'requests.jsonl'))
    ours.push(performance.now() - started)
  }
  const ratio = Math.min(...bare) / Math.min(...ours)
  const rate = (times: number[]) => Math.round(count / (Math.min(...times) / 1000))
  report(
    'small requests one by one: cell / bare undici loop',
    `${ratio.toFixed(2)} (${rate(ours)} / ${rate(bare)} per s)`,
    '>= 0.5',
    ratio >= 0.5,
  )
  await agent.close()
  server.closeAllConnections()
  server.close()
}

try {
  const { ok, reason } = await zygote.selfTest()
  if (!ok) throw new Error(reason)
  await measureCalls()
  await compareRequests()
  await compareFiles()
} finally {
  await egress.close()
  await zygote.close()
  rmSync(folder, { recursive: true })
}
