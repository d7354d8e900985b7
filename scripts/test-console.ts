/**
 * Runs all tests of the console, and every page in all of its forms: as owner and as viewer, in both themes, on a phone, a
 * tablet and a desk, by keyboard, with a picture of each.
 */
import { spawnSync } from 'node:child_process'
import { copyFileSync } from 'node:fs'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { findChromium } from '../server/test/harness/browser.ts'

const ROOT = path.resolve(import.meta.dirname, '..')
const { values } = parseArgs({
  options: {
    install: { type: 'boolean', default: false },
    pictures: { type: 'string', default: 'console-pictures' },
    only: { type: 'string' },
    readme: { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
if (values.help) {
  console.log(`npm run test:console -- [--install] [--pictures FOLDER] [--only PATTERN] [--readme]

Tests the console in a Chromium, the one in CHROMIUM or on the PATH, with a picture of every page in FOLDER
(console-pictures unless given).

  --install   installs Debian's Chromium first, as root
  --only      only the tests whose name matches, such as "owner, dark"
  --readme    only what the pictures of the README need, and replaces them`)
  process.exit(0)
}

const run = (command: string, args: string[], env: Record<string, string> = {}): number =>
  spawnSync(command, args, { cwd: ROOT, stdio: 'inherit', env: { ...process.env, ...env } }).status ?? 1

if (values.install && findChromium() === null && run('apt-get', ['install', '--yes', 'chromium']) !== 0)
  console.error('Chromium could not be installed; see the lines above')
if (findChromium() === null) {
  console.error('There is no Chromium on the PATH or in CHROMIUM; --install installs the one of Debian')
  process.exit(1)
}
if (run('npm', ['run', '-s', 'build', '-w', 'web']) !== 0) process.exit(1)
const pictures = path.resolve(values.pictures)
const files = ['server/test/console/*.test.ts', 'server/test/http/console.test.ts']
// All pages in twelve forms take longer than a test of npm test may.
const only = values.only ?? (values.readme ? 'owner, (light|dark), 1440 px wide' : undefined)
const options = ['--test-timeout=3600000', ...(only === undefined ? [] : [`--test-name-pattern=${only}`])]
const failed = run('npm', ['run', '-s', 'test:files', '--', ...options, ...files], { CONSOLE_MATRIX: pictures })
console.log(`The pictures are in ${pictures}`)
if (values.readme && failed === 0)
  for (const [theme, name] of [
    ['light', 'console'],
    ['dark', 'console-dark'],
  ])
    copyFileSync(path.join(pictures, `home-owner-${theme}-1440.png`), path.join(ROOT, `docs/${name}.png`))
process.exit(failed)
