import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { test } from 'node:test'
import { findSuperfluous, makeDocuments, root } from '../../../scripts/documents.ts'
import { startApp } from '../harness/app.ts'

const { app, services } = await startApp()
const documents = await makeDocuments(app, services.db)

for (const [file, text] of documents)
  test(`${file} matches the program`, async () => {
    const written = await readFile(path.join(root, file), 'utf8').catch(() => '')
    assert.equal(written, text, `${file} is stale: run \`npm run docs\` and commit what it wrote`)
  })

test('no page of a removed connector is left', async () => {
  assert.deepEqual(await findSuperfluous(documents), [], 'run `npm run docs` and commit what it removed')
})
