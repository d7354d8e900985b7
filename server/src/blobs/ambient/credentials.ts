/**
 * Credentials that the machine provides, for the bucket of BLOB_URL alone. A tenant's bucket never gets them: its connector
 * takes keys from its own settings, and nothing under connectors/ may import this (architecture.test.ts).
 *
 * The first way that is set up is the one that is used, in the order of AWS's own tools:
 *
 *   environment      AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; they do not expire as far as we know
 *   web identity     a token in a file, exchanged for a role's credentials (Kubernetes service accounts)
 *   container        an address that answers with credentials (ECS, EKS Pod Identity)
 *   metadata         the instance's role (EC2, version 2 of the service only)
 *
 * Temporary credentials are fetched again some minutes before they expire. If that fails, the old ones are used as long as they
 * are valid, and it is tried again a little later.
 */
import { OperatorError } from '../../errors.ts'
import type { CredentialSource } from '../../s3/client.ts'
import type { TemporaryCredentials } from './ask.ts'
import { fromContainer } from './container.ts'
import { fromMetadata } from './metadata.ts'
import type { AmbientSettings } from './settings.ts'
import { fromWebIdentity } from './web-identity.ts'

/** How long before they expire new ones are fetched. */
const EARLY_MS = 5 * 60_000
/** After a failure, while the old ones are still valid. */
const PAUSE_MS = 30_000

type Provider = () => Promise<TemporaryCredentials>

export function ambientCredentials(settings: AmbientSettings, region: string, now = Date.now): CredentialSource {
  const { AWS_ACCESS_KEY_ID: accessKeyId, AWS_SECRET_ACCESS_KEY: secretAccessKey } = settings
  if (accessKeyId && secretAccessKey) {
    const keys = { accessKeyId, secretAccessKey, sessionToken: settings.AWS_SESSION_TOKEN || undefined }
    return { get: async () => keys, expire() {} }
  }
  return keepFresh(chooseProvider(settings, region), now)
}

function chooseProvider(settings: AmbientSettings, region: string): Provider {
  if (settings.AWS_WEB_IDENTITY_TOKEN_FILE && settings.AWS_ROLE_ARN) return () => fromWebIdentity(settings, region)
  if (settings.AWS_CONTAINER_CREDENTIALS_FULL_URI || settings.AWS_CONTAINER_CREDENTIALS_RELATIVE_URI)
    return () => fromContainer(settings)
  if (settings.AWS_EC2_METADATA_DISABLED?.toLowerCase() === 'true') {
    return async () => {
      throw new OperatorError(
        'S3_CREDENTIALS is ambient, but there are none: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_ROLE_ARN and AWS_WEB_IDENTITY_TOKEN_FILE, or AWS_CONTAINER_CREDENTIALS_FULL_URI, or allow the instance metadata (AWS_EC2_METADATA_DISABLED).',
      )
    }
  }
  return () => fromMetadata(settings)
}

function keepFresh(fetchNew: Provider, now: () => number): CredentialSource {
  let held: TemporaryCredentials | null = null
  let renewAt = 0
  let fetching: Promise<TemporaryCredentials> | null = null

  const renew = (): Promise<TemporaryCredentials> => {
    fetching ??= fetchNew()
      .then((fresh) => {
        held = fresh
        renewAt = fresh.expires - EARLY_MS
        // Credentials that live shorter than that are used until half of their time is over.
        if (renewAt <= now()) renewAt = now() + (fresh.expires - now()) / 2
        return fresh
      })
      .finally(() => {
        fetching = null
      })
    return fetching
  }

  return {
    async get() {
      if (held && now() < renewAt) return held
      const old = held && held.expires > now() ? held : null
      if (!old) return renew()
      return renew().catch(() => {
        renewAt = now() + PAUSE_MS
        return old
      })
    },
    expire(used) {
      if (held?.accessKeyId === used.accessKeyId && held.sessionToken === used.sessionToken) held = null
    },
  }
}
