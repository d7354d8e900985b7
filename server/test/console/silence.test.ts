/** What the console does when its stream of events is silent or refused, in a real browser whose clock the test moves. */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { type Browser, openBrowser, skipWithoutChromium } from '../harness/browser.ts'
import { type Engine, startEngine } from '../harness/engine.ts'
import { root } from '../harness/service.ts'

const skip = skipWithoutChromium || (existsSync(path.join(root, 'web/dist')) ? false : 'the console is not built')
/** Closes itself after all tests of the file, so it is started outside of them. */
const started = skip ? null : await startEngine()

describe('a stream of events that fails', { skip }, () => {
  const engine = started as Engine
  let browser: Browser
  let url: string

  before(async () => {
    await engine.work()
    await engine.app.listen({ port: 0, host: '127.0.0.1' })
    url = `http://127.0.0.1:${(engine.app.server.address() as AddressInfo).port}`
    browser = await openBrowser()
  })
  after(() => browser?.close())

  /** A page of a signed-in person, with a clock that only the test moves. */
  async function open(address: string): Promise<Page> {
    const { access_token } = engine.person
    const session = { access_token, refresh_token: 'none', expires_at: Date.now() + 3_600_000 }
    const page = await browser.context.newPage()
    page.setDefaultTimeout(120_000)
    await page.goto(`${url}/sign-in`)
    await page.evaluate((text) => localStorage.setItem('sluice.session', text), JSON.stringify(session))
    await page.clock.install()
    await page.goto(url + address)
    return page
  }

  async function createPipeline(name: string): Promise<string> {
    const source = { name: 'dummy', stream: 'creatures', config: { records: 5 } }
    const body = { name, config: { source, destination: { name: 'file' } } }
    const answer = await engine.call('POST', '/api/pipelines', { as: engine.person, body })
    assert.equal(answer.status, 201, answer.text)
    return answer.body.id
  }

  it('is replaced by polling after 20 seconds of silence, and not before', async () => {
    const pipeline = await createPipeline('Silent')
    // The stream is accepted, and then nothing comes, not even a heartbeat.
    await browser.context.route('**/api/runs/events', () => {})
    const page = await open('/runs')
    await page.getByText('Nothing has run yet').waitFor()
    let asked = 0
    page.on('request', (request) => {
      if (new URL(request.url()).pathname === '/api/runs') asked += 1
    })
    await engine.finished(await engine.trigger(pipeline))
    // Its clock has been running since the page was opened; from here on only the test moves it.
    const age = await page.evaluate<number>('performance.now()')
    await page.clock.pauseAt((await page.evaluate<number>('Date.now()')) + 1000)
    await page.clock.runFor(Math.max(0, 18_000 - age))
    assert.ok(asked === 0 || age > 17_000, 'a stream may be silent for a while')
    await page.clock.runFor(15_000)
    await page.clock.resume()
    await page.getByRole('link', { name: 'Silent' }).waitFor()
    assert.ok(asked > 0, 'it asks while the stream is silent')
    await page.close()
    await browser.context.unroute('**/api/runs/events')
  })

  it('is asked for again after pauses that grow, and its events end the polling', async () => {
    let refused = 0
    await browser.context.route('**/api/runs/events', (route) => {
      refused += 1
      return route.fulfill({ status: 503, body: '{"detail":"not now"}', contentType: 'application/json' })
    })
    const page = await open('/runs')
    await page.getByRole('heading', { name: 'Runs' }).waitFor()
    const countFor = async (seconds: number): Promise<number> => {
      const before = refused
      // In steps: an answer must arrive before the pause after it can begin.
      for (let step = 0; step < seconds * 2; step += 1) {
        await page.clock.runFor(500)
        await page.evaluate('fetch("/healthz")')
      }
      return refused - before
    }
    const first = await countFor(10)
    await countFor(50)
    const later = await countFor(30)
    assert.ok(first >= 2, `${first} attempts in the first ten seconds`)
    assert.ok(later <= 3, `${later} attempts in half a minute, after a minute of refusals`)
    await browser.context.unroute('**/api/runs/events')
    const back = page.waitForResponse((response) => response.url().endsWith('/api/runs/events') && response.ok())
    await countFor(40)
    await back
    await page.close()
  })
})
