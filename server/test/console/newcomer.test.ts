/** A newcomer's way in a real browser: sign up, first pipeline, watch it run, download what it wrote, query it. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { after, describe, it } from 'node:test'
import { type Browser, openBrowser, skipWithoutChromium, writeCode } from '../harness/browser.ts'
import { makeDataDir, root, startService } from '../harness/service.ts'

const built = existsSync(path.join(root, 'web/dist')) ? false : 'the console is not built'

describe('a newcomer', { skip: skipWithoutChromium || built }, () => {
  let browser: Browser | undefined
  after(() => browser?.close())

  it('signs up, runs a first pipeline, downloads its output and queries it without reading anything', async () => {
    const folder = makeDataDir()
    const service = await startService(folder)
    try {
      browser = await openBrowser()
      const page = await browser.context.newPage()
      page.setDefaultTimeout(180_000)
      const problems: string[] = []
      page.on('pageerror', (error) => problems.push(error.message))
      page.on('console', (message) => message.type() === 'error' && problems.push(message.text()))
      await page.goto(service.url)
      await page.getByRole('link', { name: 'Create an account' }).click()
      await page.getByLabel('Your name').fill('Ada <b>Lovelace</b>')
      await page.getByLabel('Organization').fill('Acme & Söhne')
      await page.getByLabel('Email').fill('ada@example.com')
      await page.getByLabel('Password').fill('Correct-horse-1')
      await page.getByRole('button', { name: 'Create account' }).click()
      await page.getByRole('button', { name: 'Create a first pipeline and run it' }).click()
      await page.getByText('Success', { exact: true }).waitFor()
      await page.getByText('The output is a jsonl file').waitFor()
      const waiting = page.waitForEvent('download')
      await page.getByRole('button', { name: /Download output/ }).click()
      const file = await (await waiting).path()
      assert.equal(readFileSync(file, 'utf8').trimEnd().split('\n').length, 1000)
      await page.getByRole('link', { name: 'Output' }).click()
      await writeCode(page.getByLabel('SQL query over the table output'), 'SELECT count(*) AS how_many FROM output')
      await page.keyboard.press('Control+Enter')
      await page.getByRole('columnheader', { name: /how_many/ }).waitFor()
      await page.getByRole('cell', { name: '1000', exact: true }).waitFor()
      await page.reload()
      await page.getByText('Success', { exact: true }).waitFor()
      const replayed = new URL(page.url()).pathname.split('/').at(-1)!
      await page.getByRole('button', { name: 'Load again' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Load again' }).click()
      await page.getByText('replays the output of').waitFor()
      await page.getByRole('link', { name: `run ${replayed.slice(0, 8)}` }).waitFor()
      await page.getByText('Success', { exact: true }).waitFor()
      assert.deepEqual(problems, [])
    } finally {
      service.child.kill('SIGTERM')
      await service.ended
      rmSync(folder, { recursive: true, force: true })
    }
  })
})
