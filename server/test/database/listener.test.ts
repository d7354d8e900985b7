import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import { sql } from '../../src/database/database.ts'
import { cloneDatabase } from '../harness/database.ts'

const { db, drop } = await cloneDatabase()
after(drop)
const backends = async () =>
  (
    await db.query<{ pid: number }>(
      sql`SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'`,
    )
  ).map((row) => row.pid)

/** Messages in order of arrival, which can be awaited. */
function inbox(): { put(payload: string): void; next(): Promise<string> } {
  const arrived: string[] = []
  const waiting: ((payload: string) => void)[] = []
  return {
    put(payload) {
      const taker = waiting.shift()
      if (taker) taker(payload)
      else arrived.push(payload)
    },
    next: () =>
      arrived.length > 0 ? Promise.resolve(arrived.shift()!) : new Promise((resolve) => waiting.push(resolve)),
  }
}

test('all subscribers share one connection, and a broken one is reopened', async () => {
  const [first, second, gaps] = [inbox(), inbox(), inbox()]
  const stopFirst = await db.listen('news', first.put, () => gaps.put('gap'))
  const stopSecond = await db.listen('news', second.put)
  assert.equal(await gaps.next(), 'gap')
  assert.equal((await backends()).length, 1)
  await db.execute(sql`SELECT pg_notify('news', 'hello')`)
  assert.deepEqual([await first.next(), await second.next()], ['hello', 'hello'])

  await db.execute(sql`SELECT pg_terminate_backend(${(await backends())[0]})`)
  assert.equal(await gaps.next(), 'gap', 'whoever listens is told that something may be missing')
  assert.equal((await backends()).length, 1)
  await db.execute(sql`SELECT pg_notify('news', 'again')`)
  assert.deepEqual([await first.next(), await second.next()], ['again', 'again'])

  await stopFirst()
  await db.execute(sql`SELECT pg_notify('news', 'late')`)
  assert.equal(await second.next(), 'late')
  await stopSecond()
})

test('a failed subscription leaves the connection to the others', async () => {
  const [news, gaps] = [inbox(), inbox()]
  const stop = await db.listen('news', news.put, () => gaps.put('gap'))
  assert.equal(await gaps.next(), 'gap')
  await assert.rejects(
    db.listen('', () => {}),
    /zero-length/,
  )
  assert.equal(await gaps.next(), 'gap')
  const stopThird = await db.listen('more', () => {})
  assert.equal((await backends()).length, 1)
  await db.execute(sql`SELECT pg_notify('news', 'still here')`)
  assert.equal(await news.next(), 'still here')
  await stop()
  await stopThird()
})

test('who subscribes while a broken connection waits to be opened again shares the new one', async () => {
  const [news, gaps, more] = [inbox(), inbox(), inbox()]
  const stop = await db.listen('news', news.put, () => gaps.put('gap'))
  assert.equal(await gaps.next(), 'gap')
  await db.execute(sql`SELECT pg_terminate_backend(${(await backends())[0]})`)
  let stops: (() => Promise<void>)[] = []
  // At first the connection may still be taken for a working one.
  for (let tries = 0; stops.length === 0 && tries < 50; tries++) {
    await delay(10)
    const both = [db.listen('more', more.put), db.listen('other', () => {})]
    stops = await Promise.all(both).catch(async () => {
      for (const each of await Promise.allSettled(both)) if (each.status === 'fulfilled') await each.value()
      return []
    })
  }
  assert.equal(await gaps.next(), 'gap')
  assert.equal((await backends()).length, 1)
  await db.execute(sql`SELECT pg_notify('news', 'one'), pg_notify('more', 'two')`)
  assert.deepEqual([await news.next(), await more.next()], ['one', 'two'])
  for (const each of [...stops, stop]) await each()
  assert.deepEqual(await backends(), [])
})
