/** docs/api-keys.md. The permissions in it come from the program. */
import { domainPermissions } from '../server/src/tenancy/permissions.ts'

const list = (names: readonly string[]) => names.map((name) => `\`${name}\``).join(', ')

export const apiKeysPage = () => `# API keys

A program uses an API key instead of signing in. The examples use \`API\`, \`call\` and \`field\` from the
[quick start](../README.md#a-first-pipeline).

\`\`\`sh
KEY=$(call /api-keys -d '{ "name": "nightly report", "expires_in_days": 90 }' | field key)
\`\`\`

The key is shown only once. \`expires_in_days\` is 30, 90, 180, 365 or null (never). Send it in the header \`X-API-Key\`, not as a bearer
token:

\`\`\`sh
curl -fsS $API/pipelines -H "X-API-Key: $KEY"
\`\`\`

A key belongs to the organization it was created in, and may do what its creator may do at the moment of each request: when the
creator's role changes, so does the key's, and when they leave the organization, it stops working.

| Request | What it does |
|---|---|
| \`POST /api/api-keys\` | creates a key: \`name\`, \`expires_in_days\`, and optionally \`role\` and \`scopes\` |
| \`GET /api/api-keys\` | lists the keys of the organization, with when and by whom each was created and when it was last used |
| \`DELETE /api/api-keys/{key_id}\` | revokes a key at once. A member can revoke only their own |

## Limits

A key can be limited to less than its creator may do:

\`\`\`sh
DOMAIN_ID=$(call /domains -d '{ "name": "Reports" }' | field id)
call /api-keys -d "{
  \\"name\\": \\"dashboard\\", \\"expires_in_days\\": null, \\"role\\": \\"viewer\\",
  \\"scopes\\": { \\"permissions\\": [\\"pipelines:read\\"], \\"domain_id\\": \\"$DOMAIN_ID\\" }
}"
\`\`\`

- \`role\`: the key has at most this role, which cannot be higher than your own. It also counts in rules that compare roles.
- \`scopes.permissions\`: these [permissions](permissions.md) and no others. You must have each of them yourself.
  \`organization:transfer\` is not possible: no key can transfer ownership.
- \`scopes.domain_id\`: this domain only. The key sees the domain, its pipelines and their runs. Other pipelines and runs are 404,
  everything that concerns the whole organization is 403. Allowed with ${list(domainPermissions)}.

Every request needs the permission of both the key and its creator. A key with limits cannot accept invitations or list the
organizations of its creator.

A key that is created with a key has at most the same limits, expires no later, and is revoked with it. A key cannot change a
password or a name, switch the organization, see or end sessions, or transfer ownership (403).
`
