/** An executor that fills the disk is ended before the reserve of the service is reached; the others go on. */
import assert from 'node:assert/strict'
import path from 'node:path'
import { after, test } from 'node:test'
import { createCallPool } from '../../src/executors/call-pool.ts'
import { createExecutorPool } from '../../src/executors/pool.ts'
import { findTree, isAlive, waitUntilGone } from '../harness/processes.ts'

const entry = path.join(import.meta.dirname, 'hostile-executor.ts')
const cell = { python: 'python3', sandbox: 'kernel' as const, limits: {}, modules: [] }

/** SQLite sorts endlessly, in files that no folder lists, and the thread never gets to do anything else. */
const SORT = `const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
  new DatabaseSync(':memory:').prepare(\`WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
    SELECT row_number() OVER (ORDER BY hex(randomblob(8)), hex(zeroblob(20000))) FROM c\`).get()`

function openPool(keepFreeBytes?: number) {
  const pool = createCallPool({
    settings: () => ({ serves: 'calls', cell }),
    egress: () => ({ allow: [], self: [] }),
    memoryMb: 512,
    concurrency: 2,
    perOrganization: 2,
    warn() {},
    deadlineMs: 60_000,
    entry,
    ...(keepFreeBytes && { keepFreeBytes }),
  })
  after(() => pool.close())
  return (code: string) => pool.run('a', 'validate', { code, source_name: null })
}

test('a call that spills into files is ended when the disk is nearly full', async () => {
  const run = openPool(Number.MAX_SAFE_INTEGER)
  const spilled = await run(`say('begun'); ${SORT}`)
  assert.ok(!spilled.ok)
  assert.equal(spilled.kind, 'limit', spilled.message)
  assert.match(spilled.message, /^The disk has only \d+ MB left, which the service reserves for itself/)
})

test('a call that holds no such files goes on, however full the disk is', async () => {
  const run = openPool(Number.MAX_SAFE_INTEGER)
  assert.ok((await run("say('begun'); setTimeout(answer, 500)")).ok)
})

test('a call may spill while there is room', async () => {
  const hold = `const fs = process.getBuiltinModule('node:fs'); const file = process.env.TMPDIR + '/spilled'
    const fd = fs.openSync(file, 'wx'); fs.unlinkSync(file); fs.writeSync(fd, Buffer.alloc(64 << 20))`
  assert.ok((await openPool(1)(`say('begun'); ${hold}; setTimeout(answer, 500)`)).ok)
})

test('the executor of a run says that it has to end', async () => {
  const settings = () => ({
    serves: 'runs' as const,
    blobs: { DATA_DIR: '/nowhere' },
    egress: { allow: [], self: [] },
    cell,
    checkpointMs: 1000,
  })
  const pool = createExecutorPool({
    settings,
    memoryMb: 256,
    warm: 0,
    most: 1,
    entry,
    keepFreeBytes: Number.MAX_SAFE_INTEGER,
  })
  after(() => pool.close())
  const executor = pool.take()
  assert.equal(executor.spaceFault(), null, 'it has written nothing yet')
  executor.send({ type: 'run', job: { code: SORT } as never })
  assert.deepEqual(
    await waitUntilGone(() => (executor.spaceFault() === null ? [String(executor.pid)] : []), 30_000),
    [],
  )
  assert.match(executor.spaceFault()!, /^The disk has only/)
  pool.give(executor, false)
  await executor.ended
  assert.deepEqual(findTree(executor.pid).filter(isAlive), [])
  assert.equal(executor.spaceFault(), null, 'what it held is free again')
})
