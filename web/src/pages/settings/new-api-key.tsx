/** A key just created: shown this once, with a command that proves that it works. */
import type { Permission } from '../../../../server/src/tenancy/permissions.ts'
import type { Schemas } from '../../api/client.ts'
import { Button } from '../../components/button.tsx'
import { CopyText } from '../../components/copy-text.tsx'
import { Time } from '../../components/quantities.tsx'
import styles from './settings.module.css'

export interface CreatedKey extends Pick<Schemas['CreatedApiKey'], 'name' | 'key' | 'expires_at'> {
  /** Null if it is not limited to some. */
  permissions: Permission[] | null
}

export function NewApiKey({ created, onDone }: { created: CreatedKey; onDone(): void }) {
  return (
    <section className={styles.once} aria-label="The new key">
      <CopyText label={`The key ${created.name}`} text={created.key} />
      <p className="soft">
        Copy it now: it is stored as a hash and cannot be shown again.
        {created.expires_at && (
          <>
            {' '}
            It expires <Time at={created.expires_at} />.
          </>
        )}
      </p>
      <CopyText label="Try it" text={writeCurl(created, location.origin)} />
      <div>
        <Button onClick={onDone}>I have copied the key</Button>
      </div>
    </section>
  )
}

/** What a key may read, as something worth reading. */
const READABLE: Partial<Record<Permission, string>> = {
  'pipelines:read': '/api/pipelines?limit=10',
  'connectors:read': '/api/saved/sources',
  'custom_sources:read': '/api/custom-sources',
  'domains:read': '/api/domains',
  'members:read': '/api/users',
  'api_keys:read': '/api/api-keys',
  'audit:read': '/api/audit?limit=10',
  'users:invite': '/api/users/invitations',
  'webhooks:write': '/api/webhooks',
}

function writeCurl({ key, permissions }: Pick<CreatedKey, 'key' | 'permissions'>, origin: string): string {
  const readable = Object.entries(READABLE).find(([permission]) => permissions?.includes(permission as Permission))
  // Who the key belongs to may be asked with any key.
  const path = permissions === null ? READABLE['pipelines:read'] : (readable?.[1] ?? '/api/auth/me')
  return `curl -H 'X-API-Key: ${key}' '${origin}${path}'`
}
