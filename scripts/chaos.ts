/**
 * The long chaos test: `npm run chaos -- --seed 1 --minutes 10`. It ends with a summary, or with the first wrong
 * result.
 */
import { parseArgs } from 'node:util'
import { unleashChaos } from '../server/test/chaos/chaos.ts'

const { values } = parseArgs({
  options: {
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    minutes: { type: 'string', default: '10' },
    runs: { type: 'string' },
    quiet: { type: 'boolean', default: false },
    help: { type: 'boolean', short: 'h', default: false },
  },
})
if (values.help) {
  console.log(
    'npm run chaos -- [--seed N] [--minutes M] [--runs N] [--quiet]\nKills workers, executors and the database at random during runs, then checks every output.',
  )
  process.exit(0)
}
const seed = Number(values.seed)
const seconds = Number(values.minutes) * 60
const runs = Number(values.runs ?? Math.max(200, Math.round(seconds / 3)))
console.log(`seed ${seed}, ${runs} runs over 20 pipelines, ${values.minutes} minutes`)
const began = Date.now()
const say = (line: string) => {
  if (!values.quiet) console.log(`${((Date.now() - began) / 1000).toFixed(1).padStart(7)} s  ${line}`)
}
const result = await unleashChaos({ seed, runs, pipelines: 20, records: 400, seconds, say })
console.log(JSON.stringify(result))
if (result.resumed < 20) {
  console.error(
    `only ${result.resumed} attempts resumed from a checkpoint; at least 20 are needed for a meaningful test`,
  )
  process.exitCode = 1
}
