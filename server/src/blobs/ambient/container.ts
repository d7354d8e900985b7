/** The credentials of a container's role, from the address that the platform sets. */
import { readFile } from 'node:fs/promises'
import { ask, readCredentials, refused, type TemporaryCredentials } from './ask.ts'
import type { AmbientSettings } from './settings.ts'

const SERVICE = 'the container credentials endpoint'
const RELATIVE_TO = 'http://169.254.170.2'
/** Where ECS and EKS serve credentials without TLS; anything else must be this machine or https. */
const PLAIN_HOSTS = ['169.254.170.2', '169.254.170.23', '[fd00:ec2::23]', 'localhost', '[::1]']

export async function fromContainer(settings: AmbientSettings): Promise<TemporaryCredentials> {
  const authorization = await readToken(settings)
  const headers = authorization === null ? {} : { authorization }
  return readCredentials(SERVICE, await ask(addressOf(settings), { service: SERVICE, headers }))
}

function addressOf(settings: AmbientSettings): string {
  const relative = settings.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI
  if (relative) return `${RELATIVE_TO}${relative.startsWith('/') ? '' : '/'}${relative}`
  const url = URL.parse(settings.AWS_CONTAINER_CREDENTIALS_FULL_URI!)
  const isPlain = url?.protocol === 'http:' && (PLAIN_HOSTS.includes(url.hostname) || /^127\./.test(url.hostname))
  if (url?.protocol === 'https:' || isPlain) return url!.href
  throw refused(SERVICE, 'AWS_CONTAINER_CREDENTIALS_FULL_URI must be https, or an address of this machine')
}

async function readToken(settings: AmbientSettings): Promise<string | null> {
  const path = settings.AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE
  if (!path) return settings.AWS_CONTAINER_AUTHORIZATION_TOKEN || null
  const token = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw refused(SERVICE, `the file of AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE cannot be read (${error.code})`, error)
  })
  return token.trim()
}
