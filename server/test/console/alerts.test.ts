/** Being told, in a real browser: an alert is created and tested, a real run fails, and the chat hears of both ends. */
import assert from 'node:assert/strict'
import { existsSync, rmSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as delay } from 'node:timers/promises'
import type { Page } from 'playwright-core'
import { openShared, skipWithoutChromium } from '../harness/browser.ts'
import { makeDataDir, root, type Service, startService } from '../harness/service.ts'
import { startReceiver } from '../webhooks/receiver.ts'

const built = existsSync(path.join(root, 'web/dist')) ? false : 'the console is not built'
const PASSWORD = 'Correct-horse-1'
const OWNER = 'ada@example.com'
const NAME = 'On call <img src=x onerror=alert(1)>'

describe('somebody on call', { skip: skipWithoutChromium || built }, () => {
  const folder = makeDataDir()
  const problems: string[] = []
  let service: Service
  let browser: Awaited<ReturnType<typeof openShared>>
  let page: Page
  let token: string

  before(async () => {
    ;[service, browser] = await Promise.all([startService(folder, { EGRESS_ALLOW: '127.0.0.1' }), openShared()])
    const account = { email: OWNER, password: PASSWORD, name: 'Ada', organization_name: 'Acme' }
    token = (await post<{ access_token: string }>('/api/auth/register', account)).access_token
    page = await (await browser.newPerson()).newPage()
    page.setDefaultTimeout(60_000)
    page.on('pageerror', (error) => problems.push(error.message))
    page.on('dialog', (dialog) => problems.push(`a script ran: ${dialog.message()}`))
    await page.goto(`${service.url}/settings/alerts`)
    await page.getByLabel('Email').fill(OWNER)
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByText('No alert yet').waitFor()
  })

  after(async () => {
    await browser?.close()
    service?.child.kill('SIGTERM')
    await service?.ended
    rmSync(folder, { recursive: true, force: true })
  })

  const get = <T>(address: string) => send<T>('GET', address)
  const post = <T = { id: string }>(address: string, body: object = {}) => send<T>('POST', address, body)
  const put = (address: string, body: object) => send('PUT', address, body)

  async function send<T>(method: string, address: string, body?: object): Promise<T> {
    const response = await fetch(service.url + address, {
      method,
      headers: {
        ...(body && { 'content-type': 'application/json' }),
        ...(token && { authorization: `Bearer ${token}` }),
      },
      ...(body && { body: JSON.stringify(body) }),
    })
    assert.ok(response.ok, `${address}: ${response.status} ${await response.clone().text()}`)
    return (await response.json()) as T
  }

  it('creates an alert, tests it, and is told once that a run failed and once that it is over', async () => {
    const chat = await startReceiver()
    await createAlert(chat.url)
    await page.getByRole('button', { name: 'Send a test' }).click()
    const tested = await chat.next()
    assert.equal(tested.body.text, 'A test of this alert')
    tested.answer(200, {}, 'ok')
    await page.getByRole('cell', { name: 'Answered with 200' }).waitFor()

    const missing = { name: 'dummy', stream: 'creatures', config: { records: 10, fail_after: 5 } }
    const pipeline = await post('/api/pipelines', {
      name: 'Orders',
      config: { source: missing, destination: { name: 'file' } },
    })
    await post(`/api/pipelines/${pipeline.id}/run`)
    const failed = await chat.next()
    failed.answer(200)
    assert.equal(failed.body.text, '✕ Orders failed')
    await page.goto(`${service.url}/settings/alerts`)
    await page.getByRole('cell', { name: '1 open' }).waitFor()
    await page.goto(readLink(failed.body.blocks[1].elements[0].text))
    await page.getByRole('heading', { name: 'Orders' }).waitFor()

    await put(`/api/pipelines/${pipeline.id}`, {
      config: { source: { name: 'dummy', stream: 'creatures' }, destination: { name: 'file' } },
    })
    await post(`/api/pipelines/${pipeline.id}/run`)
    const recovered = await chat.next()
    recovered.answer(200)
    assert.equal(recovered.body.text, '● Orders recovered')
    await page.goto(`${service.url}/settings/alerts`)
    await page.getByRole('cell', { name: 'none open' }).waitFor()
    assert.deepEqual(problems, [])
  })

  it('is told once of two pipelines that fail together, and finds both in the list', async () => {
    const chat = await startReceiver()
    const clock = (offset: number) => new Date(Date.now() + offset * 60_000).toISOString().slice(11, 16)
    const alert = await post('/api/alerts', {
      name: 'Together',
      on: ['failed'],
      channel: { type: 'slack', url: chat.url },
      quiet_hours: { from: clock(-60), to: clock(-120), time_zone: 'UTC' },
    })
    const failing = { name: 'dummy', stream: 'creatures', config: { records: 10, fail_after: 5 } }
    for (const name of ['Invoices', 'Tickets']) {
      const config = { source: failing, destination: { name: 'file' } }
      const { id } = await post('/api/pipelines', { name, config })
      await post(`/api/pipelines/${id}/run`)
    }
    // The page shows what was so when it was opened.
    while ((await get<{ open_incidents: number }>(`/api/alerts/${alert.id}`)).open_incidents < 2) await delay(50)
    await page.goto(`${service.url}/settings/alerts/${alert.id}`)
    await page.getByText('2 open').waitFor()
    await put(`/api/alerts/${alert.id}`, { quiet_hours: null })
    const told = await chat.next()
    told.answer(200)
    assert.match(told.body.text, /^✕ 2 pipelines failed: (Invoices, Tickets|Tickets, Invoices)$/)
    await page.reload()
    const cells = page.getByRole('cell', { name: 'Told with others in one message. Answered with 200' })
    await cells.nth(1).waitFor()
    assert.equal(await cells.count(), 2)
    await page.goto(readLink(told.body.blocks[1].elements[0].text))
    for (const name of ['Invoices', 'Tickets']) await page.getByRole('link', { name, exact: true }).waitFor()
    assert.equal(await page.getByRole('link', { name: 'Orders', exact: true }).count(), 0)
    await fetch(`${service.url}/api/alerts/${alert.id}`, {
      method: 'DELETE',
      headers: { authorization: `Bearer ${token}` },
    })
    await page.goto(`${service.url}/settings/alerts`)
    assert.deepEqual(problems, [])
  })

  it('reads beside the field what is wrong with it', async () => {
    await page.getByRole('link', { name: NAME }).click()
    await page.getByLabel('Send to').selectOption('email')
    await page.getByLabel('Recipients').fill('ada@example.com')
    await page.getByRole('button', { name: 'Save changes' }).click()
    await page.getByText(/this service sends no e-mail; its operator has to set SMTP_URL/).waitFor()
    await page.getByRole('button', { name: 'More actions' }).click()
    await page.getByRole('menuitem', { name: 'Delete…' }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Delete the alert' }).click()
    await page.getByText('No alert yet').waitFor()
    assert.deepEqual(problems, [])
  })

  async function createAlert(url: string): Promise<void> {
    await page.getByRole('button', { name: 'Create an alert' }).click()
    const form = page.getByRole('form', { name: 'Create alert' })
    await form.getByLabel('Name').fill(NAME)
    await form.getByLabel('No run succeeded in time').check()
    await form.getByLabel('Minutes within which a run must succeed').fill('90')
    await form.getByLabel('URL').fill(url)
    await form.getByRole('button', { name: 'Create alert' }).click()
    await page.getByRole('heading', { name: NAME }).waitFor()
    assert.equal(await page.getByLabel('URL').inputValue(), `${new URL(url).origin}/********`)
  }
})

const readLink = (text: string): string => /<(http[^|]*)\|/.exec(text)![1]!
