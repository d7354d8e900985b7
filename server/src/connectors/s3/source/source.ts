import { ConnectorError, type Source, type StreamDescription } from '../../contract.ts'
import { compileGlob } from '../../formats/glob.ts'
import { Bucket } from '../bucket.ts'
import { shorten } from '../failures.ts'
import { canonicalPlace } from '../settings.ts'
import { describeStream } from './describe.ts'
import { sourceNotes } from './notes.ts'
import { findFirst, listFolders, prefixOf, WHOLE } from './objects.ts'
import { readBytes } from './read-bytes.ts'
import { readStream } from './read-stream.ts'
import { settings } from './settings.ts'

export const s3Source: Source<typeof settings> = {
  kind: 'source',
  name: 's3',
  display_name: 'S3',
  description:
    'Reads CSV, JSON lines, JSON and Parquet objects of a bucket on Amazon S3 or a compatible store (MinIO, Cloudflare R2, Google Cloud Storage), plain or compressed with gzip or zstd.',
  streams: 'dynamic',
  auth_types: [],
  settings,
  canonical: canonicalPlace,
  capabilities: { incremental: true, own_cursor: true, resumable: true, columns: false, encodings: ['ndjson'] },
  example_config: {
    name: 's3',
    stream: 'orders',
    config: {
      bucket: 'acme-exports',
      region: 'eu-central-1',
      prefix: 'shop/',
      access_key_id: 'AKIAIOSFODNN7EXAMPLE',
      secret_access_key: 'wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY',
    },
  },
  notes: sourceNotes,

  async check(context) {
    const { config, stream } = context
    compileGlob(config.glob)
    const bucket = new Bucket(context, 'source', 'check')
    const prefix = prefixOf(config, stream ?? WHOLE)
    if (stream === null) {
      for await (const _ of bucket.pages({ prefix, pageSize: 1 })) break
      return
    }
    const object = await findFirst(bucket, config, stream)
    if (object === null)
      throw new ConnectorError(
        'config',
        `No object under '${shorten(prefix)}' matches '${config.glob}'; check prefix, stream and glob.`,
      )
    for await (const _ of readBytes(bucket, object, { start: 0, end: Math.min(1, object.size) }));
  },

  listStreams: (context) => listFolders(new Bucket(context, 'source', 'check'), context.config),

  async describe(context, streams) {
    const bucket = new Bucket(context, 'source', 'check')
    const found: StreamDescription[] = []
    // One after the other: each may need a DuckDB and a temporary file.
    for (const stream of streams) found.push(await describeStream(bucket, context, stream))
    return found
  },

  async read(context) {
    return { columns: null, pages: readStream(context) }
  },
}
