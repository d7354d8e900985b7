import { setTimeout as delay } from 'node:timers/promises'
import { Type } from '../../schema.ts'
import { withQuery } from '../ask.ts'
import { MOST_CHARACTERS } from '../data.ts'
import { findPipeline, Id, PipelineRef } from '../find.ts'
import { defineTool, inputOf, type ToolContext } from '../tool.ts'

/** Clients give up after a minute. */
const LONGEST_WAIT_S = 50
const ASK_AGAIN_MS = 500

const run = Id('The id of a run')
const wait_seconds = Type.Optional(
  Type.Integer({
    minimum: 0,
    maximum: LONGEST_WAIT_S,
    default: 0,
    description: 'Wait up to so long for the end of the run; if it has not ended then, ask again with describe_run',
  }),
)

interface Run {
  id: string
  finished_at: string | null
}

async function waitForRun({ ask, signal }: ToolContext, id: string, seconds: number): Promise<Run> {
  const until = performance.now() + seconds * 1000
  for (;;) {
    const found = await ask<Run>('GET', `/api/pipelines/runs/${id}`)
    if (found.finished_at !== null || performance.now() >= until) return found
    await delay(ASK_AGAIN_MS, undefined, { signal })
  }
}

const runPipeline = defineTool({
  name: 'run_pipeline',
  title: 'Run a pipeline',
  description:
    'Starts a run, which loads data into the destination as the pipeline says, and answers with the run. Runs of one pipeline execute one after another.',
  kind: 'runs',
  input: inputOf({ pipeline: PipelineRef, wait_seconds }),
  run: async (context, { pipeline, wait_seconds: seconds = 0 }) => {
    const { id } = await context.ask<Run>('POST', `/api/pipelines/${await findPipeline(context.ask, pipeline)}/run`)
    return waitForRun(context, id, seconds)
  },
})

const describeRun = defineTool({
  name: 'describe_run',
  title: 'Describe a run',
  description: 'The status of a run, why it failed, and how many records it read and wrote.',
  kind: 'reads',
  input: inputOf({ run, wait_seconds }),
  run: (context, { run: id, wait_seconds: seconds = 0 }) => waitForRun(context, id, seconds),
})

const LONGEST_LINE = 2000

const readLogs = defineTool({
  name: 'read_logs',
  title: 'Read the log of a run',
  description:
    'The last lines of a log, or the last ones that have a text or at least a level. `more`: there are earlier ones.',
  kind: 'reads',
  input: inputOf({
    run,
    tail: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 100, description: 'At most so many lines' })),
    grep: Type.Optional(
      Type.String({ minLength: 1, maxLength: 200, description: 'Only lines with this text, in upper or lower case' }),
    ),
    level: Type.Optional(
      Type.Enum(['debug', 'info', 'warn', 'error'], { description: 'Only lines of this level and above' }),
    ),
  }),
  run: async ({ ask }, { run: id, tail = 100, grep, level }) => {
    const path = withQuery(`/api/pipelines/runs/${id}/logs`, { limit: tail, q: grep, level })
    const { logs, more } = await ask<{ logs: string; more: boolean }>('GET', path)
    const lines = logs.replace(/\n$/, '').split('\n')
    const last = keepEnd(lines.map((line) => (line.length > LONGEST_LINE ? `${line.slice(0, LONGEST_LINE)}…` : line)))
    return { more: more || last.length < lines.length, lines: last }
  },
})

/** The end of a log says most, so what does not fit is left out at its beginning. */
function keepEnd(lines: string[]): string[] {
  let characters = 0
  const first = lines.findLastIndex((line) => {
    characters += JSON.stringify(line).replaceAll('<', '\\u003c').length + 1
    return characters > MOST_CHARACTERS - 1000
  })
  return lines.slice(first + 1)
}

const readOutput = defineTool({
  name: 'read_output',
  title: 'Read the output of a run',
  description:
    'The first rows of what a run has written, or what a query says about it: one SELECT of DuckDB, in which the output is the table `output`.',
  kind: 'reads',
  input: inputOf({
    run,
    rows: Type.Optional(Type.Integer({ minimum: 1, maximum: 200, default: 20, description: 'At most so many rows' })),
    sql: Type.Optional(
      Type.String({ minLength: 1, maxLength: 10_000, description: 'Such as SELECT count(*) FROM output' }),
    ),
  }),
  run: ({ ask }, { run: id, rows = 20, sql }) =>
    sql === undefined
      ? ask('GET', withQuery(`/api/pipelines/runs/${id}/output/sample`, { rows }))
      : ask('POST', `/api/pipelines/runs/${id}/query`, { sql, limit: rows }),
})

export const runTools = [runPipeline, describeRun, readLogs, readOutput]
