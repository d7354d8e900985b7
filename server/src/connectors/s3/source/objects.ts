/**
 * Which objects a stream is. A stream is a folder below the prefix, with everything in it that matches `glob`; `*` is the
 * prefix itself. As elsewhere in this field, what begins with an underscore or a dot is not data: manifests, checksums, work in
 * progress.
 */
import type { S3Object } from '../../../s3/listing.ts'
import { compileGlob } from '../../formats/glob.ts'
import type { Bucket } from '../bucket.ts'
import { checkFolder } from '../settings.ts'
import type { SourceSettings } from './settings.ts'

export const WHOLE = '*'
/** Streams are for people to choose from. */
const MOST_STREAMS = 10_000

export function prefixOf({ prefix }: SourceSettings, stream: string): string {
  checkFolder(prefix, 'prefix')
  if (stream === WHOLE) return prefix
  checkFolder(stream, 'stream')
  return `${prefix}${stream.replace(/\/+$/, '')}/`
}

export async function* listStream(
  bucket: Bucket,
  config: SourceSettings,
  stream: string,
  after?: string,
): AsyncGenerator<S3Object> {
  const prefix = prefixOf(config, stream)
  const matches = compileGlob(config.glob)
  const request = after === undefined ? { prefix } : { prefix, after }
  for await (const object of bucket.list(request)) {
    const name = object.key.slice(prefix.length)
    if (isData(name) && matches(name)) yield object
  }
}

const isData = (name: string): boolean => !name.endsWith('/') && !/(?:^|\/)[_.]/.test(name)

export async function findFirst(bucket: Bucket, config: SourceSettings, stream: string): Promise<S3Object | null> {
  for await (const object of listStream(bucket, config, stream)) return object
  return null
}

/** The folders right below the prefix, and the prefix itself. */
export async function listFolders(bucket: Bucket, { prefix }: SourceSettings): Promise<string[]> {
  checkFolder(prefix, 'prefix')
  const streams = [WHOLE]
  for await (const { folders } of bucket.pages({ prefix, delimiter: '/' })) {
    for (const folder of folders) {
      const name = folder.slice(prefix.length, -1)
      if (name !== '' && name !== WHOLE && isData(name)) streams.push(name)
    }
    if (streams.length >= MOST_STREAMS) break
  }
  return streams.slice(0, MOST_STREAMS)
}
