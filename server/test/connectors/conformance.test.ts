/**
 * Every connector of the registry against the suites in test/harness. A new one only needs its fixture. One that takes minutes
 * has a file of its own, conformance-<name>.test.ts, so that two of them run at the same time.
 */
import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { it } from 'node:test'
import { sources } from '../../src/connectors/registry.ts'
import { testConnectors, testRegistered } from '../harness/conformance-suite.ts'

await testRegistered((name) => !existsSync(new URL(`conformance-${name}.test.ts`, import.meta.url)))

it('an unavailable system is skipped, and one line says why', async () => {
  const lines: string[] = []
  for (const unavailable of ['install it with its own package', async () => 'nobody listens on its port']) {
    await testConnectors({
      sources: sources.slice(0, 1),
      destinations: [],
      load: async () => ({ unavailable }),
      print: (line) => lines.push(line),
    })
  }
  const [{ name }] = sources as [(typeof sources)[number]]
  assert.deepEqual(lines, [
    `${name} is not tested: install it with its own package`,
    `${name} is not tested: nobody listens on its port`,
  ])
})
