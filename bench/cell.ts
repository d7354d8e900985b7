/**
 * The targets of the Python cell, each compared with its baseline in the same run:
 *
 *   npm run bench:cell [-- RECORDS [start] [calls] [requests] [files]]
 *
 * The file comparison alternates the two sides and takes the best of each, so that other load on the machine affects both.
 */
import './lib/help.ts'
import { execFileSync, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { open } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Agent, request } from 'undici'
import { findPython } from '../server/src/cell/python.ts'
import { pythonSource } from '../server/src/cell/python-source.ts'
import { startZygote } from '../server/src/cell/zygote.ts'
import type { ReadContext } from '../server/src/connectors/contract.ts'
import { createEgress } from '../server/src/egress/policy.ts'
import { startServer } from '../server/test/harness/postgres-server.ts'
import { startPlatform } from './lib/platform.ts'

const RECORDS = Number(process.argv[2] ?? 1_000_000)
const parts = process.argv.slice(3)
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

const TURN = 200
const TURNS = 100
const REQUESTS = `
        self.http.get(self.config["url"] + "/turn")
        for turn in range(self.config["turns"]):
            for i in range(self.config["turn"]):
                for row in self.http.get(self.config["url"] + "/rows").json()["rows"]:
                    yield SourceRecord(id=str(row["id"]), data=row)
            self.http.get(self.config["url"] + "/turn")
`

/** The id is a field of the record, as in most sources; the bare loop has no ids and writes the rows alone. */
const OWN_ID = SOURCE.replace(
  / {12}yield .*/s,
  `            row = ${ROW}\n            yield SourceRecord(id=row["id"], data=row)\n`,
)

