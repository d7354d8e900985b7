/** The minimal cost of any such queue: claim a row, send a message to a warm child, finish the row. */
import { fork } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import type { Platform } from './platform.ts'

const JOBS = 2000

export async function measureBareQueue(db: Platform['db']): Promise<number> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-bare-'))
  const script = path.join(folder, 'child.cjs')
  writeFileSync(script, "process.on('message', (m) => process.send(m))")
  const child = fork(script)
  const answered = (id: number) =>
    new Promise<void>((resolve) => {
      const hear = (message: number) => {
        if (message !== id) return
        child.off('message', hear)
        resolve()
      }
      child.on('message', hear)
      child.send(id)
    })
  await db.query('CREATE TABLE IF NOT EXISTS bare_jobs (id int PRIMARY KEY, status text NOT NULL)', [])
  await db.query('TRUNCATE bare_jobs', [])
  await db.query(`INSERT INTO bare_jobs SELECT n, 'pending' FROM generate_series(1, ${JOBS}) n`, [])
  const began = performance.now()
  const work = async () => {
    for (;;) {
      const [row] = await db.query<{ id: number }>(
        `UPDATE bare_jobs SET status = 'running' WHERE id = (SELECT id FROM bare_jobs WHERE status = 'pending' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id`,
        [],
      )
      if (!row) return
      await answered(row.id)
      await db.query(`UPDATE bare_jobs SET status = 'success' WHERE id = $1`, [row.id])
    }
  }
  await Promise.all([work(), work(), work(), work()])
  const perSecond = JOBS / ((performance.now() - began) / 1000)
  child.kill()
  await db.query('DROP TABLE bare_jobs', [])
  rmSync(folder, { recursive: true, force: true })
  return perSecond
}
