import type { Destination } from '../../contract.ts'
import { Bucket } from '../bucket.ts'
import { openLoad } from './load.ts'
import { destinationNotes } from './notes.ts'
import { canonicalTarget, settings, targetOf } from './settings.ts'

export const s3Destination: Destination<typeof settings> = {
  kind: 'destination',
  name: 's3',
  display_name: 'S3',
  description:
    'Writes JSON lines, CSV or Parquet objects to a bucket on Amazon S3 or a compatible store (MinIO, Cloudflare R2, Google Cloud Storage), with a manifest that lists whole runs only.',
  settings,
  canonical: canonicalTarget,
  capabilities: { write: ['append', 'replace'], encodings: ['ndjson'], commits: 'batch' },
  example_config: {
    name: 's3',
    config: {
      bucket: 'acme-lake',
      region: 'eu-central-1',
      prefix: 'raw/',
      format: 'parquet',
      access_key_id: 'AKIAIOSFODNN7EXAMPLE',
      secret_access_key: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
    },
  },
  notes: destinationNotes,

  async check(context) {
    const { config, stream } = context
    const bucket = new Bucket(context, 'destination', 'check')
    const target = stream === null ? config.prefix : targetOf(config, stream)
    for await (const _ of bucket.pages({ prefix: target, pageSize: 1 })) break
    if (stream === null) return
    // Only writing tells whether one may write.
    const key = `${target}_sluice/check`
    await bucket.put(key, '')
    await bucket.delete([key])
  },

  tables: ({ format, partition_by }) => format === 'parquet' && partition_by.length === 0,

  surveys: ({ format }) => format !== 'jsonl',

  async fence() {
    return null
  },

  open: openLoad,
}
