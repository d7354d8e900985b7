/**
 * The documents generated from the program, so that they cannot disagree with it: `npm run docs` writes them, and a
 * test fails if one is stale or superfluous.
 */
import { execFileSync } from 'node:child_process'
import { existsSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { generateTypes } from '../clients/typescript/generate.ts'
import { clientSettings } from '../server/src/config/client-config.ts'
import { configurationTable } from '../server/src/config/config.ts'
import { destinations, sources } from '../server/src/connectors/registry.ts'
import type { Queryable } from '../server/src/database/database.ts'
import { catalogue } from '../server/src/errors.ts'
import type { App } from '../server/src/http/app-type.ts'
import { permissionsTable } from '../server/src/tenancy/permissions.ts'
import { agentsPage } from './agents-page.ts'
import { apiKeysPage } from './api-keys-page.ts'
import { connectorPage } from './connector-page.ts'
import { connectorsIndex } from './connectors-index.ts'
import { describeSchema } from './describe-schema.ts'
import { pipelinesPage } from './pipelines-page.ts'

export const root = path.resolve(import.meta.dirname, '..')

/** Everything in this folder is generated. */
export const CONNECTORS = 'docs/connectors'

/** Texts by their path from the root of the repository. */
export async function makeDocuments(app: App, db: Queryable): Promise<Map<string, string>> {
  const reference = app.swagger()
  return new Map([
    ['docs/configuration.md', configurationPage()],
    ['docs/errors.md', errorsPage()],
    ['docs/permissions.md', permissionsPage()],
    ['docs/agents.md', agentsPage()],
    ['docs/api-keys.md', apiKeysPage()],
    ['docs/pipelines.md', pipelinesPage()],
    ['docs/openapi.json', `${JSON.stringify(reference, null, 2)}\n`],
    ['clients/typescript/src/schema.d.ts', await generateTypes(reference)],
    ['server/src/database/schema.sql', await describeSchema(db)],
    ['web/src/pages/sources/svc.json', describeSvc()],
    [`${CONNECTORS}/README.md`, connectorsIndex()],
    ...connectorPages(),
  ])
}

/** What the console's editor completes and explains. */
function describeSvc(): string {
  const script = path.join(import.meta.dirname, 'describe-svc.py')
  return execFileSync(process.env.PYTHON ?? 'python3', [script], { encoding: 'utf8' })
}

const configurationPage = () => `# Settings

Settings are environment variables, read once at start. All of them are optional with the embedded database. \`npx sluice config\` prints the effective values, with secrets masked. Starting with invalid settings lists every problem at once.

${configurationTable()}

## For commands that call a service

\`sluice source push\` and \`sluice source preview\` run wherever the file is, and read these:

${configurationTable(clientSettings)}
`

const errorsPage = () => `# Errors

Every error is JSON with one field, \`detail\`: a sentence that says what is wrong and what to do. The header \`X-Request-Id\` of the response identifies the line in the service log.

| Status | When |
|---|---|
${Object.values(catalogue)
  .map(({ status, about }) => `| ${status} | ${about} |`)
  .join('\n')}
`

const permissionsPage = () => `# Permissions

Each member of an organization has one role in it. A domain role adds the permissions marked in the last column inside that one domain; it never takes any away. Roles are read with every request, so a change takes effect with the next one.

${permissionsTable()}

Beyond the table: nobody can change or remove the owner, an admin cannot change or remove another admin, only the owner grants the domain role \`admin\` or transfers ownership, and a member revokes only their own API keys. Removing or demoting a person who may invite cancels the invitations they sent.

## Domains

A domain groups pipelines, for a team or a topic. \`POST /api/domains\` creates one (\`name\`, and optionally \`description\` and \`color\`), and the field \`domain_id\` puts a pipeline into it. To give a member or viewer more rights in one domain, send \`POST /api/users/{user_id}/domain-roles\` with \`domain_id\` and \`role\`, \`member\` or \`admin\`.

## API keys

An [API key](api-keys.md) has the permissions of its creator, or fewer.

Some permissions are more powerful than they seem. \`users:invite\` and \`users:manage_roles\` give roles to others, \`pipelines:write\` can use every saved connector of the organization (without reading its secrets), \`custom_sources:write\` runs code, and \`webhooks:write\` sends the results of all runs to any address; it manages [alerts](alerts.md) too.
`

/** One page per system: a source and a destination of the same name share it. */
function connectorPages(): [string, string][] {
  const names = new Set([...sources, ...destinations].map(({ name }) => name))
  return [...names].sort().map((name) => [`${CONNECTORS}/${name}.md`, connectorPage({ name })])
}

/** Files in a folder for generated documents that are not generated. */
export async function findSuperfluous(documents: Map<string, string>): Promise<string[]> {
  const folder = path.join(root, CONNECTORS)
  const files = existsSync(folder) ? await readdir(folder) : []
  return files.map((file) => `${CONNECTORS}/${file}`).filter((file) => !documents.has(file))
}
