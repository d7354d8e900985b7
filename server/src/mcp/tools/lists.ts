/** What there is. A list says whether there is more of it. */
import { Type } from '../../schema.ts'
import { type Ask, withQuery } from '../ask.ts'
import { findPipeline, PipelineRef } from '../find.ts'
import { defineTool, inputOf } from '../tool.ts'

const limit = Type.Optional(Type.Integer({ minimum: 1, maximum: 100, default: 25 }))
const offset = Type.Optional(
  Type.Integer({ minimum: 0, maximum: 1_000_000, default: 0, description: 'How many to skip' }),
)
const status = Type.Optional(
  Type.Enum(['pending', 'running', 'success', 'failed', 'cancelled'], { description: 'Only those with this status' }),
)
const side = Type.Enum(['source', 'destination'], { description: 'Which side of a pipeline it is for' })

interface Page {
  limit?: number | undefined
  offset?: number | undefined
}

/** One item more than wanted tells whether there are more. */
async function readPage(
  ask: Ask,
  path: string,
  { limit = 25, ...query }: Page & Record<string, string | number | undefined>,
) {
  const items = await ask<unknown[]>('GET', withQuery(path, { ...query, limit: limit + 1 }))
  return { items: items.slice(0, limit), more: items.length > limit }
}

const listPipelines = defineTool({
  name: 'list_pipelines',
  title: 'List pipelines',
  description: 'Pipelines with their source, destination, schedule and last run.',
  kind: 'reads',
  input: inputOf({
    search: Type.Optional(Type.String({ minLength: 1, maxLength: 200, description: 'Part of the name' })),
    last_run_status: status,
    limit,
    offset,
  }),
  run: ({ ask }, { search, last_run_status, ...page }) =>
    readPage(ask, '/api/pipelines', { ...page, q: search, status: last_run_status, sort: 'name' }),
})

const listRuns = defineTool({
  name: 'list_runs',
  title: 'List runs',
  description: 'Runs, newest first, of all pipelines or of one, with their status and, if they failed, the reason.',
  kind: 'reads',
  input: inputOf({ pipeline: Type.Optional(PipelineRef), status, limit, offset }),
  run: async ({ ask }, { pipeline, ...page }) => {
    const pipeline_id = pipeline === undefined ? undefined : await findPipeline(ask, pipeline)
    return readPage(ask, '/api/runs', { ...page, pipeline_id })
  },
})

const listConnections = defineTool({
  name: 'list_connections',
  title: 'List connections',
  description: 'Saved sources or destinations, which pipelines refer to. Their settings are not shown.',
  kind: 'reads',
  input: inputOf({ type: side, limit, offset }),
  run: ({ ask }, { type, ...page }) => readPage(ask, `/api/saved/${type}s`, page),
})

const listSources = defineTool({
  name: 'list_sources',
  title: 'List custom sources',
  description: 'Sources that the organization has written itself: in Python, or as Airbyte manifests.',
  kind: 'reads',
  input: inputOf({ language: Type.Enum(['python', 'manifest']), limit, offset }),
  run: ({ ask }, { language, ...page }) =>
    readPage(ask, language === 'python' ? '/api/custom-sources' : '/api/manifests', page),
})

interface Connector {
  name: string
  display_name: string
  description: string
}

const readConnectors = (ask: Ask, type: string) => ask<Connector[]>('GET', `/api/connectors/${type}s`)

const listConnectors = defineTool({
  name: 'list_connectors',
  title: 'List connectors',
  description: 'The systems that pipelines can read from or write to. describe_connector shows the settings of one.',
  kind: 'reads',
  input: inputOf({ type: side }),
  run: async ({ ask }, { type }) =>
    (await readConnectors(ask, type)).map(({ name, display_name, description }) => ({
      name,
      display_name,
      description,
    })),
})

const describeConnector = defineTool({
  name: 'describe_connector',
  title: 'Describe a connector',
  description: 'The settings of a connector as JSON Schema, with an example, its streams and what it can do.',
  kind: 'reads',
  input: inputOf({
    type: side,
    name: Type.String({ minLength: 1, maxLength: 200, description: 'As list_connectors has it' }),
  }),
  run: async ({ ask }, { type, name }) => {
    const connectors = await readConnectors(ask, type)
    return connectors.find((each) => each.name === name) ?? { found: false, names: connectors.map((each) => each.name) }
  },
})

export const listTools = [listPipelines, listRuns, listConnections, listSources, listConnectors, describeConnector]
