import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { Mark } from '../../src/connectors/contract.ts'
import type { Fingerprint } from '../../src/engine/fingerprint.ts'
import type { Job } from '../../src/engine/job.ts'
import { decideStart, writePoint } from '../../src/engine/resume-point.ts'
import type { Json } from '../../src/json/json.ts'
import { fullRefresh } from '../harness/run-bench.ts'

const fingerprint = (stream: string): Fingerprint => ({
  v: 1,
  source: 's',
  stream,
  cursor_field: 'id',
  destination: 'd',
})
const [old, present] = [fingerprint('old'), fingerprint('present')]

const job = (state: Job['state'], more: Partial<Job> = {}): Job => ({
  run_id: 'run 10',
  seq: 10,
  attempt: 1,
  token: 'token',
  installation: 'installation',
  organization_id: 'organization',
  pipeline_id: 'pipeline',
  source: { name: 'dummy', stream: 'present', authentication: { type: 'none', params: {} }, config: {} },
  destination: { name: 'postgres', config: {} },
  sync: { ...fullRefresh, mode: 'incremental', write: 'append' },
  columns: {},
  keep_output: true,
  fingerprint: present,
  state,
  resume: null,
  schema: null,
  outputs: {},
  ...more,
})
const state = (seq: number, cursor: Json, of: Fingerprint | null) => ({ seq, cursor, fingerprint: of })
const counts = { records_read: 0, records_written: 0, bytes_written: 0 }
const mark = (seq: number, cursor: Json, of: Fingerprint | null, checkpoint = 0, run_id = `run ${seq}`): Mark => ({
  run_id,
  seq,
  attempt: 1,
  checkpoint,
  cursor: writePoint({
    run_id,
    seq,
    fingerprint: of,
    encoding: 'ndjson',
    resumable: true,
    resume: cursor,
    state: cursor,
    done: false,
    published: false,
    counts,
  }),
})
const begin = (given: Job, marked: Mark | null) => {
  const { state, changes, resume, checkpoint } = decideStart(given, marked, 'mark', true)
  return { state, changes, resume, checkpoint }
}
const start = (state: Json, changes: string[] = []) => ({ state, changes, resume: null, checkpoint: 0 })

describe('the state of a run', () => {
  it('is the newer of ours and of the mark', () => {
    assert.deepEqual(begin(job(state(5, 50, present)), mark(6, 60, present)), start(60))
    assert.deepEqual(begin(job(state(6, 60, present)), mark(5, 50, present)), start(60))
    assert.deepEqual(begin(job(null), null), start(null))
  })

  it('is none where the newer is of another fingerprint, and says what changed', () => {
    assert.deepEqual(begin(job(state(5, 50, old)), null), start(null, ['stream']))
    assert.deepEqual(begin(job(state(5, 50, present)), mark(6, 60, old)), start(null, ['stream']))
    assert.deepEqual(begin(job(state(6, 60, old)), mark(5, 50, present)), start(null, ['stream']))
    assert.deepEqual(begin(job(state(5, null, old)), null), start(null), 'there was no cursor to lose')
  })

  it('is adopted where nothing is known of it', () => {
    assert.deepEqual(begin(job(state(5, 50, null)), null), start(50))
    assert.deepEqual(begin(job(null), mark(6, 60, null)), start(60))
    assert.deepEqual(
      begin(job(state(5, 50, old)), mark(6, 60, null)),
      start(null, ['stream']),
      'a mark from before is of what our state says',
    )
  })

  it('is not an edit that was made for a config which came after the run', () => {
    assert.deepEqual(begin(job(state(12, 99, present)), mark(6, 60, present)), start(99))
    assert.deepEqual(begin(job(state(12, 99, old)), mark(6, 60, present)), start(60))
  })

  it('of a full refresh is none, and nothing is said about it', () => {
    const full = job(state(5, 50, old), { sync: fullRefresh })
    assert.deepEqual(begin(full, mark(6, 60, old)), start(null))
  })

  it('does not stand in the way of going on with the same run, which has its config pinned', () => {
    const again = job(state(5, 50, old), { attempt: 2 })
    const { resume, checkpoint } = begin(again, mark(10, 70, present, 3))
    assert.deepEqual({ resume, checkpoint }, { resume: 70, checkpoint: 3 })
  })
})

describe('a run', () => {
  it('is told from another by its id, whatever their numbers', () => {
    const given = job(null)
    const other = mark(10, 70, present, 3, 'another run')
    assert.throws(() => begin(given, other), /fenced/)
    const renumbered = mark(7, 70, present, 3, 'run 10')
    assert.equal(begin(given, renumbered).checkpoint, 3)
    assert.equal(begin(given, mark(7, 70, present, 3, 'another run')).checkpoint, 0)
  })

  it('is still told by its number in a point of an older release', () => {
    const old = { ...mark(10, 70, present, 3), run_id: 'run 10' }
    const { run_id: _, ...cursor } = old.cursor as Record<string, Json>
    assert.equal(begin(job(null), { ...old, cursor }).checkpoint, 3)
  })

  it('notices checkpoints that our database has lost', () => {
    const lost = (resume: Job['resume']) =>
      decideStart(job(null, { resume }), mark(10, 70, present, 3), 'mark', true).lost_checkpoints
    const saved = (checkpoint: number) => ({ checkpoint, cursor: null, parts: [], ...counts })
    assert.equal(lost(null), 3)
    assert.equal(lost(saved(1)), 2)
    assert.equal(lost(saved(3)), 0)
    assert.equal(lost(saved(4)), 0)
  })

  it('notices them also after an attempt that went on without them', () => {
    const part = (checkpoint: number) => ({
      key: `part ${checkpoint}`,
      size: 1,
      stored_bytes: 1,
      checkpoint,
      records: 10,
    })
    const lost = (checkpoints: number[], keep_output = true) => {
      const resume = { checkpoint: 3, cursor: null, parts: checkpoints.map(part) }
      const marked = mark(10, 70, present, 3)
      const cursor = { ...(marked.cursor as Record<string, Json>), counts: { ...counts, records_read: 30 } }
      return decideStart(job(null, { resume, keep_output }), { ...marked, cursor }, 'mark', true).lost_checkpoints
    }
    assert.equal(lost([1, 2, 3]), 0)
    assert.equal(lost([1, 3]), 1)
    assert.equal(lost([], false), 0)
  })
})
