/**
 * The code of docs/connectors.md: written into a copy of the tree where the page says, compiled, and run through the
 * same suites as every connector. So the page works as written, and a new system only needs its folder, a line in the
 * registry and its fixture.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { promisify } from 'node:util'
import { root } from '../../../scripts/documents.ts'
import type { Destination, Source } from '../../src/connectors/contract.ts'
import { testConnectors } from '../harness/conformance-suite.ts'

const page = readFileSync(path.join(root, 'docs/connectors.md'), 'utf8')
const blocks = [...page.matchAll(/^```ts\n\/\/ (server\/\S+)\n([\s\S]*?)^```$/gm)].map(([, file, code]) => ({
  file: file!,
  code: code!,
}))
const copy = mkdtempSync(path.join(tmpdir(), 'sluice-walk-through-'))
after(() => rmSync(copy, { recursive: true }))

/** Everything in the tree is linked except the folders that the page adds to. */
function linkTree(from: string, to: string, open: readonly string[]): void {
  mkdirSync(to, { recursive: true })
  for (const name of readdirSync(from)) {
    const deeper = open.filter((folder) => folder.split('/')[0] === name).map((folder) => folder.slice(name.length + 1))
    if (deeper.length > 0) linkTree(path.join(from, name), path.join(to, name), deeper.filter(Boolean))
    else symlinkSync(path.join(from, name), path.join(to, name))
  }
}

linkTree(path.join(root, 'server'), path.join(copy, 'server'), ['src/connectors', 'test/connectors/fixtures'])
symlinkSync(path.join(root, 'node_modules'), path.join(copy, 'node_modules'))
for (const { file, code } of blocks) {
  mkdirSync(path.dirname(path.join(copy, file)), { recursive: true })
  writeFileSync(path.join(copy, file), code)
}

test('the page has a source, a destination and a fixture', () => {
  assert.deepEqual(
    blocks.map(({ file }) => file),
    [
      'server/src/connectors/items/source.ts',
      'server/src/connectors/items/destination.ts',
      'server/test/connectors/fixtures/items.ts',
    ],
  )
})

test('its code compiles under the rules of the project', async () => {
  const { compilerOptions } = JSON.parse(readFileSync(path.join(root, 'tsconfig.json'), 'utf8'))
  const config = { compilerOptions, files: blocks.map(({ file }) => file) }
  writeFileSync(path.join(copy, 'tsconfig.json'), JSON.stringify(config))
  const compiler = path.join(root, 'node_modules/.bin/tsc')
  await promisify(execFile)(compiler, ['--noEmit', '--project', copy], { cwd: copy }).catch((error) =>
    assert.fail(error.stdout),
  )
})

const load = (file: string) => import(path.join(copy, file))
const { itemsSource } = (await load(blocks[0]!.file)) as { itemsSource: Source }
const { itemsDestination } = (await load(blocks[1]!.file)) as { itemsDestination: Destination }
await testConnectors({
  sources: [itemsSource],
  destinations: [itemsDestination],
  load: () => load(blocks[2]!.file),
})
