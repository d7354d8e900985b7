/** What /readyz reports about the work of this process. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Connections, Statement } from '../src/database/database.ts'
import { startWorker } from '../src/runs/worker.ts'
import { startEngine } from './harness/engine.ts'

const engine = await startEngine({ RUN_LEASE_SECONDS: '3' })
const { services } = engine

test('work that fails is reported until it succeeds, whatever else succeeds meanwhile', async () => {
  let broken = false
  let waiting: { text: string; resolve: () => void } | null = null
  /** Resolves when a statement with this text has been answered. */
  const answered = (text: string) =>
    new Promise<void>((resolve) => {
      waiting = { text, resolve }
    })
  const watch = async <T>({ text }: Statement, answer: () => Promise<T>): Promise<T> => {
    try {
      if (broken && text.includes('listening_workers')) throw new Error('no seat for anybody')
      return await answer()
    } finally {
      if (waiting && text.includes(waiting.text)) setImmediate(waiting.resolve)
    }
  }
  const { control } = services.db
  const watched: Connections = {
    ...control,
    query: (statement) => watch(statement, () => control.query(statement)),
    first: (statement) => watch(statement, () => control.first(statement)),
    execute: (statement) => watch(statement, () => control.execute(statement)),
  }
  const worker = await startWorker({ ...services, db: { ...services.db, control: watched } })
  const readQueue = async () => (await services.readiness()).queue
  assert.equal(await readQueue(), 'ok')
  broken = true
  await answered('listening_workers')
  assert.equal(await readQueue(), 'listening fails')
  await answered('failed_attempts > 0')
  assert.equal(await readQueue(), 'listening fails', 'although looking for runs succeeds')
  broken = false
  await answered('listening_workers')
  assert.equal(await readQueue(), 'ok')
  await worker.stop(AbortSignal.abort())
})
