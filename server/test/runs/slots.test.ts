/** Slots whose claims lose their answers: every run that was claimed is executed, once. */
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { pickBlobSettings } from '../../src/blobs/open.ts'
import { cellSettings } from '../../src/cell/settings.ts'
import type { Connections, Statement } from '../../src/database/database.ts'
import { createExecutorPool } from '../../src/executors/pool.ts'
import { openSlots } from '../../src/runs/slots.ts'
import { startEngine } from '../harness/engine.ts'

const engine = await startEngine({ WORKER_CONCURRENCY: '2' })
const { services } = engine
const { config } = services

const END = 'finish_runs('
const CLAIM = 'claim_runs('
const LOAD = 'AS pipeline_name'
const UNKNOWN = 'SELECT id, organization_id, pipeline_id, seq, attempt, worker FROM runs'

type Handler = (answer: () => Promise<unknown>) => Promise<unknown>

/** Slots over connections in which a test decides what happens to the next statement with a text. */
function openWatchedSlots() {
  const handlers = new Map<string, Handler>()
  const { control } = services.db
  const pass = async <T>({ text }: Statement, answer: () => Promise<T>): Promise<T> => {
    for (const [part, handle] of handlers)
      if (text.includes(part)) {
        handlers.delete(part)
        return (await handle(answer)) as T
      }
    return answer()
  }
  const watched: Connections = {
    ...control,
    query: (statement) => pass(statement, () => control.query(statement)),
    first: (statement) => pass(statement, () => control.first(statement)),
    execute: (statement) => pass(statement, () => control.execute(statement)),
  }
  const pool = createExecutorPool({
    warm: 1,
    most: 2,
    memoryMb: config.RUN_MEMORY_MB,
    settings: () => ({
      serves: 'runs',
      blobs: pickBlobSettings(config),
      egress: { allow: [], self: [] },
      cell: cellSettings(config),
      checkpointMs: config.RUN_CHECKPOINT_MS,
    }),
  })
  const slots = openSlots({ ...services, db: { ...services.db, control: watched } }, pool)
  after(async () => {
    await slots.drain(AbortSignal.abort())
    await pool.close()
  })
  /** The next statement with this text; its answer waits for `release`. */
  const hold = (part: string, when: 'before' | 'after') => {
    const [reached, gate] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    handlers.set(part, async (answer) => {
      const early = when === 'after' ? await answer() : undefined
      reached.resolve()
      await gate.promise
      return when === 'after' ? early : answer()
    })
    return { reached: reached.promise, release: gate.resolve }
  }
  /** The next statement with this text waits for `execute`, and its answer for `release`. */
  const holdTwice = (part: string) => {
    const [reached, start, executed, gate] = Array.from({ length: 4 }, () => Promise.withResolvers<void>())
    handlers.set(part, async (answer) => {
      reached!.resolve()
      await start!.promise
      const result = await answer()
      executed!.resolve()
      await gate!.promise
      return result
    })
    const execute = () => {
      start!.resolve()
      return executed!.promise
    }
    return { reached: reached!.promise, execute, release: gate!.resolve }
  }
  /** The next statement with this text is executed, but its answer is lost. */
  const lose = (part: string): Promise<void> =>
    new Promise((resolve) => {
      handlers.set(part, async (answer) => {
        await answer()
        setImmediate(resolve)
        throw Object.assign(new Error('connection lost'), { code: 'ECONNRESET' })
      })
    })
  return { slots, hold, holdTwice, lose }
}

const seen = (part: string, hold: ReturnType<typeof openWatchedSlots>['hold']) => {
  const { reached, release } = hold(part, 'after')
  release()
  return reached
}
const slow = { dummy: { records: 50, delay_ms: 10 } }

test('a run whose claim is answered while unknown runs are released is not one of them', async () => {
  const { slots, hold, holdTwice, lose } = openWatchedSlots()
  await engine.trigger(await engine.createPipeline({}))
  const ended = holdTwice(END)
  slots.fill()
  await ended.reached
  // The end of the first run claims the second.
  const second = await engine.trigger(await engine.createPipeline(slow))
  await ended.execute()
  const lost = lose(CLAIM)
  slots.fill()
  await lost
  const unknown = hold(UNKNOWN, 'after')
  slots.fill()
  await unknown.reached
  const begun = seen(LOAD, hold)
  ended.release()
  await begun
  unknown.release()
  const { status, attempt } = await engine.finished(second)
  assert.deepEqual([status, attempt], ['success', 1])
})

test('an answer that is lost while unknown runs are released is not forgotten', async () => {
  const { slots, hold, lose } = openWatchedSlots()
  await engine.trigger(await engine.createPipeline({}))
  const ended = hold(END, 'before')
  slots.fill()
  await ended.reached
  const lost = lose(CLAIM)
  slots.fill()
  await lost
  const unknown = hold(UNKNOWN, 'after')
  slots.fill()
  await unknown.reached
  const second = await engine.trigger(await engine.createPipeline({}))
  const unread = lose(LOAD)
  ended.release()
  await unread
  unknown.release()
  slots.fill()
  const deadline = Date.now() + 60_000
  const run = await engine.until(second, ({ finished_at }) => finished_at !== null || Date.now() > deadline)
  assert.deepEqual([run.status, run.attempt, run.lost_attempts], ['success', 2, 0])
})
