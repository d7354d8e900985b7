/** The credentials of an instance's role, from version 2 of its metadata service, which wants a token of its own first. */
import { ask, readCredentials, refused, type TemporaryCredentials } from './ask.ts'
import type { AmbientSettings } from './settings.ts'

const SERVICE = 'the instance metadata service'
const ADDRESS = 'http://169.254.169.254'
/** It is next to the instance, or it is not there at all. */
const TIMEOUT_MS = 1500
const FOLDER = '/latest/meta-data/iam/security-credentials/'

export async function fromMetadata(settings: AmbientSettings): Promise<TemporaryCredentials> {
  const base = (settings.AWS_EC2_METADATA_SERVICE_ENDPOINT || ADDRESS).replace(/\/+$/, '')
  const token = await ask(`${base}/latest/api/token`, {
    service: SERVICE,
    method: 'PUT',
    headers: { 'x-aws-ec2-metadata-token-ttl-seconds': '300' },
    timeoutMs: TIMEOUT_MS,
  })
  if (!/^[\x21-\x7e]{1,1024}$/.test(token)) throw refused(SERVICE, 'it answered with no token')
  const read = (path: string): Promise<string> =>
    ask(`${base}${path}`, { service: SERVICE, headers: { 'x-aws-ec2-metadata-token': token }, timeoutMs: TIMEOUT_MS })
  const role = (await read(FOLDER)).split('\n')[0]!.trim()
  if (!/^[\w+=,.@-]{1,128}$/.test(role)) throw refused(SERVICE, 'the instance has no role')
  return readCredentials(SERVICE, await read(`${FOLDER}${role}`))
}
