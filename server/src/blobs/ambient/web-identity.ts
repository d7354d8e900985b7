/** Exchanges a token in a file, which the platform renews there, for the credentials of a role. */
import { readFile } from 'node:fs/promises'
import { readTag } from '../../s3/xml.ts'
import { ask, checkCredentials, refused, type TemporaryCredentials } from './ask.ts'
import type { AmbientSettings } from './settings.ts'

const SERVICE = 'the security token service'

export async function fromWebIdentity(settings: AmbientSettings, region: string): Promise<TemporaryCredentials> {
  const path = settings.AWS_WEB_IDENTITY_TOKEN_FILE!
  const token = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw refused(SERVICE, `the file of AWS_WEB_IDENTITY_TOKEN_FILE cannot be read (${error.code})`, error)
  })
  const body = new URLSearchParams({
    Action: 'AssumeRoleWithWebIdentity',
    Version: '2011-06-15',
    RoleArn: settings.AWS_ROLE_ARN!,
    RoleSessionName: settings.AWS_ROLE_SESSION_NAME || 'sluice',
    WebIdentityToken: token.trim(),
  }).toString()
  const url =
    settings.AWS_ENDPOINT_URL_STS || `https://sts.${region}.amazonaws.com${region.startsWith('cn-') ? '.cn' : ''}`
  const headers = { 'content-type': 'application/x-www-form-urlencoded' }
  const answer = await ask(url, { service: SERVICE, method: 'POST', headers, body })
  return checkCredentials(SERVICE, {
    accessKeyId: readTag(answer, 'AccessKeyId'),
    secretAccessKey: readTag(answer, 'SecretAccessKey'),
    sessionToken: readTag(answer, 'SessionToken'),
    expires: readTag(answer, 'Expiration'),
  })
}
