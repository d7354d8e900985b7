/** What the kernel knows about an executor, and what the executor knows. */
import assert from 'node:assert/strict'
import { closeSync, openSync, readdirSync, readFileSync, readSync } from 'node:fs'
import { test } from 'node:test'
import { startEngine } from '../harness/engine.ts'
import { waitUntilGone } from '../harness/processes.ts'

/** All of them have the same prefix, so that one search finds any. */
const MASTER = 'no-executor-may-see-this'
const MASTER_SECRETS = {
  JWT_SECRET_KEY: `${MASTER}-signing-secret`,
  ENCRYPTION_KEY: `${MASTER}-encryption-key`,
  IDP_CLIENT_SECRET: `${MASTER}-secret-of-the-provider`,
  METRICS_TOKEN: `${MASTER}-metrics-token`,
  DATABASE_URL: `postgres://platform:${MASTER}@127.0.0.1:1/none`,
}
const provider = {
  IDP_ISSUER: 'https://id.example.com',
  IDP_CLIENT_ID: 'client',
}
const S3_SECRET = 'the-secret-of-the-bucket-0123456789'
const blobs = { S3_ACCESS_KEY_ID: 'key', S3_SECRET_ACCESS_KEY: S3_SECRET }
const engine = await startEngine({ ...MASTER_SECRETS, ...provider, ...blobs })

const fieldsOf = (pid: number) => readOrEmpty(`/proc/${pid}/stat`).split(') ').at(-1)!.split(' ')
const parentOf = (pid: number) => Number(fieldsOf(pid)[1])
const niceOf = (pid: number) => Number(fieldsOf(pid)[16])
const oomScoreOf = (pid: number) => Number(readOrEmpty(`/proc/${pid}/oom_score_adj`))

/** Processes come and go during the search. */
function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

const childrenOf = (parent: number, program: string): number[] =>
  readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => parentOf(pid) === parent && readOrEmpty(`/proc/${pid}/cmdline`).includes(program))

const executors = () => childrenOf(process.pid, 'executor.ts')

/** Which of the texts occur in the writable memory of a process. */
function findInMemory(pid: number, texts: readonly string[]): string[] {
  const needles = texts.flatMap((text) =>
    [Buffer.from(text), Buffer.from(text, 'utf16le')].map((bytes) => ({ text, bytes })),
  )
  const found = new Set<string>()
  const memory = openSync(`/proc/${pid}/mem`, 'r')
  for (const line of readFileSync(`/proc/${pid}/maps`, 'utf8').split('\n')) {
    const range = /^([0-9a-f]+)-([0-9a-f]+) rw-/.exec(line)
    if (!range) continue
    for (const chunk of readRange(memory, BigInt(`0x${range[1]}`), BigInt(`0x${range[2]}`)))
      for (const { text, bytes } of needles) if (!found.has(text) && chunk.includes(bytes)) found.add(text)
  }
  closeSync(memory)
  return [...found]
}

const OVERLAP = 256n

function* readRange(memory: number, from: bigint, to: bigint): Generator<Buffer> {
  const chunk = Buffer.alloc(1 << 20)
  for (let at = from; at < to; at += BigInt(chunk.length) - OVERLAP) {
    try {
      const options = { position: at, length: Math.min(chunk.length, Number(to - at)) }
      yield chunk.subarray(0, readSync(memory, chunk, options))
    } catch {
      // A page that cannot be read contains nothing of ours.
    }
  }
}

const secrets = [MASTER, S3_SECRET]

/** Which of these texts the running executors contain. */
function findInExecutors(texts: readonly string[]): string[] {
  const pids = executors()
  assert.ok(pids.length > 0)
  for (const pid of pids) {
    const told = readFileSync(`/proc/${pid}/environ`, 'utf8') + readFileSync(`/proc/${pid}/cmdline`, 'utf8')
    for (const secret of secrets) assert.ok(!told.includes(secret))
  }
  return [...new Set(pids.flatMap((pid) => findInMemory(pid, texts)))]
}

test('the executor of a run has the settings of the blob store and none of the master secrets', async () => {
  const worker = await engine.work()
  const finished = await engine.finished(await engine.trigger(await engine.createPipeline({})))
  assert.equal(finished.status, 'success')
  assert.deepEqual(findInExecutors(secrets), [S3_SECRET], 'that of the bucket, and only that')
  await worker.stop(AbortSignal.abort())
})

test('the executor of a call has no secret of the service at all', async () => {
  const body = {
    source: { name: 'dummy', authentication: { type: 'api_key', params: { token: 'a-secret-of-a-tenant' } } },
  }
  const answer = await engine.call('POST', '/api/connectors/check', { as: engine.person, body })
  assert.deepEqual(answer.body, { success: true, message: 'The connection works' })
  assert.deepEqual(findInExecutors([...secrets, 'a-secret-of-a-tenant']), ['a-secret-of-a-tenant'])
})

test('the kernel kills cells first, then executors, and both run with lower priority than the service', async () => {
  const sleeping = `
from svc.source.base import AbstractSource
class Mine(AbstractSource):
    def get_streams(self): return ["a"]
    def check_connection(self): return True
    def get_records(self, stream):
        import time
        time.sleep(60)
        yield {}
`
  const gone = new AbortController()
  const input = { code: sleeping, stream: 'a', source_name: null, max_records: 1, validate: false }
  const call = { ...input, authentication: null, config: null }
  const running = engine.services.calls.run(engine.person.organization_id, 'preview', call, { signal: gone.signal })
  const cellsOf = (executor: number) => childrenOf(executor, 'zygote.py').flatMap((zygote) => childrenOf(zygote, ''))
  // A cell forked a moment ago has not set its priority yet.
  const told = () => executors().some((pid) => cellsOf(pid).some((cell) => oomScoreOf(cell) === 800))
  await waitUntilGone(() => (told() ? [] : ['not yet']), 10_000)
  assert.ok(told())
  const own = { score: oomScoreOf(process.pid), nice: niceOf(process.pid) }
  const trees = new Map(executors().map((pid) => [pid, cellsOf(pid)]))
  for (const [pid, cells] of trees) {
    assert.equal(oomScoreOf(pid), Math.max(own.score, 500))
    // A cell that has exited meanwhile has none.
    for (const each of [pid, ...cells])
      assert.ok([Math.min(19, own.nice + 5), Number.NaN].some((nice) => Object.is(nice, niceOf(each))))
  }
  gone.abort()
  await assert.rejects(running)
  const stays = () => [...trees.keys()].filter((pid) => executors().includes(pid)).map(String)
  await waitUntilGone(() => (stays().length < trees.size ? [] : stays()), 5000)
  const ended = [...trees].filter(([pid]) => !stays().includes(String(pid)))
  assert.equal(ended.length, 1)
  assert.deepEqual(await waitUntilGone(() => ended[0]![1].map(String).filter(lives), 5000), [])
})

const lives = (pid: string): boolean => !['', 'Z'].includes(fieldsOf(Number(pid))[0]!)
