/** The list of 10,000 pipelines with 20 runs each: from a key in the find field to the first rows that answer it, on loopback. */
import type { Page } from 'playwright-core'
import { openBrowser } from '../../server/test/harness/browser.ts'
import { percentile, report } from './figures.ts'
import type { Platform } from './platform.ts'

const PIPELINES = 10_000
const account = { email: 'bench@example.com', password: 'Choose-1-password', name: 'Bench', organization_name: 'Bench' }

export async function measureList(platform: Platform, keys: number): Promise<void> {
  await seed(platform)
  const browser = await openBrowser()
  try {
    const page = await browser.context.newPage()
    page.setDefaultTimeout(120_000)
    await signIn(page, platform.url)
    await measureKeys(page, keys)
  } finally {
    await browser.close()
  }
}

/** Names of which a search for a number finds few, and a search for a letter many. */
async function seed({ api, db }: Platform): Promise<void> {
  const config = { source: { name: 'dummy', stream: 'creatures' }, destination: { name: 'file' } }
  const { access_token } = await api.create('', '/api/auth/register', account)
  const { id } = await api.create(access_token, '/api/pipelines', { name: 'first', config, schedule: '0 6 * * *' })
  await db.query(
    `INSERT INTO pipelines (organization_id, name, config_box, source_name, stream, destination_name, schedule, enabled, created_at)
     SELECT organization_id, 'Orders of region ' || n, config_box, source_name, stream, destination_name, schedule, true, now() - n * interval '1 minute'
       FROM pipelines, generate_series(1, $2::int) n WHERE id = $1`,
    [id, PIPELINES - 1],
  )
  await db.query(
    `INSERT INTO runs (organization_id, pipeline_id, triggered_by, ready, status, created_at, started_at, finished_at, records_written)
     SELECT organization_id, id, 'schedule', false, CASE WHEN n % 9 = 0 THEN 'failed' ELSE 'success' END, t, t, t + n * interval '1 second', n
       FROM pipelines, generate_series(1, 20) n, LATERAL (SELECT now() - (21 - n) * interval '1 hour') AS at (t)`,
    [],
  )
  await db.query('VACUUM ANALYZE pipelines, pipeline_activity, runs', [])
}

async function signIn(page: Page, url: string): Promise<void> {
  await page.goto(`${url}/sign-in?next=/pipelines`)
  await page.getByLabel('Email').fill(account.email)
  await page.getByLabel('Password').fill(account.password)
  await page.getByRole('button', { name: 'Sign in' }).click()
  await page.getByRole('link', { name: 'Orders of region' }).first().waitFor()
}

/**
 * In the page, so that the way between this process and the browser is not measured: from the input event of the key to the
 * frame after the rows of the new search were drawn.
 */
const MEASURE = `async (text) => {
  const field = document.querySelector('input[type=search]')
  const list = document.querySelector('table[aria-label=Pipelines]')
  const names = () => [...list.querySelectorAll('tbody tr a')].map((link) => link.textContent.toLowerCase())
  const done = () => !list.hasAttribute('aria-busy') && names().length > 0 && names().every((name) => name.includes(text))
    && new URLSearchParams(location.search).get('q')?.replaceAll('"', '') === (text || undefined)
  const began = performance.now()
  Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, 'value').set.call(field, text)
  field.dispatchEvent(new Event('input', { bubbles: true }))
  while (!done()) await new Promise((resolve) => requestAnimationFrame(resolve))
  const ended = performance.now()
  const asked = performance.getEntriesByType('resource').findLast(({ name }) => name.includes('/api/pipelines?'))
  performance.clearResourceTimings()
  return { whole: ended - began, request: asked && asked.startTime > began ? asked.duration : 0 }
}`

interface Measured {
  whole: number
  /** The request for the rows, as the browser saw it; 0 if they were known from a search before. */
  request: number
}

async function measureKeys(page: Page, keys: number): Promise<void> {
  const times: number[] = []
  const requests: number[] = []
  for (let at = 0; times.length < keys; at++) {
    // As somebody types who looks for one of them: each key is one search.
    const wanted = `region ${1000 + ((at * 7919) % 8999)}`
    for (let length = 1; length <= wanted.length && times.length < keys; length++) {
      const text = wanted.slice(0, length)
      if (text.endsWith(' ')) continue
      const { whole, request } = await page.evaluate<Measured>(`(${MEASURE})(${JSON.stringify(text)})`)
      times.push(whole)
      if (request > 0) requests.push(request)
    }
  }
  report(
    `keystroke to rows, ${PIPELINES} pipelines, ${times.length} keys`,
    { p50_ms: percentile(times, 50), p95_ms: percentile(times, 95), request_p50_ms: percentile(requests, 50) },
    'p95 below 200 ms',
  )
}
