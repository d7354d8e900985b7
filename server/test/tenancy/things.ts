/** Fresh things of the matrix's organization for a request to read, change or remove. Pipelines lie in the shared domain. */
import { randomUUID } from 'node:crypto'
import { sql } from '../../src/database/database.ts'
import type { World } from './world.ts'

export const pipelineConfig = {
  source: { name: 'dummy', stream: 'creatures', config: { records: 1 } },
  destination: { name: 'file', config: {} },
}

export const sourceCode = `
from svc.source.base import AbstractSource
from svc.source.models import SourceRecord


class Numbers(AbstractSource):
    name = "numbers"

    def get_streams(self):
        return ["numbers"]

    def check_connection(self):
        return True

    def get_records(self, stream):
        yield SourceRecord(id="1", data={"n": 1})
`

async function create(world: World, url: string, body: object): Promise<string> {
  const answer = await world.test.call('POST', url, { as: world.people.owner, body })
  if (answer.status !== 201) throw new Error(`POST ${url}: ${answer.text}`)
  return answer.body.id
}

export const freshPipeline = (world: World): Promise<string> =>
  create(world, '/api/pipelines', { name: 'fresh', config: pipelineConfig, domain_id: world.domain_id })

export const freshRun = async (world: World): Promise<string> =>
  create(world, `/api/pipelines/${await freshPipeline(world)}/run`, {})

/** One that succeeded with an empty output. */
export async function freshOutput(world: World, type = 'application/x-ndjson'): Promise<string> {
  const id = await freshRun(world)
  await world.test.services.db.execute(sql`
    UPDATE runs SET status = 'success', finished_at = now(), output_file = 'fresh', output_file_size = 0, output_parts = '[]',
           output_type = ${type} WHERE id = ${id}`)
  return id
}

/** One whose destination refused records, with an empty list of them. */
export async function freshQuarantine(world: World): Promise<string> {
  const id = await freshRun(world)
  await world.test.services.db.execute(
    sql`UPDATE runs SET status = 'failed', finished_at = now(), quarantine_parts = '[]' WHERE id = ${id}`,
  )
  return id
}

export const freshSaved = (world: World, kind: 'sources' | 'destinations'): Promise<string> =>
  create(world, `/api/saved/${kind}`, {
    name: 'fresh',
    connector_name: kind === 'sources' ? 'dummy' : 'file',
    config: {},
  })

export async function freshCustomSource(world: World): Promise<string> {
  const { db } = world.test.services
  const row = await db.first<{ id: string }>(sql`
    INSERT INTO custom_sources (organization_id, name, source_name) VALUES (${world.organization_id}, 'Fresh', ${`s${randomUUID()}`}) RETURNING id`)
  await db.execute(sql`
    INSERT INTO custom_source_versions (custom_source_id, version, code, streams) VALUES (${row!.id}, 1, ${sourceCode}, '["numbers"]')`)
  return row!.id
}

export const manifestText = JSON.stringify({
  version: '6.0.0',
  streams: [
    {
      name: 'numbers',
      retriever: {
        requester: { url_base: 'https://example.com' },
        record_selector: { extractor: { field_path: [] } },
      },
      schema_loader: { type: 'InlineSchemaLoader', schema: { type: 'object' } },
    },
  ],
})

export async function freshManifest(world: World): Promise<string> {
  const { db } = world.test.services
  const row = await db.first<{ id: string }>(sql`
    INSERT INTO custom_sources (organization_id, name, source_name, language)
    VALUES (${world.organization_id}, 'Fresh', ${`m${randomUUID()}`}, 'manifest') RETURNING id`)
  await db.execute(sql`
    INSERT INTO custom_source_versions (custom_source_id, version, code, streams) VALUES (${row!.id}, 1, ${manifestText}, '["numbers"]')`)
  return row!.id
}

export const newWebhook = () => ({ url: `https://example.com/${randomUUID()}`, events: ['run.failed'] })

/** Those of earlier requests make room, for an organization has only so many. */
export async function freshWebhook(world: World): Promise<string> {
  await world.test.services.db.execute(sql`DELETE FROM webhooks WHERE organization_id = ${world.organization_id}`)
  return create(world, '/api/webhooks', newWebhook())
}

export const newAlert = () => ({
  name: 'Tell us',
  on: ['failed', 'recovered'],
  channel: { type: 'slack', url: `https://example.com/${randomUUID()}` },
})

export async function freshAlert(world: World): Promise<string> {
  await world.test.services.db.execute(sql`DELETE FROM alerts WHERE organization_id = ${world.organization_id}`)
  return create(world, '/api/alerts', newAlert())
}

/** One that was sent. */
export async function freshDelivery(world: World): Promise<{ id: string; delivery_id: string }> {
  const id = await freshWebhook(world)
  const row = await world.test.services.db.first<{ id: string }>(sql`
    INSERT INTO webhook_deliveries (webhook_id, organization_id, event, payload, status, finished_at)
    VALUES (${id}, ${world.organization_id}, 'test', '{}', 'failed', now()) RETURNING id`)
  return { id, delivery_id: row!.id }
}
