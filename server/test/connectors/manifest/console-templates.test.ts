/** The manifests that the console offers as templates. */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { test } from 'node:test'
import { validateManifest } from '../../../src/connectors/manifest/validate.ts'

const FOLDER = new URL('../../../../web/src/pages/sources/templates/', import.meta.url)

for (const file of readdirSync(FOLDER))
  test(`the template ${file} runs whole`, () => {
    const { runs, findings } = validateManifest(readFileSync(new URL(file, FOLDER), 'utf8'))
    assert.deepEqual([runs, findings], ['whole', []])
  })
