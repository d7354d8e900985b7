/** Where a bucket is and who asks: the settings that source and destination share. */

import type { S3Place } from '../../s3/client.ts'
import { type Static, Type } from '../../schema.ts'
import { ConnectorError, identity, secret } from '../contract.ts'

const DEFAULT_REGION = 'us-east-1'

export const connectionSettings = {
  bucket: identity(
    Type.String({
      minLength: 3,
      maxLength: 255,
      pattern: '^[A-Za-z0-9][A-Za-z0-9._-]*$',
      description: 'Name of the bucket.',
    }),
  ),
  endpoint: Type.Optional(
    identity(
      Type.String({
        maxLength: 1024,
        pattern: '^https?://[^/?#@]+(/[^?#]*)?$',
        description: 'The http or https address of the store, without the bucket. Default: Amazon S3 in the region.',
      }),
    ),
  ),
  region: Type.String({
    default: DEFAULT_REGION,
    maxLength: 64,
    pattern: '^[A-Za-z0-9-]+$',
    description: 'The region that requests are signed for. R2 uses auto.',
  }),
  addressing: Type.Union([Type.Literal('auto'), Type.Literal('path'), Type.Literal('virtual')], {
    default: 'auto',
    description:
      'path: endpoint/bucket/key. virtual: bucket.endpoint/key. auto is virtual on Amazon S3 for a bucket without dots, path elsewhere.',
  }),
  access_key_id: Type.String({
    minLength: 1,
    maxLength: 256,
    pattern: '^[\\x21-\\x7e]+$',
    description: 'Access key id.',
  }),
  secret_access_key: secret(
    Type.String({ minLength: 1, maxLength: 1024, description: 'The secret that belongs to the access key id.' }),
  ),
  session_token: Type.Optional(
    secret(
      Type.String({
        minLength: 1,
        maxLength: 8192,
        pattern: '^[\\x21-\\x7e]+$',
        description: 'Only with temporary credentials. They expire, so they do not suit a schedule.',
      }),
    ),
  ),
  prefix: identity(
    Type.String({
      default: '',
      maxLength: 900,
      description: 'What every key begins with, usually a folder that ends with a slash.',
    }),
  ),
}

const connection = Type.Object(connectionSettings)
export type ConnectionSettings = Static<typeof connection>

export function placeOf(config: ConnectionSettings): S3Place {
  const { bucket, endpoint, region, addressing, access_key_id, secret_access_key, session_token } = config
  return {
    endpoint: endpoint ?? amazon(region),
    bucket,
    region,
    addressing:
      addressing === 'auto' ? (endpoint === undefined && !bucket.includes('.') ? 'virtual' : 'path') : addressing,
    accessKeyId: access_key_id,
    secretAccessKey: secret_access_key,
    sessionToken: session_token,
  }
}

const amazon = (region: string): string => `https://s3.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`

/** One spelling of the endpoint. */
export function canonicalPlace<T extends ConnectionSettings>(config: T): T {
  return { ...config, endpoint: new URL(config.endpoint ?? amazon(config.region)).href.replace(/\/+$/, '') }
}

/** A URL cannot express these segments, so no key can begin with them. */
export function checkFolder(text: string, setting: string): void {
  if (text.split('/').some((segment) => segment === '.' || segment === '..'))
    throw new ConnectorError('config', `${setting} has a segment . or .., which no key can have; remove it.`)
}
