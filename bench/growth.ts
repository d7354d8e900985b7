/**
 * What growth costs. Two installations run side by side: a small one (one organization, 1,000 pipelines, 10,000 runs and
 * entries of the audit log) and a large one (`npm run seed` says what it holds). Every list of the largest organization, and
 * claim, tick, renewal and end of runs, are measured on both in turns, so that other work on the machine hits both alike.
 *
 *   npm run bench:growth                                       a million runs, some minutes
 *   npm run bench:growth -- --organizations 1000 --pipelines 100000 --runs 10000000 --audit 10000000
 *   npm run bench:growth -- --keep DIR …                       both stay in DIR, and the next time they are found there
 *   npm run bench:growth -- --keep DIR control retention       only some of: lists, control, retention
 */
import './lib/help.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { measureControl } from './lib/growth-control.ts'
import { measureLists } from './lib/growth-lists.ts'
import { measureRetention } from './lib/growth-retention.ts'
import { openInstallation } from './lib/installation.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    organizations: { type: 'string', default: '100' },
    pipelines: { type: 'string', default: '10000' },
    runs: { type: 'string', default: '1000000' },
    audit: { type: 'string', default: '1000000' },
    keep: { type: 'string' },
  },
})
const parts = { lists: measureLists, control: measureControl, retention: measureRetention }
const folder = values.keep ?? mkdtempSync(path.join(tmpdir(), 'sluice-growth-'))
try {
  const small = await openInstallation(path.join(folder, 'small'), {
    organizations: 1,
    pipelines: 1000,
    runs: 10_000,
    audit: 10_000,
  })
  const large = await openInstallation(path.join(folder, 'large'), {
    organizations: Number(values.organizations),
    pipelines: Number(values.pipelines),
    runs: Number(values.runs),
    audit: Number(values.audit),
  })
  for (const [name, measure] of Object.entries(parts))
    if (positionals.length === 0 || positionals.includes(name)) await measure(small, large)
} finally {
  if (!values.keep) rmSync(folder, { recursive: true, force: true })
}