const writeRows = (row: string) => `
import json, sys
def records():
    for i in range(int(sys.argv[2])):
        yield ${row}
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
  const all: number[] = []
  for (let index = 0; index < times; index++) all.push(await taken(act))
  return all
}

function context(config: Record<string, unknown>): Promise<ReadContext<object>> {
  const log = { debug() {}, info() {}, warn() {}, error: console.error }
  const authentication = { type: 'none', params: {} }
  const { signal } = new AbortController()
  return { config, log, authentication, signal, egress, stream: 'customers', state: null, resume: null } as never
}

function describeSource(code: string) {
  const display = { source_name: 'customers', display_name: 'Customers', description: '' }
  return pythonSource({ ...display, code, streams: ['customers'], zygote })
}

async function readToFile(code: string, config: Record<string, unknown>, file: string): Promise<number> {
  const source = describeSource(code)
  const handle = await open(file, 'w')
  let records = 0
  let writing: Promise<unknown> = Promise.resolve()
  const { pages } = await source.read(await context(config))
  for await (const page of pages) {
    await writing
    writing = handle.write(page.bytes)
    records += page.records
  }
  await writing
  await handle.close()
  return records
}

async function compareFiles(title: string, code: string, bareRow: string): Promise<void> {
  const python = await findPython()
  const bareFile = path.join(folder, 'bare.py')
  writeFileSync(bareFile, writeRows(bareRow))
  const out = path.join(folder, 'out.jsonl')
  const ours: number[] = []
  const bare: number[] = []
  let memory = 0
  for (let round = 0; round < ROUNDS; round++) {
    let started = performance.now()
    execFileSync(python, [bareFile, out, String(RECORDS)])
    bare.push(performance.now() - started)
    started = performance.now()
    const read = await readToFile(code, { records: RECORDS }, out)
    ours.push(performance.now() - started)
    if (read !== RECORDS) throw new Error(`${read} records instead of ${RECORDS}`)
    memory = Math.max(memory, process.memoryUsage().rss)
  }
  const rate = (times: number[]) => Math.round(RECORDS / (Math.min(...times) / 1000))
  const ratio = Math.min(...bare) / Math.min(...ours)
  report(
    `file, ${RECORDS} records, ${title}: ours / bare json.dumps loop`,
    `${ratio.toFixed(2)} (${rate(ours)} / ${rate(bare)} per s)`,
    '>= 1.0',
    ratio >= 1,
  )
  report('   peak memory of the host', `${memory >> 20} MB`, 'flat', memory < 300 << 20)
}

const show = (times: number[]) =>
  `p50 ${percentile(times, 0.5).toFixed(1)}, p95 ${percentile(times, 0.95).toFixed(1)} ms`

async function measureStart(): Promise<void> {
  const begin = () => zygote.call({ op: 'run_file', code: '' })
  await time(20, begin)
  const starts = await time(200, begin)
  report('cell start (an empty file, to its end)', show(starts), 'p95 < 15 ms', percentile(starts, 0.95) < 15)
}

/** What a person waits for: requests to the real platform, which handles them in its executors. */
async function measureCalls(): Promise<void> {
  const postgres = await startServer({})
  const platform = await startPlatform(path.join(folder, 'data'), { EGRESS_ALLOW: '127.0.0.1' })
  const token = await platform.api.register()
  await platform.sandboxed()
  const ask = (url: string, body: unknown) => async () => {
    const answer = await platform.api.create(token, url, body)
    if (answer.success !== true && answer.valid !== true) throw new Error(`${url}: ${JSON.stringify(answer)}`)
  }
  const preview = ask('/api/custom-sources/preview', { code: SOURCE, stream: 'customers' })
  const validate = ask('/api/custom-sources/validate', { code: SOURCE })
  const check = ask('/api/connectors/check', { source: { name: 'postgres', config: { url: postgres.url() } } })
  try {
    const first = await time(1, preview)
    report('   the first preview of an organization', show(first), '-', true)
    for (const [name, call, most] of [
      ['preview of ten records, warm', preview, 15],
      ['validate', validate, 10],
      ['check of a PostgreSQL on this machine', check, 25],
    ] as const) {
      await time(20, call)
      const times = await time(200, call)
      report(name, show(times), `p50 < ${most} ms`, percentile(times, 0.5) < most)
    }
    const together = (await Promise.all(Array.from({ length: 50 }, () => time(1, preview)))).flat()
    report('50 previews at once', show(together), 'p95 < 2000 ms', percentile(together, 0.95) < 2000)
  } finally {
    await platform.stop()
    await postgres.stop()
  }
}

/**
 * Sequential requests. The speed of a machine changes by the second, so the two sides take turns within one run of the
 * cell, a few hundred requests each: the cell's turn ends with a request that the server answers when the other side is
 * done. The median of the ratios counts.
 */
async function compareRequests(): Promise<void> {
  const server = fork(path.join(import.meta.dirname, 'lib/small-answers.ts'))
  const [port] = await once(server, 'message')
  const url = `http://127.0.0.1:${port}`
  const agent = new Agent()
  const bare = async () => {
    for (let each = 0; each < TURN; each++) await (await request(`${url}/rows`, { dispatcher: agent })).body.json()
  }
  const source = describeSource(SOURCE.replace(/ {8}for i.*/s, REQUESTS))
  const { pages } = await source.read(await context({ url, turn: TURN, turns: TURNS }))
  const end = Array.fromAsync(pages)
  const turns: { bare: number; ours: number }[] = []
  await once(server, 'message')
  while (turns.length < TURNS) {
    const ours = await taken(async () => {
      server.send('go')
      await once(server, 'message')
    })
    turns.push({ ours, bare: await taken(bare) })
  }
  server.send('go')
  await end
  // The first ones are slow on both sides, until the code is compiled.
  const warm = turns.slice(10)
  const ratio = percentile(
    warm.map((each) => each.bare / each.ours),
    0.5,
  )
  const rate = (times: number[]) => Math.round(TURN / (percentile(times, 0.5) / 1000))
  report(
    'small requests one by one: cell / bare undici loop',
    `${ratio.toFixed(2)} (${rate(warm.map((each) => each.ours))} / ${rate(warm.map((each) => each.bare))} per s)`,
    '>= 0.5',
    ratio >= 0.5,
  )
  await agent.close()
  server.kill()
}

async function taken(act: () => Promise<unknown>): Promise<number> {
  const started = performance.now()
  await act()
  return performance.now() - started
}

try {
  const { ok, reason } = await zygote.selfTest()
  if (!ok) throw new Error(reason)
  const wanted = (part: string) => parts.length === 0 || parts.includes(part)
  if (wanted('start')) await measureStart()
  if (wanted('calls')) await measureCalls()
  if (wanted('requests')) await compareRequests()
  if (wanted('files')) {
    await compareFiles('both write an id', SOURCE, `{"_record_id": str(i), **${ROW}}`)
    await compareFiles('ours adds a numeric id', OWN_ID, ROW)
  }
} finally {
  await egress.close()
  await zygote.close()
  rmSync(folder, { recursive: true })
}
