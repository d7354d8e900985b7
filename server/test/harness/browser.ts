/** A real Chromium for tests of the console: the one in CHROMIUM or on the PATH. Without one the tests say so and are skipped. */
import { accessSync, constants, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { type BrowserContext, chromium, type Locator } from 'playwright-core'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
/** Quiet: it reaches nothing but what the test opens. */
export const FLAGS = [
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--disable-dev-shm-usage',
]

export function findChromium(): string | null {
  const folders = (process.env.PATH ?? '').split(':').filter(Boolean)
  const candidates = [
    process.env.CHROMIUM,
    ...NAMES.flatMap((name) => folders.map((folder) => path.join(folder, name))),
  ]
  return candidates.find((candidate) => candidate !== undefined && isExecutable(candidate)) ?? null
}

export const skipWithoutChromium = findChromium() === null ? 'no Chromium on the PATH or in CHROMIUM' : false

export interface Browser {
  context: BrowserContext
  close(): Promise<void>
}

/** A person's browser: nothing in it is shared with another. */
export async function openBrowser(options: { colorScheme?: 'light' | 'dark'; width?: number } = {}): Promise<Browser> {
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-browser-'))
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: findChromium()!,
    args: FLAGS,
    colorScheme: options.colorScheme ?? 'light',
    viewport: { width: options.width ?? 1440, height: 900 },
    acceptDownloads: true,
  })
  return {
    context,
    async close() {
      await context.close()
      rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
    },
  }
}

/** One Chromium for several people, each with a context of their own. */
export async function openShared(): Promise<{ newPerson(): Promise<BrowserContext>; close(): Promise<void> }> {
  const browser = await chromium.launch({ executablePath: findChromium()!, args: FLAGS })
  return {
    newPerson: () => browser.newContext({ viewport: { width: 1440, height: 900 }, acceptDownloads: true }),
    close: () => browser.close(),
  }
}

/**
 * Replaces what is in a field for code. Its old text is deleted first: text that the browser itself puts in its place would
 * keep its colours as inline styles, which the page forbids.
 */
export async function writeCode(field: Locator, code: string): Promise<void> {
  await field.press('Control+a')
  await field.press('Delete')
  await field.fill(code)
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
