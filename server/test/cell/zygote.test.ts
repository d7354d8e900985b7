import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { setImmediate, setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { runCellFile } from '../../src/cell/run-file.ts'
import { runSelfTest } from '../../src/cell/self-test.ts'
import { startZygote, type Zygote, type ZygoteOptions } from '../../src/cell/zygote.ts'
import { writeSource } from './harness.ts'

const SCRIPT = fileURLToPath(new URL('cell-process.ts', import.meta.url))

async function withCells(options: ZygoteOptions, use: (zygote: Zygote) => Promise<void>): Promise<void> {
  const zygote = startZygote(options)
  try {
    await use(zygote)
  } finally {
    await zygote.close()
  }
}

async function run(zygote: Zygote, code: string): Promise<string[]> {
  const logs: string[] = []
  await zygote.call({ op: 'run_file', code }, { log: (_, line) => void logs.push(line) })
  return logs
}

/** Descendants of the given process, from /proc. */
function descendants(pid: number): number[] {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc')) {
    if (!/^\d+$/.test(name)) continue
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      parents.set(Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]))
    } catch {
      // It exited between listing and reading.
    }
  }
  const found: number[] = []
  for (let level = [pid]; level.length > 0; ) {
    level = [...parents].filter(([, parent]) => level.includes(parent)).map(([child]) => child)
    found.push(...level)
  }
  return found
}

async function until(condition: () => boolean): Promise<void> {
  const deadline = performance.now() + 10_000
  while (!condition()) {
    assert.ok(performance.now() < deadline, 'it did not happen within 10 seconds')
    await wait(10)
  }
}

test('a cell has an empty environment, no paths, its own user and nothing from the previous one', () =>
  withCells({}, async (zygote) => {
    await run(zygote, 'import builtins, sys; builtins.mine = 1; sys.modules["json"].mine = 1')
    const logs = await run(
      zygote,
      'import os, sys, json; print(dict(os.environ), sys.argv, sys.path, hasattr(json, "mine"), "mine" in dir(__builtins__))',
    )
    assert.deepEqual(logs, ["{} ['cell'] [] False False"])
    const [uid] = await run(zygote, 'import os; print(os.getuid())')
    if (process.getuid?.() === 0) assert.equal(uid, '65533')
  }))

test('the zygote is replaced after a number of forks, without affecting a call', () =>
  withCells({ forks_per_process: 3 }, async (zygote) => {
    // The seed of hash() is chosen once per interpreter.
    const seeds = new Set<string>()
    for (let call = 0; call < 500 && seeds.size < 3; call++) seeds.add((await run(zygote, 'print(hash("a word"))'))[0]!)
    assert.equal(seeds.size, 3)
  }))

test('a zygote that was killed is replaced, and the calls it had can be tried again', () =>
  withCells({}, async (zygote) => {
    await run(zygote, '')
    const started = Promise.withResolvers<void>()
    const call = zygote.call({ op: 'run_file', code: 'print(1)\nwhile True: pass' }, { log: () => started.resolve() })
    const failed = assert.rejects(call, { kind: 'internal', transient: true })
    await started.promise
    const cells = descendants(process.pid)
    const own = cells.find((pid) => readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('zygote.py'))!
    process.kill(own, 'SIGKILL')
    await failed
    await until(() => cells.every((pid) => !existsSync(`/proc/${pid}`)))
    assert.deepEqual(await run(zygote, 'print(2)'), ['2'])
  }))

test('a call that is ended at any moment leaves no process behind', () =>
  withCells({ spares: 0 }, async (zygote) => {
    await run(zygote, '')
    const others = descendants(process.pid)
    for (let turns = 0; turns < 20; turns++) {
      const stop = new AbortController()
      const call = zygote.call({ op: 'run_file', code: 'while True: pass' }, { signal: stop.signal })
      for (let turn = 0; turn < turns * 20; turn++) await setImmediate()
      stop.abort(new Error('ended'))
      await assert.rejects(call, /ended/)
    }
    await until(() => descendants(process.pid).every((pid) => others.includes(pid)))
  }))

test('when the host dies its cells die with it', async () => {
  const host = spawn(process.execPath, [SCRIPT, 'hang', 'print("ready")\nwhile True: pass'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(host.stdout, 'data')
  const cells = descendants(host.pid!)
  assert.ok(cells.length >= 2)
  host.kill('SIGKILL')
  await until(() => cells.every((pid) => !existsSync(`/proc/${pid}`)))
})

test('an ordinary user gets the same sandbox', async (context) => {
  const attempt = 'import os\nprint(os.getuid())\nos.listdir("/")'
  const user = process.getuid?.() === 0 ? { uid: 65534, gid: 65534 } : {}
  if (spawnSync(process.execPath, ['--version'], { ...user, cwd: '/' }).status !== 0)
    return context.skip('this checkout lies in a folder that only root can enter')
  const host = spawn(process.execPath, [SCRIPT, 'run', attempt], {
    ...user,
    cwd: '/',
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const answer = JSON.parse(String((await once(host.stdout, 'data'))[0]))
  assert.equal(answer.self_test.ok, true, answer.self_test.reason)
  assert.notEqual(answer.uid, 0)
  assert.deepEqual(answer.logs, [String(answer.uid)])
  assert.deepEqual(answer.failure, {
    kind: 'source',
    message: "PermissionError: [Errno 1] Operation not permitted: '/'",
  })
})

test('without Python, custom sources are disabled, and every call says so', () =>
  withCells({ python: '/nowhere/python3' }, async (zygote) => {
    const verdict = await zygote.selfTest()
    assert.equal(verdict.ok, false)
    assert.match(verdict.reason, /need Python 3.9 or newer: \/nowhere\/python3 does not start/)
    await assert.rejects(zygote.call({ op: 'run_file', code: '' }), {
      kind: 'sandbox',
      message: `custom sources are disabled on this machine: ${verdict.reason}`,
    })
  }))

test('the self-test fails with the layers off', () =>
  withCells({ sandbox: 'none' }, async (zygote) => {
    assert.deepEqual(await run(zygote, 'import os; print(len(os.listdir("/")) > 0)'), ['True'])
    const verdict = await runSelfTest((job, handlers) => zygote.call(job, handlers))
    assert.deepEqual(verdict, { ok: false, reason: 'the kernel did not refuse: socket' })
  }))

test('a file runs sealed and unvalidated from the command line', () =>
  withCells({}, async (zygote) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'cell-'))
    try {
      const runFile = async (code: string) => {
        const file = path.join(folder, 'file.py')
        await writeFile(file, code)
        const out: string[] = []
        const said: string[] = []
        const write = (bytes: Buffer) => void out.push(bytes.toString())
        return [await runCellFile(file, { zygote, write, say: (line) => void said.push(line) }), out.join(''), said]
      }
      assert.deepEqual(await runFile(writeSource('print("hi")\nyield SourceRecord("1", {"a": 1})')), [
        0,
        '{"_record_id":"1","a":1}\n',
        ['info: hi'],
      ])
      const [code, , said] = await runFile('open("/etc/passwd")')
      assert.equal(code, 1)
      assert.match(String(said), /PermissionError: \[Errno 1\]/)
    } finally {
      await rm(folder, { recursive: true })
    }
  }))
