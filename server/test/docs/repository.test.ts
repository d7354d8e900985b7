import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { root } from '../../../scripts/documents.ts'
import { settings } from '../../src/config/settings.ts'

const read = (file: string) => readFileSync(path.join(root, file), 'utf8')
const pages = [
  ...readdirSync(root),
  ...readdirSync(path.join(root, 'docs'), { recursive: true, encoding: 'utf8' }).map((file) => `docs/${file}`),
].filter((file) => file.endsWith('.md'))
const readme = read('README.md')

test('every link between the pages leads somewhere', () => {
  assert.ok(pages.length > 10)
  for (const page of pages)
    for (const [, target] of read(page).matchAll(/\]\((?!https?:|mailto:|#)([^)#]+)(?:#[^)]*)?\)/g))
      assert.ok(existsSync(path.join(root, path.dirname(page), target!)), `${page} links to ${target}`)
})

test('CI runs exactly the command from the README', () => {
  const command = 'npm ci && npm test'
  assert.ok(readme.includes(`\n${command}\n`))
  assert.equal(read('.ci/run').trim().split('\n').at(-1), command)
  assert.ok(statSync(path.join(root, '.ci/run')).mode & 0o100, '.ci/run can be run')
})

test('the settings in the README exist', () => {
  const named = [...readme.matchAll(/^\| (`[^|]+`) \|/gm)].flatMap(([, names]) => [...names!.matchAll(/`(\w+)`/g)])
  assert.ok(named.length > 8)
  for (const [, name] of named) assert.ok(name! in settings, name)
})

test('the lock file contains no registry address', () => {
  assert.ok(!read('package-lock.json').includes('"resolved": "http'))
})
