/** An author's way in a real browser: from a template over a mistake and a preview to saved versions, and a manifest. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import type { Page } from 'playwright-core'
import { type Browser, openBrowser, skipWithoutChromium } from '../harness/browser.ts'
import { makeDataDir, root, type Service, startService } from '../harness/service.ts'

const built = existsSync(path.join(root, 'web/dist')) ? false : 'the console is not built'
const TEMPLATES = path.join(root, 'web/src/pages/sources/templates')
const MARKUP = '<img src=x onerror=alert(1)>'

/** What a page has and Node does not. */
interface PageGlobals {
  DataTransfer: new () => { setData(type: string, text: string): void }
  ClipboardEvent: new (type: string, init: object) => Event
}

describe('an author', { skip: skipWithoutChromium || built }, () => {
  let browser: Browser
  let service: Service
  let folder: string
  let api: Server
  let page: Page
  const problems: string[] = []

  before(async () => {
    folder = makeDataDir()
    service = await startService(folder, { EGRESS_ALLOW: '127.0.0.1' })
    api = createServer((_, reply) =>
      reply
        .setHeader('content-type', 'application/json')
        .end(
          JSON.stringify({ results: [{ name: MARKUP, url: 'u', big: 0 }], next: null }).replace(
            '0',
            '12345678901234567890',
          ),
        ),
    ).listen(0, '127.0.0.1')
    browser = await openBrowser()
    page = await browser.context.newPage()
    page.setDefaultTimeout(90_000)
    page.on('pageerror', (error) => problems.push(error.message))
    page.on('console', (message) => message.type() === 'error' && problems.push(message.text()))
    page.on('dialog', (dialog) => {
      problems.push(`dialog: ${dialog.message()}`)
      void dialog.accept()
    })
    await page.goto(`${service.url}/sign-up`)
    await page.getByLabel('Your name').fill('Ada')
    await page.getByLabel('Organization').fill('Acme')
    await page.getByLabel('Email').fill('ada@example.com')
    await page.getByLabel('Password').fill('Correct-horse-1')
    await page.getByRole('button', { name: 'Create account' }).click()
  })

  after(async () => {
    await browser?.close()
    api?.close()
    service?.child.kill('SIGTERM')
    await service?.ended
    rmSync(folder, { recursive: true, force: true })
  })

  const editor = () => page.getByRole('textbox', { name: /Python code|Manifest/ })
  const strip = (words: RegExp) => page.getByRole('status').filter({ hasText: words }).first()
  async function pasteOver(text: string): Promise<void> {
    await editor().click()
    await page.keyboard.press('ControlOrMeta+a')
    // As the clipboard would, which a browser without a screen does not have.
    await editor().evaluate((element, pasted) => {
      const { DataTransfer, ClipboardEvent } = globalThis as unknown as PageGlobals
      const clipboardData = new DataTransfer()
      clipboardData.setData('text/plain', pasted)
      element.dispatchEvent(new ClipboardEvent('paste', { clipboardData, bubbles: true, cancelable: true }))
    }, text)
  }

  it('goes from a template over a mistake, a preview, saved versions and a traceback to a schedule', async () => {
    await mendAndPreview()
    await saveAndRestore()
    await followTraceback()
    await leaveAndReturn()
    await makePipeline()
    assert.deepEqual(problems, [])
  })

  async function mendAndPreview(): Promise<void> {
    await page.getByRole('link', { name: 'Sources' }).click()
    await page.getByRole('link', { name: 'Try an example' }).click()
    await strip(/Valid · 2 streams · 2 settings/).waitFor()

    await editor().click()
    await page.keyboard.press('ControlOrMeta+End')
    await page.keyboard.insertText('\nimport socket\n')
    await strip(/Not valid/).waitFor()
    await page.locator('.cm-lint-marker-error').waitFor()
    assert.match(await strip(/Line \d+/).innerText(), /socket/)
    await page.keyboard.press('ControlOrMeta+z')
    await strip(/Valid · 2 streams/).waitFor()
    await page.locator('.cm-lint-marker-error').waitFor({ state: 'detached' })

    await page.keyboard.press('ControlOrMeta+Enter')
    await page.getByText('3 records of plants').waitFor()
    await page.getByRole('cell', { name: 'tomato' }).waitFor()
    await page.getByText('reading plants of 3 plants').waitFor()
    await page.getByRole('button', { name: 'JSON' }).click()
    await page.getByText('"plant": "basil"').waitFor()
  }

  async function saveAndRestore(): Promise<void> {
    await page.getByLabel('Name', { exact: true }).fill(MARKUP)
    await page.keyboard.press('ControlOrMeta+s')
    await page.getByRole('heading', { name: MARKUP }).waitFor()
    await page.getByText(/version 1/).waitFor()

    const code = readFileSync(path.join(root, 'python/examples/greenhouse.py'), 'utf8')
    await pasteOver(code.replace('"basil"', '"mint"'))
    await page.getByText('Not saved').waitFor()
    await page.reload()
    await page.getByText('These are unsaved changes').waitFor()
    await page.getByRole('button', { name: /^Save/ }).click()
    await page.getByText('Saved as version 2').waitFor()

    await page.getByRole('link', { name: 'Versions 2' }).click()
    await page.getByText('What changed from version 1 to version 2').waitFor()
    await page.locator('.cm-deletedText, .cm-changedText').first().waitFor()
    await page.getByRole('button', { name: 'Restore version 1' }).click()
    await page.getByRole('link', { name: 'Versions 3' }).waitFor()
    await editor().getByText('"basil"').waitFor()
  }

  /** And completes what the package svc has. */
  async function followTraceback(): Promise<void> {
    await pasteOver(
      readFileSync(path.join(root, 'python/examples/greenhouse.py'), 'utf8').replace(
        'plants = PLANTS[',
        'plants = PLANTS[1 / 0:',
      ),
    )
    await strip(/Valid/).waitFor()
    await page.keyboard.press('ControlOrMeta+Enter')
    await page.getByRole('alert').getByText('ZeroDivisionError').waitFor()
    await page.getByRole('button', { name: /Go to line/ }).click()
    assert.match(await page.locator('.cm-activeLine').innerText(), /1 \/ 0/)
    await page.keyboard.press('End')
    await page.keyboard.insertText('\nresponse = self.http.get("https://example.com")')
    await page.keyboard.insertText('\nresponse.rais')
    await page.keyboard.press('Control+Space')
    await page.getByRole('option', { name: /raise_for_status/ }).waitFor()
    await page.keyboard.press('Escape')
  }

  /** Is asked before leaving with changes, and finds the draft again. */
  async function leaveAndReturn(): Promise<void> {
    await page.getByRole('link', { name: 'Runs' }).click()
    await page.getByRole('dialog').getByText('stay in this browser').waitFor()
    await page.getByRole('button', { name: 'Leave', exact: true }).click()
    await page.getByRole('heading', { name: 'Runs' }).waitFor()
    await page.getByRole('link', { name: 'Sources' }).click()
    await page.getByRole('link', { name: MARKUP }).click()
    await page.getByText('These are unsaved changes').waitFor()
    await page.getByRole('button', { name: 'Discard them' }).click()
    await page.getByText('These are unsaved changes').waitFor({ state: 'detached' })
  }

  async function makePipeline(): Promise<void> {
    await page.getByRole('link', { name: 'New pipeline' }).click()
    await page.getByRole('checkbox', { name: 'plants' }).check()
    await page.getByRole('button', { name: /^File/ }).click()
    await page.getByRole('combobox', { name: /^Runs/ }).selectOption('Every hour')
    await page.getByRole('button', { name: 'Create pipeline' }).click()
    await page.getByRole('heading', { name: 'plants to File' }).waitFor()
  }

  it('pastes a manifest, sees what is wrong with it, previews and saves it', async () => {
    const yaml = readFileSync(path.join(TEMPLATES, 'linked-pages.yaml'), 'utf8')
    await page.goto(`${service.url}/sources/new?template=blank&language=yaml`)
    await strip(/Valid · 1 stream/).waitFor()
    await pasteOver(yaml.replace('type: HttpRequester', 'type: CustomRequester'))
    await strip(/Not valid/).waitFor()
    await page.locator('.cm-lint-marker-error').waitFor()
    await pasteOver(yaml)
    await strip(/Valid · 1 stream · 1 setting/).waitFor()
    await page.getByText('Settings for the preview').click()
    await page.getByLabel(/Base URL/).fill(`http://127.0.0.1:${(api.address() as AddressInfo).port}`)
    await page.keyboard.press('ControlOrMeta+Enter')
    await page.getByRole('cell', { name: MARKUP }).waitFor()
    await page.getByRole('cell', { name: '12345678901234567890' }).waitFor()
    await page.getByLabel('Source name').fill('poke')
    await page.keyboard.press('ControlOrMeta+s')
    await page.getByRole('heading', { name: 'Poke' }).waitFor()
    await page.getByRole('link', { name: 'Sources' }).first().click()
    await page.getByRole('row').filter({ hasText: 'pokemon' }).getByText('Manifest').waitFor()
    assert.deepEqual(problems, [])
  })

  it('never finds a secret in the draft', async () => {
    await page.goto(`${service.url}/sources/new?template=token-and-pages&language=yaml`)
    await page.getByLabel(/API token/).fill('hunter2-hunter2')
    await page.getByLabel(/Base URL/).fill('https://kept.example')
    await page.reload()
    await page.getByLabel(/API token/).waitFor()
    assert.equal(await page.getByLabel(/API token/).inputValue(), '')
    assert.equal(await page.getByLabel(/Base URL/).inputValue(), 'https://kept.example')
    const stored = await page.evaluate<string>('JSON.stringify({ ...localStorage, ...sessionStorage })')
    assert.ok(stored.includes('kept.example') && !stored.includes('hunter2'))
  })
})
