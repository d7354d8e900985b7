/** The engine for tests: the application of a test file with its own worker, and helpers that wait for events. */
import assert from 'node:assert/strict'
import { after } from 'node:test'
import { sql } from '../../src/database/database.ts'
import { startWorker, type Worker } from '../../src/runs/worker.ts'
import { type Person, registerPerson, startApp, type TestApp } from './app.ts'

export interface Engine extends TestApp {
  person: Person
  /** Starts a worker that is stopped with the test file; there may be several. */
  work(): Promise<Worker>
  createPipeline(config: PipelineSketch, as?: Person): Promise<string>
  trigger(pipelineId: string, as?: Person): Promise<string>
  run(runId: string): Promise<Run>
  /** Waits until the run's row satisfies the condition. */
  until(runId: string, what: (run: Run) => boolean): Promise<Run>
  finished(runId: string): Promise<Run>
  logs(runId: string): Promise<string>
}

export interface Run {
  id: string
  organization_id: string
  status: string
  attempt: number
  error: string | null
  checkpoint: number
  records_read: number
  records_written: number
  output_file: string | null
  worker: string | null
  started_at: string | null
  finished_at: string | null
  lost_attempts: number
}

export interface PipelineSketch {
  /** Settings of the dummy source. */
  dummy?: Record<string, unknown>
  source?: Record<string, unknown>
  destination?: Record<string, unknown>
  [more: string]: unknown
}

export async function startEngine(
  env: Record<string, string> = {},
  connect?: Parameters<typeof startApp>[1],
): Promise<Engine> {
  const app = await startApp(env, connect)
  const { db } = app.services
  const person = await registerPerson(app, 'Engineer')
  const workers: Worker[] = []
  after(async () => {
    for (const worker of workers) await worker.stop(AbortSignal.abort())
  })
  const engine: Engine = {
    ...app,
    person,
    async work() {
      const worker = await startWorker(app.services)
      workers.push(worker)
      return {
        done: worker.done,
        async stop(deadline) {
          workers.splice(workers.indexOf(worker), 1)
          await worker.stop(deadline)
        },
      }
    },
    async createPipeline({ dummy, source, destination, ...more }, as = person) {
      const config = {
        name: 'test',
        source: source ?? { name: 'dummy', stream: 'creatures', config: dummy ?? {} },
        destination: destination ?? { name: 'file', config: {} },
        ...more,
      }
      const answer = await app.call('POST', '/api/pipelines', { as, body: { name: 'test', config } })
      assert.equal(answer.status, 201, answer.text)
      return answer.body.id
    },
    async trigger(pipelineId, as = person) {
      const answer = await app.call('POST', `/api/pipelines/${pipelineId}/run`, { as })
      assert.equal(answer.status, 201, answer.text)
      return answer.body.id
    },
    async run(runId) {
      return (await db.first<Run>(sql`SELECT * FROM runs WHERE id = ${runId}`))!
    },
    async until(runId, what) {
      const follower = app.services.runMessages.follow(runId)
      try {
        for (;;) {
          const run = await engine.run(runId)
          if (what(run)) return run
          await follower.next(100)
        }
      } finally {
        follower.stop()
      }
    },
    finished: (runId) => engine.until(runId, (run) => run.finished_at !== null),
    async logs(runId) {
      return (await app.call('GET', `/api/pipelines/runs/${runId}/logs`, { as: person })).body.logs
    },
  }
  return engine
}
