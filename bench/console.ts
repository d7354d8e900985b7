/**
 * How the console feels in a real Chromium (on the PATH, or in CHROMIUM): its first page, the log of a run with 100,000 lines and
 * the list of 10,000 pipelines. It has to be built (npm run build -w web).
 *
 *   npm run bench:console [-- --keys 200]
 */
import './lib/help.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { findChromium } from '../server/test/harness/browser.ts'
import { measureFirst } from './lib/console-first.ts'
import { measureList } from './lib/console-list.ts'
import { measureLog } from './lib/console-log.ts'
import { startPlatform } from './lib/platform.ts'

const { values } = parseArgs({ options: { keys: { type: 'string', default: '200' } } })
if (findChromium() === null) {
  console.log('bench:console needs a Chromium on the PATH or in CHROMIUM')
  process.exit()
}
const folder = mkdtempSync(path.join(tmpdir(), 'sluice-bench-'))
const platform = await startPlatform(folder)
try {
  await measureFirst(platform)
  await measureLog(platform)
  await measureList(platform, Number(values.keys))
} finally {
  await platform.stop()
  rmSync(folder, { recursive: true, force: true })
}
