/**
 * `npm run soak -- --minutes 30`: a whole service under mixed load, looked at every five seconds. After the warm-up no figure may
 * grow: it fails if the slope of Theil and Sen is significantly above zero and the growth by it is beyond the tolerance
 * (scripts/soak/figures.ts). Not part of `npm test`.
 */
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { loadavg, tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Platform, startPlatform } from '../bench/lib/platform.ts'
import { describeMachine } from './failover/cluster.ts'
import { FIGURES, type Figure, TOLERANCE, takeFigures } from './soak/figures.ts'
import { beginSoak, startReceiver } from './soak/load.ts'
import { findTrend, type Sample } from './soak/trend.ts'

const HELP = 'npm run soak -- [--minutes N] [--warm-up N]   minutes after the warm-up (30), minutes of warm-up (6)'
const EVERY_MS = 5000

const { values } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    'warm-up': { type: 'string', default: '6' },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
if (values.help) {
  console.log(HELP)
  process.exit(0)
}
const minutes = Number(values.minutes)
const warmUp = Number(values['warm-up'])

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-soak-'))
const data = path.join(folder, 'data')
const temporary = path.join(folder, 'tmp')
mkdirSync(temporary)
const receiver = await startReceiver()
let platform: Platform | undefined
/** Also where something failed: nothing of it may go on. */
process.once('exit', () => {
  if (platform) kill(platform.pid)
  rmSync(folder, { recursive: true, force: true, maxRetries: 10 })
})
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1))
platform = await startPlatform(data, {
  TMPDIR: temporary,
  EGRESS_ALLOW: `127.0.0.1:${receiver.port}`,
  LOG_LEVEL: 'error',
})
console.log(`${minutes} minutes after ${warmUp} of warm-up; ${describeMachine()}`)
const load = await beginSoak(platform.url, receiver.port)
process.exitCode = report(await watch(platform))
await load.stop()
await platform.stop()
receiver.close()

function kill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has stopped.
  }
}

async function watch(platform: Platform): Promise<Record<Figure, Sample[]>> {
  const taken = Object.fromEntries(FIGURES.map((figure) => [figure, []])) as unknown as Record<Figure, Sample[]>
  const began = performance.now()
  for (let turn = 0; ; turn++, await delay(EVERY_MS)) {
    const at = (performance.now() - began) / 1000
    if (at > (minutes + warmUp) * 60) return taken
    const rows = await platform.db
      .query<{ count: number }>(
        `SELECT count(*)::int AS count FROM pg_stat_activity WHERE application_name LIKE 'sluice%'`,
        [],
      )
      .catch((error: Error) => error)
    if (rows instanceof Error) {
      load.failures.set(rows.message, (load.failures.get(rows.message) ?? 0) + 1)
      continue
    }
    const figures = takeFigures({ pid: platform.pid, data, temporary }, rows[0]!.count)
    if (at > warmUp * 60) for (const figure of FIGURES) taken[figure].push({ at, value: figures[figure] })
    if (turn % 12 === 0) {
      const shown = FIGURES.map((figure) => `${figure} ${figures[figure].toFixed(figure.endsWith('mb') ? 1 : 0)}`)
      console.log(`${(at / 60).toFixed(1).padStart(5)} min  ${shown.join('  ')}  load ${loadavg()[0]!.toFixed(1)}`)
    }
  }
}

function report(samples: Record<Figure, Sample[]>): number {
  const list = (map: Map<string, number>) => [...map].map(([what, count]) => `${count}× ${what}`).join(', ') || 'none'
  console.log(
    `\nload: ${list(load.counts)}, ${receiver.received()} webhooks received\nfailures: ${list(load.failures)}\n`,
  )
  console.log('                        median   grown by   at least   tolerance')
  let failed = load.failures.size > 0 ? 1 : 0
  for (const figure of FIGURES) {
    const { median, grown, atLeast } = findTrend(samples[figure])
    const { share, amount } = TOLERANCE[figure]
    const most = Math.max(amount, share * median)
    const wrong = atLeast > 0 && grown > most
    if (wrong) failed = 1
    const numbers = [median, grown, atLeast, most].map((value) => value.toFixed(1).padStart(9))
    console.log(`${wrong ? 'WRONG' : 'ok   '}  ${figure.padEnd(13)} ${numbers.join('  ')}`)
  }
  return failed
}
