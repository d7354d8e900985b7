/** What an event of a run changes in lists that the console has already. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { applyEvents } from '../../../web/src/api/apply-run-events.ts'

const run = (id: string, fields: object = {}) => ({
  id,
  pipeline_id: 'p1',
  pipeline_name: 'Orders',
  domain_id: null,
  status: 'running' as const,
  triggered_by: 'manual',
  attempt: 1,
  records_read: 10,
  records_written: 0,
  bytes_written: 0,
  error: null,
  created_at: `2026-11-16T10:00:0${id}.000000Z`,
  started_at: '2026-11-16T10:00:00.000000Z',
  finished_at: null,
  ...fields,
})
type Fields = Parameters<typeof run>[1]
const event = (id: string, fields: Fields = {}) => ({ type: 'run' as const, run: run(id, fields) })
const list = (...items: object[]) => ({ items, total: items.length })
const idsOf = (data: unknown) => (data as { items: { id: string }[] }).items.map(({ id }) => id)

test('a new run enters the first page of a list at its place, and the page keeps its length', () => {
  const data = list(run('5'), run('3'))
  assert.deepEqual(idsOf(applyEvents(['runs', { limit: 2 }], data, [event('4')])), ['5', '4'])
  assert.deepEqual(idsOf(applyEvents(['runs', { limit: 9 }], data, [event('1')])), ['5', '3', '1'])
  assert.equal(applyEvents(['runs', { limit: 2 }], data, [event('1')]), data, 'it belongs to a later page')
  assert.equal(applyEvents(['runs', { limit: 9, before: '6' }], data, [event('4')]), data)
})

test('a run that no longer fits the filter leaves the list, and others do not enter it', () => {
  const data = list(run('2'), run('1'))
  const ended = event('2', { status: 'success', finished_at: '2026-11-16T10:01:00Z' })
  assert.deepEqual(applyEvents(['runs', { status: 'running' }], data, [ended]), list(run('1')))
  for (const filters of [{ pipeline_id: 'p2' }, { triggered_by: 'schedule' }, { until: '2026-11-16T09:00:00Z' }]) {
    const empty = list()
    assert.equal(applyEvents(['runs', filters], empty, [event('2')]), empty)
  }
})

test('an event that is older than an answer changes nothing', () => {
  const ended = run('1', { status: 'success' })
  assert.equal(applyEvents(['run', '1'], ended, [event('1')]), ended)
  const second = run('1', { attempt: 2 })
  assert.equal(applyEvents(['run', '1'], second, [event('1', { status: 'pending' })]), second)
  const data = list(ended)
  assert.equal(applyEvents(['runs', {}], data, [event('1')]), data)
})

test('the page of a run keeps what events do not tell', () => {
  const data = { ...run('1'), output_file: null, records_quarantined: 3 }
  const changed = applyEvents(['run', '1'], data, [event('1', { records_read: 99 })]) as typeof data
  assert.equal(changed.records_read, 99)
  assert.equal(changed.records_quarantined, 3)
})

test('a pipeline shows the state of its last run', () => {
  const data = list({ id: 'p1', last_run_status: 'success', last_run_at: '2026-11-16T09:00:00.000000Z' }, { id: 'p2' })
  const changed = applyEvents(['pipelines', {}], data, [event('1')])
  assert.deepEqual((changed as typeof data).items[0], {
    id: 'p1',
    last_run_status: 'running',
    last_run_at: '2026-11-16T10:00:00.000000Z',
  })
  assert.equal(applyEvents(['pipelines', {}], data, [event('1', { pipeline_id: 'p9' })]), data)
})

test('a run that was deleted leaves every list', () => {
  const gone = { type: 'deleted' as const, id: '1', pipeline_id: 'p1' }
  assert.deepEqual(applyEvents(['runs', {}], list(run('2'), run('1')), [gone]), list(run('2')))
})
