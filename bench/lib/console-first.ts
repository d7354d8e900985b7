/**
 * The first page, for somebody who has never been there and for somebody who comes back: from the request for the address until
 * it can be used, on loopback, with the processor of the page slowed down four times.
 */
import type { BrowserContext, Page } from 'playwright-core'
import { openBrowser } from '../../server/test/harness/browser.ts'
import { median, report } from './figures.ts'
import type { Platform } from './platform.ts'

const TIMES = 5
const SLOWER = 4
const account = { email: 'first@example.com', password: 'Choose-1-password', name: 'First', organization_name: 'First' }

export async function measureFirst({ api, url }: Platform): Promise<void> {
  await api.create('', '/api/auth/register', account)
  const browser = await openBrowser()
  try {
    const { context } = browser
    const stranger = await measure(context, url, (page) => page.getByLabel('Email').waitFor())
    const page = await context.newPage()
    await page.goto(`${url}/sign-in`)
    await page.getByLabel('Email').fill(account.email)
    await page.getByLabel('Password').fill(account.password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { level: 1 }).waitFor()
    const home = await measure(context, url, (page) =>
      page.getByRole('button', { name: 'Create a first pipeline and run it' }).waitFor(),
    )
    const about = `of ${TIMES}, ${SLOWER} times slower, target 1,000`
    report('sign-in, nothing cached, until it can be used', stranger, about)
    report('home, nothing cached, until it can be used', home, about)
  } finally {
    await browser.close()
  }
}

async function measure(context: BrowserContext, url: string, usable: (page: Page) => Promise<void>) {
  const times: number[] = []
  for (let at = 0; at < TIMES; at++) {
    const page = await context.newPage()
    // The start of the browser's own process is not ours.
    await page.goto('about:blank')
    const tools = await context.newCDPSession(page)
    await tools.send('Network.setCacheDisabled', { cacheDisabled: true })
    await tools.send('Emulation.setCPUThrottlingRate', { rate: SLOWER })
    const began = performance.now()
    await page.goto(url)
    await usable(page)
    times.push(performance.now() - began)
    await page.close()
  }
  return { median_ms: median(times), worst_ms: Math.max(...times) }
}
