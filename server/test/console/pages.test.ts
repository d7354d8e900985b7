/**
 * Every page of the console in a real browser: it opens without an error, nothing in it is cut off sideways, and axe finds no
 * violation of WCAG 2.2 AA. In `npm test` as the owner, once; with CONSOLE_MATRIX (`npm run test:console`) also as a viewer, in
 * both themes and on narrow screens, by keyboard, with a picture of each in the folder that it names.
 */
import assert from 'node:assert/strict'
import { mkdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Browser, chromium, type Page } from 'playwright-core'
import { FLAGS, findChromium, skipWithoutChromium } from '../harness/browser.ts'
import { type Role, type ShownConsole, skipUnbuilt, startConsole } from '../harness/console.ts'

const pictures = process.env.CONSOLE_MATRIX
const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']

interface View {
  role: Role
  theme: 'light' | 'dark'
  width: number
}

const views: View[] = pictures
  ? (['owner', 'viewer'] as const).flatMap((role) =>
      (['light', 'dark'] as const).flatMap((theme) => [360, 768, 1440].map((width) => ({ role, theme, width }))),
    )
  : [{ role: 'owner', theme: 'light', width: 1440 }]

describe('every page', { skip: skipWithoutChromium || skipUnbuilt }, () => {
  let shown: ShownConsole
  let browser: Browser

  before(async () => {
    browser = await chromium.launch({ executablePath: findChromium()!, args: FLAGS })
    shown = await startConsole()
    if (pictures) mkdirSync(pictures, { recursive: true })
  })
  after(async () => {
    await browser?.close()
    await shown?.close()
  })

  for (const { role, theme, width } of views)
    it(`is readable and accessible for a person who is ${role}, ${theme}, ${width} px wide`, async () => {
      const storageState = await shown.storageOf(role)
      const touch = width < 700 && { hasTouch: true, isMobile: true }
      const context = await browser.newContext({
        storageState,
        colorScheme: theme,
        viewport: { width, height: 900 },
        ...touch,
      })
      const page = await context.newPage()
      page.setDefaultTimeout(60_000)
      const problems: string[] = []
      page.on('pageerror', (error) => problems.push(`${page.url()}: ${error.message}`))
      page.on('console', (message) => {
        if (message.type() === 'error' && !isExpected(message.text())) problems.push(`${page.url()}: ${message.text()}`)
      })
      page.on('dialog', (dialog) => {
        problems.push(`${page.url()}: a script opened a dialog`)
        void dialog.dismiss()
      })
      try {
        for (const [name, address] of Object.entries(shown.pages)) {
          await openPage(page, `${shown.url}${address}`).catch((error: Error) => {
            throw new Error(`${name}: ${error.message}; ${problems.join('; ')}`)
          })
          for (const problem of [...(await findViolations(page)), ...(await findOverflow(page))])
            problems.push(`${name}: ${problem}`)
          if (pictures) {
            await page.screenshot({ path: path.join(pictures, `${name}-${role}-${theme}-${width}.png`) })
            for (const problem of await walkByKeyboard(page)) problems.push(`${name}: ${problem}`)
          }
        }
      } finally {
        await context.close()
      }
      assert.deepEqual(problems, [])
    })

  it('shows what the destination refused with the reason of each record, and sends it again', async () => {
    const context = await browser.newContext({ storageState: await shown.storageOf('owner') })
    try {
      const page = await context.newPage()
      page.setDefaultTimeout(60_000)
      await openPage(page, `${shown.url}${shown.pages['run quarantine']}`)
      await page.getByText('The destination refused 4 records. All others were loaded.').waitFor()
      assert.equal(await page.getByText('violates check constraint "products_stock_check"').count(), 4)
      await page.getByText('"sku":"SKU-00211"').waitFor()
      const refused = new URL(page.url()).pathname
      await page.getByRole('button', { name: 'Send again' }).click()
      await page.getByRole('dialog').getByRole('button', { name: 'Send again' }).click()
      await page.waitForURL((address) => address.pathname.startsWith('/runs/') && address.pathname !== refused)
      await page.getByText('sends a quarantine again').waitFor()
    } finally {
      await context.close()
    }
  })
})

/** A viewer's page may ask for what only others may see, and say so. */
const isExpected = (text: string): boolean => /status of 40[34]/.test(text)

async function openPage(page: Page, address: string): Promise<void> {
  await page.goto(address)
  await page.getByRole('heading', { level: 1 }).waitFor()
  // Skeletons are replaced by what they stand for.
  await page.locator('[aria-busy="true"], [aria-label="Loading"]').first().waitFor({ state: 'detached' })
  assert.notEqual(await page.title(), '', `${address} has no title`)
}

async function findViolations(page: Page): Promise<string[]> {
  await page.evaluate(axe)
  // All of the page at once: bars that stay in place would cover something, and make it seem too small to be hit.
  const { width, height } = page.viewportSize()!
  await page.setViewportSize({
    width,
    height: (await page.evaluate<number>('document.documentElement.scrollHeight')) + 120,
  })
  const options = JSON.stringify({ runOnly: RULES, resultTypes: ['violations'] })
  const { violations } = (await page.evaluate(`axe.run(${options})`)) as AxeResults
  await page.setViewportSize({ width, height })
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.slice(0, 3).map(({ target, html }) => `${id}: ${help} at ${target.join(' ')} ${html.slice(0, 120)}`),
  )
}

interface AxeResults {
  violations: { id: string; help: string; nodes: { target: string[]; html: string }[] }[]
}

async function findOverflow(page: Page): Promise<string[]> {
  const beyond = await page.evaluate<number>('document.documentElement.scrollWidth - window.innerWidth')
  return beyond > 1 ? [`it is ${beyond} px wider than the window`] : []
}

const MOST_STOPS = 60

/** Tab reaches something new each time, and what has the focus shows it. */
async function walkByKeyboard(page: Page): Promise<string[]> {
  await page.evaluate('document.activeElement?.blur()')
  const problems: string[] = []
  const seen = new Set<string>()
  for (let stop = 0; stop < MOST_STOPS; stop += 1) {
    await page.keyboard.press('Tab')
    const focused = await page.evaluate<Focused | null>(DESCRIBE_FOCUS)
    if (focused === null) break
    if (!focused.visible) problems.push(`the focus cannot be seen on ${focused.name}`)
    if (seen.has(focused.place)) {
      if (stop < 3) problems.push(`Tab does not leave ${focused.name}`)
      break
    }
    seen.add(focused.place)
  }
  if (seen.size === 0) problems.push('nothing can be reached by Tab')
  return problems
}

interface Focused {
  name: string
  place: string
  visible: boolean
}

/** Runs in the page. Null: nothing has the focus. An editor, or a field with a sign in it, draws the ring around all of itself. */
const DESCRIBE_FOCUS = `(() => {
  const element = document.activeElement
  if (element === null || element === document.body) return null
  const box = element.getBoundingClientRect()
  const isOutlined = (each) => {
    const { outlineStyle, outlineWidth } = getComputedStyle(each)
    return outlineStyle !== 'none' && Number.parseFloat(outlineWidth) > 0
  }
  const editor = element.closest('.cm-focused')
  return {
    name: element.tagName.toLowerCase() + ' ' + (element.getAttribute('aria-label') ?? element.textContent ?? '').slice(0, 40),
    place: [box.x, box.y + window.scrollY, element.tagName, element.id].join(' '),
    visible: isOutlined(element) || isOutlined(element.parentElement) || (editor !== null && isOutlined(editor)),
  }
})()`
