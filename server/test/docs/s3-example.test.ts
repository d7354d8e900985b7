/** The worked example of docs/connectors/s3.md, run as it stands there against a server of this machine. */
import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { it } from 'node:test'
import { findDestination, findSource } from '../../src/connectors/registry.ts'
import { findSettingsFaults } from '../../src/connectors/settings/settings.ts'
import { openRunBench } from '../harness/run-bench.ts'
import { startS3Server } from '../harness/s3-server.ts'
import { readManifest } from '../harness/s3-target.ts'

interface Example {
  source: { name: string; stream: string; config: Record<string, unknown> }
  destination: { name: string; config: Record<string, unknown> }
  sync: { mode: 'incremental'; write: 'append' }
}

it('the example of the page does what the page says', async () => {
  const page = await readFile(path.resolve(import.meta.dirname, '../../../docs/connectors/s3.md'), 'utf8')
  const text = page.slice(page.indexOf('### Example'))
  const [config, csv, manifest] = [...text.matchAll(/```(?:json|csv)\n(.*?)```/gs)].map(([, code]) => code!)
  const example = JSON.parse(config!) as Example
  const server = await startS3Server()
  const bench = await openRunBench()
  try {
    server.bucket = 'acme-exports'
    server.region = 'us-east-1'
    server.accessKeyId = String(example.source.config.access_key_id)
    server.secretAccessKey = String(example.source.config.secret_access_key)
    for (const { config } of [example.source, example.destination]) config.endpoint = server.endpoint
    assert.deepEqual(findSettingsFaults(findSource('s3')!.settings, example.source.config, 'config'), [])
    assert.deepEqual(findSettingsFaults(findDestination('s3')!.settings, example.destination.config, 'config'), [])
    server.objects.set('shop/orders/november.csv', { body: Buffer.from(csv!), modified: new Date() })
    const job = bench.job(example)
    const outcome = await bench.run(job)
    const found = (await readManifest(example.destination.config, 'orders')) as unknown as Record<string, unknown>
    const objects = found.objects as { key: string; records: number }[]
    const shortened = { columns: found.columns, objects: objects.map(({ records }) => ({ records })) }
    assert.deepEqual(shortened, JSON.parse(manifest!))
    assert.deepEqual(
      objects.map(({ key }) => key.split('/').slice(0, 3).join('/')),
      ['lake/orders/created_at_month=2026-11', 'lake/orders/created_at_month=2026-12'],
    )
    assert.equal((await bench.run(bench.next(job, outcome))).records_read, 0)
  } finally {
    await bench.close()
    await server.close()
  }
})
