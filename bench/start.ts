/**
 * How long `npm start` takes, the first time and later, and how much memory the idle service takes.
 *
 *   npm run bench:start
 */
import './lib/help.ts'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { median, report } from './lib/figures.ts'

const ROUNDS = Number(process.env.ROUNDS ?? 5)
const SETTLE_MS = 5000
const root = path.resolve(import.meta.dirname, '..')

/** Until it answers that it is ready, which is later than its last line on the terminal. */
async function start(folder: string): Promise<{ child: ChildProcess; ms: number }> {
  const began = performance.now()
  const child = spawn('npm', ['start'], {
    cwd: root,
    env: { PATH: process.env.PATH!, HOME: process.env.HOME ?? '/', DATA_DIR: folder, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const url = await new Promise<string>((resolve, reject) => {
    let said = ''
    child.stdout!.on('data', (chunk: Buffer) => {
      said += chunk
      const ready = /Sluice is ready at (\S+)/.exec(said)
      if (ready) resolve(ready[1]!)
    })
    child.once('exit', () => reject(new Error(`it exited during startup:\n${said}`)))
  })
  const answer = await fetch(`${url}/readyz`)
  if (!answer.ok) throw new Error(`/readyz: ${answer.status}`)
  return { child, ms: performance.now() - began }
}

async function stop(child: ChildProcess): Promise<number> {
  const began = performance.now()
  child.kill('SIGTERM')
  if (child.exitCode === null) await new Promise((resolve) => child.once('exit', resolve))
  return performance.now() - began
}

/** Each page of memory counts by a process's share of it (PSS), so that shared ones count once. */
function measureMemory(pid: number): { processes: number; megabytes: number } {
  const parents = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    const stat = readOrEmpty(`/proc/${name}/stat`).split(') ').at(-1)!.split(' ')
    parents.set(Number(name), Number(stat[1]))
  }
  const tree = [pid]
  for (const parent of tree) for (const [child, of] of parents) if (of === parent) tree.push(child)
  const kilobytes = tree.map((process) =>
    Number(/^Pss: +(\d+)/m.exec(readOrEmpty(`/proc/${process}/smaps_rollup`))?.[1] ?? 0),
  )
  return { processes: tree.length, megabytes: kilobytes.reduce((sum, one) => sum + one, 0) / 1024 }
}

function readOrEmpty(file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    return ''
  }
}

const first: number[] = []
const later: number[] = []
const ends: number[] = []
for (let round = 0; round < ROUNDS; round++) {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
  try {
    for (const times of [first, later]) {
      const { child, ms } = await start(folder)
      times.push(ms)
      if (times === later && round === ROUNDS - 1) {
        await delay(SETTLE_MS)
        const { processes, megabytes } = measureMemory(child.pid!)
        report('memory when idle, all processes', { megabytes, processes }, 'proportional set size')
      }
      ends.push(await stop(child))
    }
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}
report('npm start to ready, first', { median_ms: median(first), worst_ms: Math.max(...first) }, 'within 6 s')
report('npm start to ready, later', { median_ms: median(later), worst_ms: Math.max(...later) }, 'within 3 s')
report('SIGTERM to the end, nothing running', { median_ms: median(ends), worst_ms: Math.max(...ends) }, 'within 10 s')
