/** The log of a run with 100,000 lines in Chromium: how soon its end is shown, and how long the frames take while it is scrolled. */
import { type Browser, openBrowser } from '../../server/test/harness/browser.ts'
import { percentile, report } from './figures.ts'
import type { Platform } from './platform.ts'

type Page = Awaited<ReturnType<Browser['context']['newPage']>>

const LINES = 100_000
const CHUNK = 500
const FRAMES = 300
const MOVES = [
  ['scrolling up, 240 px a frame', 'box.scrollTop - 240'],
  ['scrolling fast, 4,000 px a frame', 'box.scrollTop - 4000'],
  ['dragging the scrollbar, anywhere each frame', 'Math.random() * box.scrollHeight'],
] as const
const LOG = `document.querySelector('[aria-label="Log"]')`

export async function measureLog(platform: Platform): Promise<void> {
  const token = await platform.api.register()
  const run = await makeRun(platform, token)
  const browser = await openBrowser()
  try {
    const page = await browser.context.newPage()
    await page.goto(`${platform.url}/sign-in`)
    const session = JSON.stringify({ access_token: token, refresh_token: 'none', expires_at: Date.now() + 3_600_000 })
    await page.evaluate(`localStorage.setItem('sluice.session', ${JSON.stringify(session)})`)
    const openedMs: number[] = []
    for (let round = 0; round < 3; round += 1) openedMs.push(await measureOpening(page, `${platform.url}/runs/${run}`))
    report('a log of 100,000 lines, to its last line', { ms: Math.max(...openedMs) }, 'worst of 3, target 1,000')
    for (const [what, move] of MOVES) {
      printFrames(`${what}, time between frames`, await measureFrames(page, move))
      printFrames(`${what}, processor time of the page`, await measureWork(page, move))
    }
  } finally {
    await browser.close()
  }
}

async function makeRun({ api, db }: Platform, token: string): Promise<string> {
  const config = { source: { name: 'dummy', stream: 'creatures' }, destination: { name: 'file' } }
  const { id } = await api.create(token, '/api/pipelines', { name: 'Chatty', config })
  const run = await api.create(token, `/api/pipelines/${id}/run`)
  await api.untilFinished(token, run.id)
  for (let first = 0; first < LINES; first += CHUNK) {
    const text = Array.from({ length: CHUNK }, (_, index) => {
      const level = index % 97 === 0 ? 'WARN ' : index % 499 === 0 ? 'ERROR' : 'INFO '
      const length = 40 + ((first + index) % 160)
      return `2026-11-16T10:00:00.123Z ${level} line ${first + index} ${'of the log '.repeat(20).slice(0, length)}\n`
    }).join('')
    await db.query('SELECT append_run_log($1, NULL, $2, $3)', [run.id, CHUNK, text])
  }
  return run.id
}

/** From the request for the page to the last line on the screen. */
async function measureOpening(page: Page, address: string): Promise<number> {
  const began = performance.now()
  await page.goto(address)
  await page.getByText(`line ${LINES - 1} `).waitFor()
  return performance.now() - began
}

/** Moves the log in every frame and measures the time between frames. */
async function measureFrames(page: Page, move: string): Promise<number[]> {
  return (await page.evaluate(`new Promise((resolve) => {
    const box = ${LOG}
    box.scrollTop = box.scrollHeight
    const times = []
    let last = 0
    const step = (now) => {
      if (last > 0) times.push(now - last)
      last = now
      if (times.length >= ${FRAMES}) return resolve(times)
      box.scrollTop = ${move}
      requestAnimationFrame(step)
    }
    setTimeout(() => requestAnimationFrame(step), 500)
  })`)) as number[]
}

/** The same without what other processes take: the main thread's own time for each move and the two frames after it. */
async function measureWork(page: Page, move: string): Promise<number[]> {
  const session = await page.context().newCDPSession(page)
  await session.send('Performance.enable', { timeDomain: 'threadTicks' })
  const spent = async () => {
    const { metrics } = await session.send('Performance.getMetrics')
    return metrics.find(({ name }) => name === 'TaskDuration')!.value * 1000
  }
  const times: number[] = []
  let last = await spent()
  for (let frame = 0; frame < FRAMES / 2; frame += 1) {
    await page.evaluate(`new Promise((resolve) => {
      const box = ${LOG}
      box.scrollTop = ${move}
      requestAnimationFrame(() => requestAnimationFrame(resolve))
    })`)
    const now = await spent()
    times.push(now - last)
    last = now
  }
  await session.detach()
  return times
}

function printFrames(what: string, times: number[]): void {
  const figures = { p50: percentile(times, 50), p99: percentile(times, 99), worst: Math.max(...times) }
  report(what, { ...figures, 'over 50 ms': times.filter((ms) => ms > 50).length }, 'ms per frame, target 50')
}
