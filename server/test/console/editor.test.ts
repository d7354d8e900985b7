/** The pipeline editor in a real browser: a scheduled pipeline made by its form alone, changed, and written as JSON. */
import assert from 'node:assert/strict'
import { existsSync, rmSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import axe from 'axe-core'
import type { Page } from 'playwright-core'
import { type Browser, openBrowser, skipWithoutChromium, writeCode } from '../harness/browser.ts'
import { makeDataDir, root, type Service, startService } from '../harness/service.ts'

const built = existsSync(path.join(root, 'web/dist')) ? false : 'the console is not built'
const PASSWORD = 'Correct-horse-1'
/** Whoever runs it would see it. */
const MARKUP = '<img src=x onerror="document.title=1"> creatures'

describe('the pipeline editor', { skip: skipWithoutChromium || built }, () => {
  const folder = makeDataDir()
  let service: Service
  let browser: Browser
  let page: Page
  let token: string
  const problems: string[] = []

  // biome-ignore lint/suspicious/noExplicitAny: a test reads whatever came back
  async function call(method: string, url: string, body?: object, as = token): Promise<any> {
    const headers = { 'content-type': 'application/json', ...(as && { authorization: `Bearer ${as}` }) }
    const response = await fetch(service.url + url, { method, headers, ...(body && { body: JSON.stringify(body) }) })
    const text = await response.text()
    assert.ok(response.ok, `${method} ${url}: ${text}`)
    return text === '' ? null : JSON.parse(text)
  }

  async function signIn(email: string): Promise<void> {
    await page.goto(`${service.url}/sign-in`)
    await page.getByLabel('Email').fill(email)
    await page.getByLabel('Password').fill(PASSWORD)
    await page.getByRole('button', { name: 'Sign in' }).click()
    await page.getByRole('heading', { name: 'Home' }).waitFor()
  }

  const step = (name: string) => page.getByRole('region', { name }).last()

  before(async () => {
    service = await startService(folder)
    const person = { email: 'ada@example.com', password: PASSWORD, name: 'Ada' }
    token = (await call('POST', '/api/auth/register', { ...person, organization_name: 'Acme' }, '')).access_token
    browser = await openBrowser()
    page = await browser.context.newPage()
    page.setDefaultTimeout(90_000)
    page.on('pageerror', (error) => problems.push(error.message))
    page.on('console', (message) => {
      const { url, lineNumber } = message.location()
      if (message.type() === 'error') problems.push(`${message.text()} (${url}:${lineNumber}, on ${page.url()})`)
    })
    // The browser asks before unsaved changes are reloaded.
    page.on('dialog', (dialog) => dialog.accept())
    await signIn('ada@example.com')
  })
  after(async () => {
    await browser?.close()
    service?.child.kill('SIGTERM')
    await service?.ended
    rmSync(folder, { recursive: true, force: true })
  })

  let id: string

  it('makes a scheduled pipeline by the form alone', async () => {
    await page.goto(`${service.url}/pipelines`)
    await page.getByRole('link', { name: 'New pipeline' }).first().click()
    await page.getByRole('button', { name: /^Dummy/ }).click()
    await step('Source').getByLabel('Records').fill('25')
    await step('Streams').getByLabel('creatures').check()
    await step('Streams').getByLabel('Load legs').uncheck()
    await step('Streams').getByLabel('Hash name').check()
    await step('Streams').getByLabel('Name of kind in the destination').fill('species')
    await step('Destination').getByRole('button', { name: /^File/ }).click()
    await step('Destination').getByLabel('Format').selectOption('csv')
    await step('Sync').getByLabel('What is new').check()
    await step('Schedule').getByLabel('Runs').selectOption('day')
    await step('Schedule').getByLabel('At').fill('07:30')
    await step('Schedule').getByLabel('Time zone').selectOption('Europe/Berlin')
    await step('Schedule').getByText('Next runs, in Europe/Berlin').waitFor()
    await step('Schedule').getByLabel('Name', { exact: true }).fill(MARKUP)
    await page.getByText('Every day at 07:30, take new rows of creatures of Dummy and add them to File.').waitFor()
    await step('Review').getByRole('button', { name: 'Preview' }).click()
    await step('Review').getByRole('columnheader', { name: 'species' }).waitFor()
    assert.equal(await step('Review').getByRole('columnheader', { name: 'legs' }).count(), 0)
    await step('Review').getByRole('button', { name: 'Create pipeline' }).click()
    await page.getByRole('heading', { name: MARKUP, exact: true }).waitFor()
    ;[{ id }] = await call('GET', '/api/pipelines')
    const { name, schedule, timezone, enabled, config } = await call('GET', `/api/pipelines/${id}`)
    assert.deepEqual(
      { name, schedule, timezone, enabled },
      { name: MARKUP, schedule: '30 7 * * *', timezone: 'Europe/Berlin', enabled: true },
    )
    assert.deepEqual(config, {
      source: { name: 'dummy', config: { records: 25 }, stream: 'creatures' },
      columns: { exclude: ['legs'], hash: ['name'], rename: { kind: 'species' } },
      destination: { name: 'file', config: { format: 'csv' } },
      sync: { mode: 'incremental' },
    })
  })

  it('shows the difference before it saves a change, keeps a draft over a reload, and asks before it is left', async () => {
    await page.getByRole('link', { name: 'Edit' }).click()
    await page.getByText('Nothing is changed.').first().waitFor()
    assert.ok(await page.getByRole('button', { name: 'Save changes' }).isDisabled())
    await page.getByRole('button', { name: /Schedule and name/ }).click()
    await step('Schedule').getByLabel('At').fill('08:00')
    const change = page.getByRole('row', { name: 'schedule 30 7 * * * 0 8 * * *' })
    await change.waitFor()
    // It is kept a moment after the last key.
    await page.waitForFunction(() => Object.keys(sessionStorage).some((key) => key.startsWith('sluice.draft.')))
    await call('PUT', `/api/pipelines/${id}`, { enabled: false })
    await page.reload()
    await page.getByText('This is your draft').waitFor()
    await page.getByText('The pipeline was changed since the draft was begun').waitFor()
    await page.getByRole('row', { name: 'enabled false true' }).waitFor()
    await change.waitFor()
    await page.getByRole('link', { name: 'Runs' }).click()
    await page.getByRole('button', { name: 'Stay here' }).click()
    await change.waitFor()
    await page.getByRole('button', { name: 'Save changes' }).click()
    await page.getByRole('heading', { name: MARKUP, exact: true }).waitFor()
    assert.equal((await call('GET', `/api/pipelines/${id}`)).schedule, '0 8 * * *')
    assert.deepEqual(await page.evaluate(() => Object.keys(sessionStorage).filter((key) => /draft/.test(key))), [])
  })

  it('edits the same pipeline as JSON, with what the server refuses beside it', async () => {
    const stored = await call('GET', `/api/pipelines/${id}`)
    await page.goto(`${service.url}/pipelines/${id}/edit?view=json`)
    const field = page.getByLabel('Pipeline as JSON')
    await field.waitFor()
    const { name, schedule, timezone, enabled, domain_id, config } = stored
    const written = { name, schedule, timezone, enabled, domain_id, config }
    await writeCode(field, '{ "name": ')
    await page
      .getByText(/JSON/)
      .and(page.getByRole('status'))
      .or(page.getByText(/Unexpected end/))
      .first()
      .waitFor()
    await writeCode(
      field,
      JSON.stringify({ ...written, config: { ...config, sync: { mode: 'incremental', writ: 'append' } } }),
    )
    await page
      .getByText(/config\.sync\.writ: unknown field/)
      .first()
      .waitFor()
    const run = { max_attempts: 3 }
    await writeCode(field, JSON.stringify({ ...written, config: { ...config, run } }))
    await page.getByRole('row', { name: 'config.run.max_attempts none 3' }).waitFor()
    // The form is the other face of it.
    await page.getByRole('link', { name: 'Form' }).click()
    await page.getByRole('button', { name: /^✓?\s*Sync/ }).click()
    await page.getByText('Advanced settings (1 set)').click()
    assert.equal(await page.getByLabel('Max attempts').inputValue(), '3')
    await page.getByRole('button', { name: 'Save changes' }).click()
    await page.getByRole('heading', { name: MARKUP, exact: true }).waitFor()
    assert.deepEqual((await call('GET', `/api/pipelines/${id}`)).config, { ...config, run })
  })

  it('shows no stored secret, keeps it through a change, and stores none in a draft', async () => {
    const settings = { host: 'db.example.com', database: 'shop', user: 'reader', password: 'hunter2-hunter2' }
    const config = {
      source: { name: 'postgres', stream: 'public.orders', config: settings },
      destination: { name: 'webhook', config: { url: 'https://a.example/x', secret: 'a-webhook-secret-1' } },
    }
    const made = await call('POST', '/api/pipelines', { name: 'Secrets', config })
    await page.goto(`${service.url}/pipelines/${made.id}/edit?view=json`)
    await page.getByLabel('Pipeline as JSON').getByText('"public.orders"').waitFor()
    assert.ok(!/hunter2|a-webhook-secret/.test(await page.content()))
    assert.ok(!(await page.getByLabel('Pipeline as JSON').innerText()).includes('hunter2'))
    await page.getByRole('link', { name: 'Form' }).click()
    await page.getByRole('button', { name: /Source/ }).click()
    await step('Source').getByLabel('Password').fill('typed-anew-1')
    await page.getByRole('row', { name: 'config.source.config.password changed' }).waitFor()
    await page.waitForFunction(() => Object.keys(sessionStorage).some((key) => key.startsWith('sluice.draft.')))
    assert.ok(
      !/typed-anew|hunter2/.test(await page.evaluate(() => JSON.stringify({ ...sessionStorage, ...localStorage }))),
    )
    await page.getByRole('button', { name: 'Discard changes' }).click()
    await page.getByRole('button', { name: /Destination/ }).click()
    await step('Destination').getByText('Where it goes').waitFor()
    await step('Destination').getByLabel('Batch records').fill('7')
    await page.getByRole('row', { name: 'config.destination.config.batch_records none 7' }).waitFor()
    await page.getByRole('button', { name: 'Save changes' }).click()
    await page.getByRole('heading', { name: 'Secrets', exact: true }).waitFor()
    const { destination } = config
    assert.deepEqual((await call('GET', `/api/pipelines/${made.id}`)).config, {
      ...config,
      destination: { ...destination, config: { ...destination.config, batch_records: 7 } },
    })
  })

  it('makes a pipeline for each of many streams, after showing the plan', async () => {
    await page.goto(`${service.url}/pipelines/new`)
    await page.getByRole('button', { name: /^Dummy/ }).click()
    await step('Streams').getByLabel(/^All/).check()
    await step('Destination')
      .getByRole('button', { name: /^Logger/ })
      .click()
    await step('Schedule').getByLabel('Names of the pipelines').fill('Every {stream}')
    await step('Review').getByRole('cell', { name: 'Every plants' }).waitFor()
    await step('Review').getByRole('button', { name: 'Create 2 pipelines' }).click()
    await page.getByRole('link', { name: 'Every creatures' }).waitFor()
    await page.getByRole('link', { name: 'Every plants' }).waitFor()
  })

  it('passes axe in both themes, as a form and as JSON', async () => {
    for (const scheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme: scheme })
      for (const view of ['', '?view=json']) {
        await page.goto(`${service.url}/pipelines/${id}/edit${view}`)
        await page.getByText('Nothing is changed.').first().waitFor()
        if (view) await page.getByLabel('Pipeline as JSON').waitFor()
        else
          for (const name of [/Source/, /Streams/, /Destination/, /^✓?\s*Sync/, /Schedule/])
            await page.getByRole('button', { name }).first().click()
        if (!view) await step('Streams').getByLabel('Load legs').waitFor()
        await page.evaluate(axe.source)
        const found = await page.evaluate(`axe.run({ runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'wcag22aa'] })
          .then(({ violations }) => violations.map(({ id, nodes }) => id + ': ' + nodes.map(({ html }) => html).join(' ')))`)
        assert.deepEqual(found, [], `${scheme} ${view}`)
      }
    }
  })

  it('is not there for a viewer', async () => {
    const { invite_url } = await call('POST', '/api/users/invite', { email: 'eve@example.com', role: 'viewer' })
    const invitation_token = new URL(invite_url).searchParams.get('token')
    const viewer = { email: 'eve@example.com', password: PASSWORD, name: 'Eve', invitation_token }
    await call('POST', '/api/auth/register', viewer, '')
    await page.evaluate(() => localStorage.clear())
    await signIn('eve@example.com')
    await page.goto(`${service.url}/pipelines`)
    await page.getByRole('link', { name: 'Every plants' }).waitFor()
    assert.equal(await page.getByRole('link', { name: 'New pipeline' }).count(), 0)
    for (const address of ['/pipelines/new', `/pipelines/${id}/edit`]) {
      await page.goto(service.url + address)
      await page.getByRole('heading', { name: 'Your role may not change pipelines' }).waitFor()
    }
    await page.getByRole('link', { name: 'Look at the pipeline' }).click()
    await page.getByRole('heading', { name: MARKUP, exact: true }).waitFor()
    assert.equal(await page.getByRole('link', { name: 'Edit' }).count(), 0)
    // A change that the server refuses is the only error that a browser reports here.
    assert.deepEqual(
      problems.filter((text) => !text.includes('status of 400')),
      [],
    )
  })
})
