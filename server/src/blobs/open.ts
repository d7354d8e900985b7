import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ambientCredentials } from './ambient/credentials.ts'
import { type AmbientSettings, pickAmbientSettings } from './ambient/settings.ts'
import type { BlobStore } from './blobs.ts'
import { createLocalBlobs } from './local.ts'
import { createS3Blobs } from './s3.ts'

/** The settings that say where blobs are stored. */
export interface BlobSettings extends AmbientSettings {
  DATA_DIR: string
  /** `file:` and a folder, or `s3://bucket/prefix`. Absent: `blobs` in DATA_DIR. */
  BLOB_URL?: string | null | undefined
  /** Absent: Amazon's endpoint for the region. */
  S3_ENDPOINT?: string | null | undefined
  S3_REGION?: string | null | undefined
  S3_ACCESS_KEY_ID?: string | null | undefined
  S3_SECRET_ACCESS_KEY?: string | null | undefined
  /** `ambient`: the keys come from the machine, as the settings named AWS_… say. */
  S3_CREDENTIALS?: 'keys' | 'ambient' | null | undefined
}

/** Only these settings of a larger configuration: they are passed to other processes. */
export const pickBlobSettings = (settings: BlobSettings): BlobSettings => {
  const { DATA_DIR, BLOB_URL, S3_ENDPOINT, S3_REGION, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY, S3_CREDENTIALS } =
    settings
  return {
    DATA_DIR,
    BLOB_URL,
    S3_ENDPOINT,
    S3_REGION,
    S3_ACCESS_KEY_ID,
    S3_SECRET_ACCESS_KEY,
    S3_CREDENTIALS,
    ...(usesAmbient(settings) ? pickAmbientSettings(settings) : {}),
  }
}

const usesAmbient = ({ BLOB_URL, S3_CREDENTIALS }: BlobSettings): boolean =>
  S3_CREDENTIALS === 'ambient' && (BLOB_URL?.startsWith('s3:') ?? false)

/** `patienceMs`: how long requests are retried while an object store is unavailable. */
export function openBlobs(settings: BlobSettings, patienceMs?: number): BlobStore {
  const url = settings.BLOB_URL
  if (!url) return createLocalBlobs(join(settings.DATA_DIR, 'blobs'))
  if (url.startsWith('file://')) return createLocalBlobs(fileURLToPath(url))
  if (url.startsWith('file:')) return createLocalBlobs(resolve(url.slice('file:'.length)))
  const match = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(url)
  if (!match) throw new Error(`BLOB_URL is '${url}'; it must have the form file:///folder or s3://bucket/prefix.`)
  const ambient = usesAmbient(settings)
  const { S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY } = settings
  if (!ambient && (!S3_ACCESS_KEY_ID || !S3_SECRET_ACCESS_KEY)) {
    throw new Error(
      'BLOB_URL names an S3 bucket, so S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY must be set, or S3_CREDENTIALS=ambient.',
    )
  }
  const region = settings.S3_REGION || 'us-east-1'
  return createS3Blobs({
    endpoint: settings.S3_ENDPOINT || `https://s3.${region}.amazonaws.com`,
    region,
    bucket: match[1]!,
    prefix: match[2] ?? '',
    accessKeyId: S3_ACCESS_KEY_ID ?? '',
    secretAccessKey: S3_SECRET_ACCESS_KEY ?? '',
    ...(ambient ? { credentials: ambientCredentials(settings, region) } : {}),
    patienceMs,
  })
}
