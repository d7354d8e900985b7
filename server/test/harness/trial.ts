import type { Destination, Sync, WriteMode } from '../../src/connectors/contract.ts'
import type { Job, Outcome } from '../../src/engine/execute.ts'
import type { DestinationFixture, Settings } from './conformance.ts'
import { assertSameRows } from './ledger.ts'
import { type LineSourceOptions, lineSource } from './line-source.ts'
import type { Attempt, AttemptOptions, RunBench } from './run-bench.ts'
import type { Said } from './said.ts'

/** One destination under test: its bench, its fixture, and the few operations that all tests consist of. */
export interface Trial {
  destination: Destination
  bench: RunBench
  fixture: DestinationFixture
  said: Said
  /** A run of these rows into the target. */
  job(target: Settings, rows: readonly string[], sync: Partial<Sync>, options?: LineSourceOptions): Job
  start(job: Job, options?: AttemptOptions): Attempt
  run(job: Job, options?: AttemptOptions): Promise<Outcome>
  /** See RunBench. */
  crash(job: Job, point: string, nth: number, options?: AttemptOptions): Promise<boolean>
  /** Runs that continue the pipeline of an earlier job, with other rows. */
  follow(job: Job, rows: readonly string[], sync?: Partial<Sync>, options?: LineSourceOptions): Job
  assertRows(target: Settings, outcome: Outcome | null, expected: readonly string[], message?: string): Promise<void>
}

export function createTrial(destination: Destination, bench: RunBench, fixture: DestinationFixture, said: Said): Trial {
  const begin = (job: Job, options: AttemptOptions = {}): Attempt => {
    const attempt = bench.start(job, { destination, ...options })
    attempt.done.catch(said.addError).finally(() => attempt.log.forEach(said.add))
    return attempt
  }
  const job = (target: Settings, rows: readonly string[], sync: Partial<Sync>, options?: LineSourceOptions): Job =>
    bench.job(
      {
        source: fixture.source?.(rows, options) ?? lineSource(rows, options),
        destination: { name: destination.name, config: target.config },
        sync: { ...keysFor(sync.write), ...sync },
      },
      { keep_output: fixture.source === undefined },
    )
  return {
    destination,
    bench,
    fixture,
    said,
    job,
    start: begin,
    run: (wanted, options) => begin(wanted, options).done,
    crash: (wanted, point, nth, options) => bench.crash(wanted, point, nth, { destination, ...options }),
    follow(earlier, rows, sync = {}, options = {}) {
      const fresh = job({ config: earlier.destination.config }, rows, { ...earlier.sync, ...sync }, options)
      return { ...fresh, pipeline_id: earlier.pipeline_id, state: earlier.state, fingerprint: earlier.fingerprint }
    },
    async assertRows(target, outcome, expected, message) {
      const rows = await fixture.read(target, outcome, bench)
      const keep = fixture.expected?.bind(fixture) ?? ((row: string) => row)
      assertSameRows(rows, expected.map(keep), message)
    },
  }
}

export function keysFor(write: WriteMode | undefined): Partial<Sync> {
  return write === 'upsert' ? { primary_key: ['id'] } : {}
}

/** What a run wrote is there for the next one: in a system of its own, or in the file that the next run goes on from. */
export const hasRows = ({ capabilities, buildOutput }: Destination): boolean =>
  capabilities.commits !== 'output' || buildOutput !== undefined
