/** docs/as-code.md, followed word for word: its commands, what it says that they print, and the steps of its workflow. */
import assert from 'node:assert/strict'
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { parse } from 'yaml'
import { root } from '../../../scripts/documents.ts'
import { startProgram } from '../harness/processes.ts'
import { makeDataDir, startService } from '../harness/service.ts'

const page = readFileSync(path.join(root, 'docs/as-code.md'), 'utf8')
const blocksOf = (text: string, language: string) =>
  [...text.matchAll(new RegExp(`^\`\`\`${language}\\n([\\s\\S]*?)^\`\`\`$`, 'gm'))].map(([, block]) => block!)
/** Until the first pipeline exists. */
const quickStart = blocksOf(readFileSync(path.join(root, 'README.md'), 'utf8'), 'sh')
  .find((block) => block.startsWith('API='))!
  .split('# Run it')[0]!

const folder = mkdtempSync(path.join(tmpdir(), 'sluice-as-code-'))
const dataDir = makeDataDir()
const service = await startService(dataDir, { LOG_LEVEL: 'warn' })
after(async () => {
  service.child.kill('SIGTERM')
  await service.ended
  for (const each of [folder, dataDir]) rmSync(each, { recursive: true, force: true })
})

const tools = path.join(folder, 'tools')
mkdirSync(tools)
/** In the place of GitHub's own. */
writeFileSync(path.join(tools, 'gh'), '#!/bin/sh\necho "gh $*"\ncat "$5"\n')
chmodSync(path.join(tools, 'gh'), 0o755)
const env = {
  PATH: `${tools}:${path.join(root, 'node_modules/.bin')}:${process.env.PATH}`,
  HOME: folder,
  GIT_CONFIG_GLOBAL: '/dev/null',
}

async function run(script: string, cwd: string, more: Record<string, string> = {}) {
  const file = path.join(folder, 'commands.sh')
  writeFileSync(file, `set -euo pipefail\n${script.replaceAll('http://127.0.0.1:8080', service.url)}\n`)
  return startProgram('bash', [file], { cwd, env: { ...env, ...more } }).ended
}

test('its commands do what it says', async () => {
  const { code, stdout, stderr } = await run(
    `${quickStart}\n${blocksOf(page, 'sh').join('\n')}\necho "key $SLUICE_API_KEY"`,
    folder,
  )
  assert.equal(code, 0, `${stdout}\n${stderr}`)
  assert.equal(stderr, '')
  const planned = /^```\n(~ pipeline Creatures\n[\s\S]*?)^```$/m.exec(page)![1]!
  assert.ok(stdout.includes(planned), stdout)
  for (const said of [
    /^1 file in \., 1 written$/m,
    /^name: Creatures$/m,
    /^Applied: 1 changed\.$/m,
    /^Applied: 1 created\.$/m,
  ])
    assert.match(stdout, said)
  assert.match(stdout, /^A {2}connections\/Shop\.yaml$/m)
  assert.doesNotMatch(stdout, /A {2}\.env$/m)
  writeFileSync(path.join(folder, 'key'), /^key (\S+)$/m.exec(stdout)![1]!)
})

test('its workflow plans a pull request with a comment, and applies a merge', async () => {
  const [workflow] = blocksOf(page, 'yaml').map((block) => parse(block))
  const steps: { name?: string; run?: string; if?: string }[] = workflow.jobs.sluice.steps
  assert.deepEqual(Object.keys(workflow.on), ['pull_request', 'push'])
  const stepOf = (name: string) => steps.find((step) => step.name === name)!
  assert.deepEqual(
    [stepOf('Plan').if, stepOf('Apply').if],
    ["github.event_name == 'pull_request'", "github.event_name == 'push'"],
  )
  const cwd = path.join(folder, 'warehouse')
  const given = {
    SLUICE_URL: service.url,
    SLUICE_API_KEY: readFileSync(path.join(folder, 'key'), 'utf8'),
    SHOP_PASSWORD: 'correct-horse',
    PR: '7',
  }
  rmSync(path.join(cwd, '.env'))
  rmSync(path.join(cwd, 'pipelines/Creatures.yaml'))
  const planned = await run(stepOf('Plan').run!, cwd, given)
  assert.equal(planned.code, 0, planned.stderr)
  assert.match(
    planned.stdout,
    /^gh pr comment 7 --body-file plan\.md\n### Sluice plan\n\n\*\*1 to delete\*\*\n\n- delete pipeline `Creatures`\n/,
  )
  const applied = await run(stepOf('Apply').run!, cwd, given)
  assert.equal(applied.code, 0, applied.stderr)
  assert.match(applied.stdout, /^Applied: 1 deleted\.$/m)
  writeFileSync(path.join(cwd, 'connections/Shop.yaml'), 'name: Shop\n')
  const wrong = await run(stepOf('Plan').run!, cwd, given)
  assert.equal(wrong.code, 1)
  assert.match(wrong.stdout, /problems\*\*\n\n- `connections\/Shop\.yaml:1:1: (type|connector_name): is required/)
})
