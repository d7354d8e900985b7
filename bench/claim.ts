/**
 * Claims. First what workers reach together: simulated workers, real except for their executors, claim and finish runs of
 * 100 organizations, eight at a time each; with the CPU time of the database, and the claims of which it was spent. Then
 * real workers (`sluice worker`), whose runs write one record to a file. Then the claim with a deep queue: 100,000 ready runs
 * of 1,000 organizations, with statistics that were taken while the queue was empty, and again after ANALYZE, compared with a
 * claim from an empty queue.
 *
 *   npm run bench:claim                              all of it, some five minutes
 *   npm run bench:claim -- workers --workers 1,8     only so many workers
 *   npm run bench:claim -- workers --times 3 --drain 10000   medians of three, ten thousand runs each time
 *   npm run bench:claim -- real --workers 1,2,4,8
 *   npm run bench:claim -- deep --runs 50000 --organizations 500
 */
import './lib/help.ts'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { connectDatabase } from '../server/src/database/database.ts'
import { startEmbeddedPostgres } from '../server/src/database/embedded-postgres.ts'
import { migrate } from '../server/src/database/migrate.ts'
import { measureDeepQueue } from './lib/deep-queue.ts'
import { measureWorkers } from './lib/many-workers.ts'
import { measureRealWorkers } from './lib/real-workers.ts'

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    workers: { type: 'string' },
    drain: { type: 'string', default: '5000' },
    times: { type: 'string', default: '1' },
    runs: { type: 'string', default: '100000' },
    organizations: { type: 'string', default: '1000' },
  },
})
const often = { times: Number(values.times), drain: Number(values.drain) }
const countsOr = (usual: string) => (values.workers ?? usual).split(',').map(Number)
const parts = {
  workers: measureWorkers(countsOr('1,2,4,8,10,100,500'), often),
  real: measureRealWorkers(countsOr('1,2,4,8'), often),
  deep: measureDeepQueue(Number(values.runs), Number(values.organizations)),
}

for (const [name, measure] of Object.entries(parts)) {
  if (positionals.length > 0 && !positionals.includes(name)) continue
  const folder = mkdtempSync(path.join(tmpdir(), 'sluice-claim-'))
  const server = await startEmbeddedPostgres(folder, 'bench')
  const db = connectDatabase(server.connection, 2, console.error)
  try {
    await migrate(db)
    await measure({ db, connection: server.connection, folder })
  } finally {
    await db.close()
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  }
}
