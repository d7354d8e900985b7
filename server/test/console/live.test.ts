/** Runs in a real browser: live in every tab with one stream, their log, their output, and the palette that leads to them. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Page, Request } from 'playwright-core'
import { sql } from '../../src/database/database.ts'
import { type Browser, openBrowser, skipWithoutChromium, writeCode } from '../harness/browser.ts'
import { type Engine, startEngine } from '../harness/engine.ts'
import { root } from '../harness/service.ts'

const skip = skipWithoutChromium || (existsSync(path.join(root, 'web/dist')) ? false : 'the console is not built')
const AXE = createRequire(import.meta.url).resolve('axe-core/axe.min.js')
const MARKUP = '<img src=x onerror="alert(1)"> & <b>Orders</b>'

interface Violation {
  id: string
  nodes: { html: string; failureSummary?: string }[]
}

/** Closes itself after all tests of the file, so it is started outside of them. */
const started = skip ? null : await startEngine()

describe('live runs in the console', { skip }, () => {
  const engine = started as Engine
  let browser: Browser
  let url: string
  const problems: string[] = []
  const streams: Request[] = []

  before(async () => {
    await engine.work()
    await engine.app.listen({ port: 0, host: '127.0.0.1' })
    url = `http://127.0.0.1:${(engine.app.server.address() as AddressInfo).port}`
    browser = await openBrowser()
    browser.context.on('request', (request) => request.url().endsWith('/api/runs/events') && streams.push(request))
    const { access_token } = engine.person
    const session = JSON.stringify({ access_token, refresh_token: 'none', expires_at: Date.now() + 3_600_000 })
    const page = await open('/sign-in')
    await page.evaluate((text) => localStorage.setItem('sluice.session', text), session)
    await page.close()
  })
  after(() => browser?.close())

  async function open(address: string): Promise<Page> {
    const page = await browser.context.newPage()
    page.setDefaultTimeout(180_000)
    page.on('pageerror', (error) => problems.push(error.message))
    page.on('dialog', (dialog) => problems.push(dialog.message()))
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()))
    await page.goto(url + address)
    return page
  }

  async function createPipeline(name: string, dummy: object): Promise<string> {
    const config = { source: { name: 'dummy', stream: 'creatures', config: dummy }, destination: { name: 'file' } }
    const answer = await engine.call('POST', '/api/pipelines', { as: engine.person, body: { name, config } })
    assert.equal(answer.status, 201, answer.text)
    return answer.body.id
  }

  /** A run that is over, with a log of so many lines more. */
  async function runWithLog(pipeline: string, lines: string[]): Promise<string> {
    const run = await engine.trigger(pipeline)
    await engine.finished(run)
    const text = lines.map((line) => `2026-11-16T10:00:00.000Z ${line}\n`).join('')
    await engine.services.db.execute(sql`SELECT append_run_log(${run}, NULL, ${lines.length}, ${text})`)
    return run
  }

  /** A query has 30 seconds; on a machine that is too busy for that, the person clicks again. */
  async function download(page: Page, button: string): Promise<string> {
    for (let tries = 0; ; tries += 1) {
      const waiting = page.waitForEvent('download', { timeout: 45_000 })
      const [file] = await Promise.allSettled([waiting, page.getByRole('button', { name: button }).click()])
      if (file.status === 'fulfilled') return file.value.path()
      if (tries === 3) throw file.reason
    }
  }

  async function checkAccess(page: Page): Promise<void> {
    // Nothing but its colours differs in the other theme. A preload would copy style sheets into the page, which its policy forbids.
    for (const [theme, options] of [
      ['light', '{ preload: false }'],
      ['dark', "{ preload: false, runOnly: 'color-contrast' }"],
    ]) {
      await page.evaluate(`document.documentElement.dataset.theme = '${theme}'`)
      await page.evaluate(readFileSync(AXE, 'utf8'))
      const { violations } = (await page.evaluate(`axe.run(document, ${options})`)) as { violations: Violation[] }
      const found = violations.map(({ id, nodes }) => `${id}: ${nodes[0]?.html} ${nodes[0]?.failureSummary}`)
      assert.deepEqual(found, [], `${page.url()} in the ${theme} theme`)
    }
  }

  it('shares one stream between tabs, hands it over when a tab closes, and ends it at sign-out', async () => {
    const slow = await createPipeline(MARKUP, { records: 100_000, delay_ms: 5 })
    const first = await open('/')
    await first.getByRole('heading', { name: 'Running now' }).waitFor()
    await first.getByText('Nothing is running.').waitFor()
    const second = await open('/runs?status=running')
    await second.getByText('No run matches').waitFor()
    assert.equal(streams.length, 1)

    const run = await engine.trigger(slow)
    await first.getByRole('listitem').filter({ hasText: MARKUP }).getByText('records').waitFor()
    await second.getByRole('link', { name: MARKUP }).waitFor()
    assert.equal(streams.length, 1, 'both tabs were told by the same stream')

    const next = browser.context.waitForEvent('request', (request) => request.url().endsWith('/api/runs/events'))
    await first.close()
    await next
    await engine.call('POST', `/api/pipelines/runs/${run}/cancel`, { as: engine.person })
    await second.getByText('No run matches').waitFor()
    assert.equal(streams.length, 2)

    const ended = browser.context.waitForEvent('requestfailed', (request) => request === streams[1])
    await second.evaluate(() => {
      const session = localStorage.getItem('sluice.session')!
      sessionStorage.setItem('kept', session)
    })
    const revoke = await second.context().newPage()
    await revoke.goto(`${url}/healthz`)
    await revoke.evaluate(() => localStorage.removeItem('sluice.session'))
    await second.getByRole('button', { name: 'Sign in', exact: true }).waitFor()
    await ended
    await second.evaluate(() => localStorage.setItem('sluice.session', sessionStorage.getItem('kept')!))
    await Promise.all([revoke.close(), second.close()])
    assert.deepEqual(problems, [])
  })

  it('says why a run failed before everything else, and shows failed pipelines at home', async () => {
    const pipeline = await createPipeline('Tickets', { records: 50, fail_after: 3 })
    const run = await engine.trigger(pipeline)
    await engine.finished(run)
    const page = await open('/')
    const item = page.getByRole('listitem').filter({ hasText: 'fail_after is set' })
    await item.getByRole('button', { name: 'Run again' }).waitFor()
    await page.getByRole('link', { name: /^Tickets: failed at/ }).waitFor()
    await page.getByRole('heading', { name: 'Records per day' }).waitFor()
    await checkAccess(page)
    await item.getByRole('link', { name: /^Open/ }).click()
    await page.waitForURL(`**/runs/${run}`)
    await page.getByRole('alert').getByText('The dummy source failed after 3 records').waitFor()
    await page.getByRole('heading', { name: 'Tickets', level: 1 }).waitFor()
    assert.match(await page.title(), /^Tickets/)
    const triggered = page.waitForURL((address) => !address.pathname.endsWith(run))
    await page.getByRole('button', { name: 'Run again' }).click()
    await triggered
    await page.getByText('Failed', { exact: true }).waitFor()
    await page.close()
    assert.deepEqual(problems, [])
  })

  it('opens a log at its end, finds a text in the whole of it, and filters by level', async () => {
    const pipeline = await createPipeline('Chatty', { records: 5 })
    const lines = Array.from({ length: 6000 }, (_, index) =>
      index % 1500 === 10 ? `WARN  <b>needle</b> ${index}` : `INFO  page ${index} was read`,
    )
    const run = await runWithLog(pipeline, lines)
    const page = await open(`/runs/${run}`)
    const log = page.getByRole('region', { name: 'Log' })
    await log.getByText('page 5999 was read').waitFor()
    assert.equal(await log.getByText('page 100 was read').count(), 0, 'only what is visible is in the page')

    await page.keyboard.press('/')
    await page.keyboard.type('NEEDLE')
    await page.getByText('4 of 4').waitFor()
    await log.getByText('<b>needle</b> 4510').waitFor()
    await page.getByRole('button', { name: 'Next match' }).click()
    await page.getByText('1 of 4').waitFor()
    await log.getByText('<b>needle</b> 10').waitFor()
    await log.getByText('page 11 was read').waitFor()
    await page.getByRole('button', { name: 'Go to the end' }).click()
    await log.getByText('page 5999 was read').waitFor()

    await page.getByLabel('Level').selectOption('Warnings and errors')
    await page.waitForURL('**level=warn**')
    await log.getByText('<b>needle</b> 3010').waitFor()
    assert.equal(await log.getByText('was read').count(), 0)
    await checkAccess(page)
    assert.match(readFileSync(await download(page, 'Download log'), 'utf8'), /page 5999 was read\n$/)
    await page.close()
    assert.deepEqual(problems, [])
  })

  it('shows the output with its types, runs SQL over it, and says beside the box what is wrong', async () => {
    const run = await engine.trigger(await createPipeline('Creatures', { records: 30 }))
    await engine.finished(run)
    const page = await open(`/runs/${run}?tab=output`)
    await page.getByRole('columnheader', { name: /weight_kg\s*decimal/ }).waitFor()
    await checkAccess(page)
    await writeCode(
      page.getByLabel('SQL query over the table output'),
      'SELECT kind, count(*) AS animals FROM output GROUP BY kind ORDER BY kind',
    )
    await page.keyboard.press('Control+Enter')
    await page.getByRole('columnheader', { name: /animals\s*int64/ }).waitFor()
    const csv = await download(page, 'Download result as CSV')
    assert.match(readFileSync(csv, 'utf8'), /^kind,animals\r?\n/)
    await writeCode(page.getByLabel('SQL query over the table output'), 'SELECT nothing FROM output')
    await page.getByRole('button', { name: 'Run query' }).click()
    await page.getByText(/Referenced column "nothing" not found/).waitFor()
    await page.getByRole('link', { name: 'Configuration' }).click()
    await page.getByText('"full_refresh"').waitFor()
    await page.close()
    // The browser itself reports every answer that is an error.
    assert.deepEqual(
      problems.splice(0).filter((problem) => !problem.includes('status of 400')),
      [],
    )
  })

  it('filters runs in the address, and finds pages, pipelines and actions in the palette', async () => {
    const pipeline = await createPipeline('Zebra census', { records: 3 })
    await engine.finished(await engine.trigger(pipeline))
    const page = await open('/runs')
    await page.getByRole('combobox', { name: 'Pipeline' }).fill('zebra')
    await page.getByRole('option', { name: 'Zebra census' }).click()
    await page.waitForURL(`**pipeline_id=${pipeline}`)
    await page.getByText('1 found').waitFor()
    await checkAccess(page)

    await page.keyboard.press('Control+k')
    const field = page.getByRole('combobox', { name: 'Find pages, pipelines, runs and actions' })
    await field.fill('zebra')
    await page.getByRole('option', { name: 'Run Zebra census' }).waitFor()
    await checkAccess(page)
    await field.press('Enter')
    // At once, while the page that was chosen is still being loaded: the choice must not close what was opened after it.
    await page.keyboard.press('Control+k')
    await page.waitForURL(`**/pipelines/${pipeline}`)
    await page.getByRole('heading', { name: 'Zebra census' }).waitFor()
    assert.equal(await field.inputValue(), '')
    await field.fill('run zebra')
    await page.getByRole('option', { name: 'Run Zebra census', selected: true }).waitFor()
    await field.press('Enter')
    await page.waitForURL('**/runs/*')
    // The page before stays until this one has been loaded.
    await page.getByRole('region', { name: 'Log' }).waitFor()
    await page.getByText('Success', { exact: true }).waitFor()
    await page.keyboard.press('?')
    await page.getByRole('heading', { name: 'Keyboard shortcuts' }).waitFor()
    await page.keyboard.press('Escape')
    await page.keyboard.press('g')
    await page.keyboard.press('h')
    await page.getByRole('heading', { name: 'Home', level: 1 }).waitFor()
    await page.close()
    assert.deepEqual(problems, [])
  })
})
