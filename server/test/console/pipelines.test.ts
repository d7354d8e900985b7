/** The list of pipelines and the page of one, in a real browser: found, selected, changed, taken back, read again. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { type Browser, openBrowser, skipWithoutChromium } from '../harness/browser.ts'
import { makeDataDir, root, type Service, startService } from '../harness/service.ts'

const built = existsSync(path.join(root, 'web/dist')) ? false : 'the console is not built'
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const MARKUP = '<img src=x onerror=alert(1)> & Söhne'
const account = {
  email: 'ada@example.com',
  password: 'Correct-horse-1',
  name: 'Ada',
  organization_name: 'Acme',
}

describe('pipelines', { skip: skipWithoutChromium || built }, () => {
  const folder = makeDataDir()
  const problems: string[] = []
  let service: Service
  let browser: Browser
  let page: Page
  let token: string
  const ids: string[] = []

  async function call(method: string, address: string, body?: object) {
    const answer = await fetch(`${service.url}/api${address}`, {
      method,
      headers: {
        ...(body && { 'content-type': 'application/json' }),
        ...(token && { authorization: `Bearer ${token}` }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    const text = await answer.text()
    assert.ok(answer.ok, `${address}: ${answer.status} ${text}`)
    return text === '' ? null : JSON.parse(text)
  }

  async function create(name: string, records = 50, more: object = {}): Promise<string> {
    const config = {
      source: { name: 'dummy', stream: 'creatures', config: { records } },
      destination: { name: 'sqlite', config: { table: 'rows' } },
      sync: { mode: 'incremental', write: 'upsert', primary_key: ['id'] },
    }
    const { id } = await call('POST', '/pipelines', { name, config, ...more })
    ids.push(id)
    return id
  }

  before(async () => {
    service = await startService(folder)
    token = (await call('POST', '/auth/register', account)).access_token
    const { id: domain_id } = await call('POST', '/domains', { name: MARKUP, color: '#2f7bd9' })
    await create('Orders', 50, { domain_id, schedule: '0 6 * * *' })
    await create(MARKUP)
    for (let at = 0; at < 6; at++) await create(`Stock ${at}`)
    browser = await openBrowser()
    page = await browser.context.newPage()
    page.setDefaultTimeout(45_000)
    page.on('pageerror', (error) => problems.push(error.message))
    page.on('console', (message) => {
      // The one request that a test wants to be refused.
      const wanted = message.location().url.endsWith('/backfill')
      if (message.type() === 'error' && !wanted) problems.push(message.text())
    })
    await page.goto(`${service.url}/sign-in?next=/pipelines`)
    await page.getByLabel('Email').fill(account.email)
    await page.getByLabel('Password').fill(account.password)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('link', { name: 'Orders' }).waitFor()
  })
  after(async () => {
    await browser?.close()
    service?.child.kill('SIGTERM')
    await service?.ended
    rmSync(folder, { recursive: true, force: true })
  })

  const rows = () => page.getByRole('table', { name: 'Pipelines' }).locator('tbody tr')
  const tab = (name: string) =>
    page.getByRole('navigation', { name: 'Parts of this pipeline' }).getByRole('link', { name, exact: true })
  const read = (id: string) => call('GET', `/pipelines/${id}`)

  async function assertAccessible(what: string): Promise<void> {
    for (const theme of ['light', 'dark']) {
      await page.evaluate(`document.documentElement.dataset.theme = '${theme}'`)
      // As an expression, because the policy of the page allows no script in it.
      await page.evaluate(axe)
      const found = await page.evaluate(`axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] })
        .then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))`)
      assert.deepEqual(found, [], `${what}, ${theme}`)
    }
  }

  it('are found while typing, and the address says what is shown', async () => {
    await page.getByLabel('Find by name').fill('img src')
    await page.waitForURL(/q=img/)
    await page.getByText('1 found').waitFor()
    assert.equal(await rows().count(), 1)
    assert.equal(await rows().getByRole('link').innerText(), MARKUP, 'markup in a name stays text')
    await page.getByRole('button', { name: 'Clear' }).click()
    await page.getByLabel('Domain').selectOption({ label: MARKUP })
    await page.getByText('1 found').waitFor()
    await page.reload()
    await page.getByText('1 found').waitFor()
    assert.match(await rows().first().innerText(), /Orders/)
    await page.getByRole('button', { name: 'Clear' }).click()
    await page.getByText('8 in all').waitFor()
    await page.getByRole('button', { name: 'Name' }).click()
    await page.waitForURL(/sort=name/)
    await assertAccessible('the list')
  })

  it('are selected with shift and by keyboard, changed at once, and changed back', async () => {
    await page.goto(`${service.url}/pipelines?sort=-name`)
    await rows().first().getByText('Stock 5').waitFor()
    await page.getByLabel('Select Stock 5').click()
    await page.getByLabel('Select Stock 2').click({ modifiers: ['Shift'] })
    await page.getByText('4 pipelines selected').waitFor()
    await page.keyboard.press('Shift+ArrowDown')
    await page.getByText('5 pipelines selected').waitFor()
    await assertAccessible('the selection')
    await page.getByRole('button', { name: 'Disable' }).click()
    await page.getByText('Disabled 5 pipelines.').waitFor()
    assert.equal((await read(ids[7]!)).enabled, false)
    await page.getByRole('button', { name: 'Undo' }).click()
    await page.getByText('Disabled 5 pipelines.').waitFor({ state: 'hidden' })
    assert.equal((await read(ids[7]!)).enabled, true)
    await page.getByRole('button', { name: 'Move to a domain' }).click()
    await page.getByRole('menuitem', { name: MARKUP }).click()
    await page.getByText('Moved 5 pipelines.').waitFor()
    await page.keyboard.press('Escape')
    await page.getByText('5 pipelines selected').waitFor({ state: 'hidden' })
    await page.getByRole('switch', { name: 'Enable Orders' }).click()
    await page.getByText('Disabled Orders.').waitFor()
    assert.equal((await read(ids[0]!)).enabled, false)
  })

  it('are deleted only after their number was typed', async () => {
    await page.goto(`${service.url}/pipelines`)
    await page.getByLabel('Select Stock 0').click()
    await page.getByLabel('Select Stock 1').click()
    await page.getByText('2 pipelines selected').waitFor()
    await page.getByRole('button', { name: 'Delete' }).click()
    const dialog = page.getByRole('dialog')
    assert.equal(await dialog.getByRole('button', { name: 'Delete 2 pipelines' }).isDisabled(), true)
    await dialog.getByLabel('Type delete 2 to confirm').fill('delete 2')
    await dialog.getByRole('button', { name: 'Delete 2 pipelines' }).click()
    await page.getByText('Deleted 2 pipelines.').waitFor()
    await page.getByText('6 in all').waitFor()
  })

  it('several are copied, a few at a time, and what is refused is listed with its reason', async () => {
    const selected: { id: string; name: string }[] = (await call('GET', '/pipelines?limit=5')) ?? []
    let [now, most] = [0, 0]
    await page.route('**/api/pipelines/*/copy', async (route) => {
      now += 1
      most = Math.max(most, now)
      const isRefused = route.request().url().includes(selected[1]!.id)
      if (isRefused)
        await route.fulfill({ status: 409, contentType: 'application/json', body: '{"detail":"it is locked"}' })
      else await route.fulfill({ response: await route.fetch() })
      now -= 1
    })
    for (const { name } of selected) await page.getByLabel(`Select ${name}`, { exact: true }).click()
    await page.getByRole('button', { name: 'Copy', exact: true }).click()
    await page.getByText('Copied 4 of 5 pipelines. The others were refused:').waitFor()
    await page.getByText('it is locked').waitFor()
    assert.ok(most > 1 && most <= 3, `${most} at a time`)
    await page.unroute('**/api/pipelines/*/copy')
    for (const { id, name } of await call('GET', '/pipelines?limit=100'))
      if (name.endsWith('(copy)')) await call('DELETE', `/pipelines/${id}`)
    problems.splice(0, problems.length, ...problems.filter((problem) => !problem.includes('status of 409')))
  })

  it('one is run, and shows its run, charts, schema and state', async () => {
    await page.goto(`${service.url}/pipelines`)
    await page.getByRole('button', { name: 'Run Orders now' }).click()
    await page.getByText('Started Orders.').waitFor()
    await page.getByRole('link', { name: 'Orders', exact: true }).first().click()
    await page.getByRole('link', { name: 'Success' }).first().waitFor()
    await assertAccessible('the runs of a pipeline')
    await tab('Charts').click()
    const chart = page.getByRole('slider', { name: /^Duration of the last 1 runs/ })
    await chart.focus()
    await page.keyboard.press('ArrowLeft')
    await page
      .getByText(/success\. Click or press Enter/)
      .first()
      .waitFor()
    await assertAccessible('the charts')
    await tab('Schema').click()
    await page.getByRole('heading', { name: /columns/ }).waitFor()
    await tab('State').click()
    await page.getByText('The next run continues from this cursor.').waitFor()
    await page.getByLabel('State as JSON').filter({ hasText: '50' }).waitFor()
    await assertAccessible('the state')
  })

  it('a range of it is read again, and a wrong one is refused in words with what was typed kept', async () => {
    await page.getByLabel('From').fill('30')
    await page.getByLabel('To').fill('10')
    await page.getByRole('button', { name: 'Start back-fill' }).click()
    await page.getByText('to: must come after from').waitFor()
    assert.equal(await page.getByLabel('From').inputValue(), '30')
    await page.getByLabel('To').fill('40')
    await page.getByRole('button', { name: 'Start back-fill' }).click()
    await page.getByRole('link', { name: 'Started. Open the run' }).waitFor()
    const [run] = await call('GET', `/pipelines/${ids[0]}/runs?limit=1`)
    assert.equal(run.triggered_by, 'backfill')
    await page.getByRole('button', { name: 'Reset state' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Reset state' }).click()
    await page.getByText('There is none: the next run reads everything').waitFor()
  })

  it('its settings are changed, it is copied, and deleted after its name was typed', async () => {
    await tab('Settings').click()
    await page.getByLabel('Name', { exact: true }).fill('Orders nightly')
    await page.getByLabel('Schedule as cron').fill('30 2 * * *')
    await page.getByText('Every day at 02:30').first().waitFor()
    await assertAccessible('the settings')
    await page.getByRole('button', { name: 'Save settings' }).click()
    await page.getByRole('heading', { name: 'Orders nightly' }).waitFor()
    assert.equal((await read(ids[0]!)).schedule, '30 2 * * *')
    await page.getByRole('button', { name: 'Copy pipeline' }).click()
    await page.getByRole('heading', { name: 'Orders nightly (copy)' }).waitFor()
    await tab('Audit').click()
    await page.getByRole('cell', { name: 'pipeline copied' }).waitFor()
    await assertAccessible('the audit log')
    await tab('Settings').click()
    await page.getByRole('button', { name: 'Delete pipeline' }).click()
    await page.getByLabel('Type Orders nightly (copy) to confirm').fill('Orders nightly (copy)')
    await page.getByRole('dialog').getByRole('button', { name: 'Delete pipeline' }).click()
    await page.getByText('6 in all').waitFor()
    assert.deepEqual(problems, [])
  })
})
